//! Profiles: into a run (`import`), analyzed again (`analyze`), reported again (`report`), out of it (`export`).

mod again;
mod contents;
mod counters;
pub(crate) mod files;
pub(crate) mod memory;
mod page;
mod request;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    time::Instant,
};

use llmprof_record::{
    issue::Issue,
    store::{Pass, RunDir, RunStatus, StoredRun, relist, write_atomically},
    trace::Trace,
};
use llmprof_units::Nanos;

pub(crate) use self::contents::TRACE_FILE;
use self::contents::{Contents, Findings};
use crate::{
    args::{AnalyzeArgs, ExportArgs, ExportFormat, ImportArgs, ReportArgs},
    clock,
    failure::Failure,
    output::Output,
    slices::Sliced,
    subject,
};

pub(crate) fn import(args: &ImportArgs, output: &mut Output) -> Result<(), Failure> {
    let started = Instant::now();
    let (profiles, overrides) = request::split(&args.files);
    if let Some(done) = super::trtexec::import(&profiles, args, output) {
        return done;
    }
    let subject = request::subject(args.config.as_deref(), &overrides)?;
    let mut contents = Contents::import(&profiles)?;
    let device = args.device.as_deref().map(subject::device).transpose()?;
    request::describe(
        &mut contents.recorded,
        subject,
        device,
        args.device.as_deref(),
    );
    let findings = contents.analyze(None)?;
    let dir = match &args.output {
        Some(dir) => dir.clone(),
        None => files::default_directory(&profiles),
    };
    let mut store = RunDir::create(&dir, clock::now(), crate::VERSION)?;
    let written = (|| -> Result<(), Failure> {
        store.describe("import", &contents.recorded.name, &overrides)?;
        contents.save(&store)?;
        for issue in findings.issues() {
            store.add_issue(issue.clone())?;
        }
        let results = findings
            .run()
            .map(|run| contents.results(run, None, &dir))
            .transpose()?;
        for (name, text) in findings.files(&contents, results.as_ref(), findings.issues())? {
            store.write(&name, text)?;
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
    let mut run = StoredRun::open(&args.run)?;
    let mut contents = Contents::load(&run.path)?;
    let device = args.device.as_deref().map(subject::device).transpose()?;
    let findings = contents.analyze(device.as_ref())?;
    // What the analysis before this one complained of may be over.
    let before = again::issues(&run.path);
    run.manifest.issues.retain(|issue| !before.contains(issue));
    for issue in findings.issues() {
        if !run.manifest.issues.contains(issue) {
            run.manifest.issues.push(issue.clone());
        }
    }
    let results = findings
        .run()
        .map(|analysis| contents.results(analysis, device.as_ref(), &run.path))
        .transpose()?;
    let files = findings.files(&contents, results.as_ref(), &run.manifest.issues)?;
    contents::replace(&run.path, &files)?;
    let dir = run.path.clone();
    relist(run)?;
    print(&findings, args.json, &dir, output)
}

/// Renders the reports of a run again from its analysis.
pub(crate) fn report(args: &ReportArgs, output: &mut Output) -> Result<(), Failure> {
    let run = StoredRun::open(&args.run)?;
    let contents = Contents::load(&run.path)?;
    let issues = &run.manifest.issues;
    let files = if contents.tells_time() {
        let analysis = again::analysis(&run.path)?;
        let results = contents.results(&analysis, None, &run.path)?;
        let mut files = crate::outputs::files(&results, issues, true);
        files.push(crate::outputs::metrics_file(&results)?);
        files
    } else {
        page::Others::of(&contents, None).files(issues)
    };
    contents::replace(&run.path, &files)?;
    let page = run.path.join("report.html");
    relist(run)?;
    output.line(&page.display().to_string())?;
    if args.open {
        again::open(&page)?;
    }
    Ok(())
}

/// Reads profiles into a run that is open, analyzes them and writes all that follows. `in_slices` says that they were to be
/// recorded within a budget.
pub(crate) fn keep(
    profiles: &[PathBuf],
    device: Option<&str>,
    sliced: Option<Sliced>,
    mut issues: Vec<Issue>,
    store: &mut RunDir,
) -> Result<Findings, Failure> {
    let mut contents = Contents::import(profiles)?;
    let described = device.map(subject::device).transpose()?;
    request::describe(&mut contents.recorded, None, described, device);
    let mut findings = contents.analyze(None)?;
    if let Some(sliced) = sliced {
        issues.extend(sliced.issues(findings.has_slices(), findings.issues()));
    }
    findings.add_issues(issues);
    contents.save(store)?;
    for issue in findings.issues() {
        store.add_issue(issue.clone())?;
    }
    let dir = store.path().to_owned();
    let results = findings
        .run()
        .map(|run| contents.results(run, None, &dir))
        .transpose()?;
    for (name, text) in findings.files(&contents, results.as_ref(), findings.issues())? {
        store.write(&name, text)?;
    }
    Ok(findings)
}

/// What profiles come to, in a few lines.
pub(crate) fn conclusion(findings: &Findings) -> Vec<String> {
    findings.summary()
}

pub(crate) fn print(
    findings: &Findings,
    json: bool,
    dir: &Path,
    output: &mut Output,
) -> Result<(), Failure> {
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
