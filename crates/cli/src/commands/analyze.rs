//! `analyze`: a run, again.

use llmprof_analysis::judged_device;

use crate::{
    args::AnalyzeArgs,
    failure::Failure,
    kernel_notes,
    output::Output,
    outputs::{self, Results, WantedFiles},
    profiles::{self, Profiled, files::open_run, interrupted},
    stored, subject,
    viewing::given_or_newest,
};

pub(crate) fn analyze(args: &AnalyzeArgs, output: &mut Output) -> Result<(), Failure> {
    let mut locked = open_run(&given_or_newest(args.run.as_deref())?)?.lock()?;
    interrupted::recover(&mut locked)?;
    let run = &mut locked.run;
    let record = profiles::load(&run.path)?;
    let device = args.device.as_deref().map(subject::device).transpose()?;
    let analysis = profiles::analyzed(&record, device.as_ref())?;
    // What the analysis before this one found may be over.
    let before = stored::issues(run);
    run.manifest.issues.retain(|issue| !before.contains(issue));
    for issue in &analysis.issues {
        if !run.manifest.issues.contains(issue) {
            run.manifest.issues.push(issue.clone());
        }
    }
    let judged = judged_device(&record, device.as_ref());
    let kept = outputs::kept_predictions(run);
    let notes = kernel_notes::of_run(&run.path)?;
    let results = Results {
        record: &record,
        analysis: &analysis,
        device: judged.device.as_ref(),
        predictions: kept.as_ref(),
        notes: Some(&notes),
    };
    let mut files = outputs::files(&results, &run.manifest.issues, WantedFiles::ALL)?;
    files.push(("analysis.json".to_owned(), outputs::text(&analysis)?));
    let dir = run.path.clone();
    stored::replace(&locked, &files)?;
    locked.finish()?;
    let profiled = Profiled {
        record,
        analysis,
        unwritten: None,
    };
    profiled.print(args.json, &dir, output)
}
