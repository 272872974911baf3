//! Foreign profiles: into a run (`import`), analyzed again (`analyze`), out of it (`export`).

mod contents;
mod counters;
mod files;
mod memory;

use std::{io::Write as _, path::Path, time::Instant};

use llmprof_record::{
    store::{Pass, RunDir, RunStatus, StoredRun, relist, write_atomically},
    trace::Trace,
};
use llmprof_units::Nanos;

use self::contents::{Contents, Findings, TRACE_FILE};
use crate::{
    args::{AnalyzeArgs, ExportArgs, ExportFormat, ImportArgs},
    clock,
    failure::Failure,
    output::Output,
    subject,
};

pub(crate) fn import(args: &ImportArgs, output: &mut Output) -> Result<(), Failure> {
    let started = Instant::now();
    let contents = Contents::import(&args.files)?;
    let device = args.device.as_deref().map(subject::device).transpose()?;
    let findings = contents.analyze(device.as_ref());
    let dir = match &args.output {
        Some(dir) => dir.clone(),
        None => files::default_directory(&args.files),
    };
    let mut store = RunDir::create(&dir, clock::now(), crate::VERSION)?;
    let written = (|| -> Result<(), Failure> {
        store.describe("import", "", &[])?;
        contents.save(&store)?;
        findings.save(&store)?;
        for issue in findings.issues() {
            store.add_issue(issue.clone())?;
        }
        store.set_pass(Pass {
            name: "import".to_owned(),
            status: RunStatus::Complete,
            duration_ns: Some(Nanos(started.elapsed().as_nanos() as i64)),
            exit_code: None,
        })?;
        Ok(())
    })();
    match written {
        Ok(()) => store.finish(RunStatus::Complete, None, clock::now())?,
        Err(failure) => {
            // The first failure is the one to report; the directory says `running` if even this cannot be written.
            let _ = store.finish(RunStatus::Failed, Some(failure.to_string()), clock::now());
            return Err(failure);
        }
    }
    print(&findings, args.json, &dir, output)
}

pub(crate) fn analyze(args: &AnalyzeArgs, output: &mut Output) -> Result<(), Failure> {
    let run = StoredRun::open(&args.run)?;
    let contents = Contents::load(&run.path)?;
    let device = args.device.as_deref().map(subject::device).transpose()?;
    let findings = contents.analyze(device.as_ref());
    findings.replace(&run.path)?;
    let dir = run.path.clone();
    relist(run)?;
    print(&findings, args.json, &dir, output)
}

fn print(findings: &Findings, json: bool, dir: &Path, output: &mut Output) -> Result<(), Failure> {
    if json {
        return output.json(findings);
    }
    for line in findings.summary() {
        output.line(&line)?;
    }
    output.line(&format!("run: {}", dir.display()))
}

pub(crate) fn export(args: &ExportArgs, output: &mut Output) -> Result<(), Failure> {
    let run = StoredRun::open(&args.run)?;
    let file = run.path.join(TRACE_FILE);
    if !file.is_file() {
        return Err(Failure::new(format!(
            "{} has no timeline to export",
            run.path.display()
        )));
    }
    let trace = Trace::load(&file).map_err(|error| Failure::new(error.to_string()))?;
    let target = args.output.clone().unwrap_or_else(|| {
        run.path.join(match args.to {
            ExportFormat::Chrome => "trace.json",
            ExportFormat::Sqlite => "trace.sqlite",
        })
    });
    match args.to {
        ExportFormat::Chrome => {
            let mut text = Vec::new();
            trace
                .write_chrome(&mut text)
                .and_then(|()| text.flush())
                .map_err(|error| {
                    Failure::new(format!("cannot write {}: {error}", target.display()))
                })?;
            write_atomically(&target, &text)?;
        }
        ExportFormat::Sqlite => trace
            .write_sqlite(&target)
            .map_err(|error| Failure::new(error.to_string()))?,
    }
    if target.starts_with(&run.path) {
        relist(run)?;
    }
    output.line(&target.display().to_string())
}
