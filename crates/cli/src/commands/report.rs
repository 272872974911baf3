//! `report`: the pages of a run, again from its analysis.

use crate::{
    args::ReportArgs,
    browser,
    failure::Failure,
    kernel_notes,
    output::Output,
    outputs::{self, Results, WantedFiles},
    profiles::{self, files::open_run},
    stored,
    viewing::given_or_newest,
};

/// Renders the reports of a run again from its analysis.
pub(crate) fn report(args: &ReportArgs, output: &mut Output) -> Result<(), Failure> {
    let locked = open_run(&given_or_newest(args.run.as_deref())?)?.lock()?;
    let run = &locked.run;
    let record = profiles::load(&run.path)?;
    let analysis = stored::analysis(run)?;
    let judged = stored::device(&record, &analysis);
    let notes = kernel_notes::of_run(&run.path)?;
    let results = Results {
        record: &record,
        analysis: &analysis,
        device: judged.as_ref(),
        predictions: None,
        notes: Some(&notes),
    };
    let files = outputs::files(&results, &run.manifest.issues, WantedFiles::ALL)?;
    let page = run.path.join("report.html");
    stored::replace(&locked, &files)?;
    locked.finish()?;
    output.line(&page.display().to_string())?;
    if args.open {
        browser::open(&page)?;
    }
    Ok(())
}
