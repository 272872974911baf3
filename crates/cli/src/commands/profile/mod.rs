//! Profiles: into a run (`import`), analyzed again (`analyze`), reported again (`report`), out of it (`export`).

pub(crate) mod again;
pub(crate) mod counters;
pub(crate) mod files;
pub(crate) mod interrupted;
mod lost;
pub(crate) mod memory;
pub(crate) mod request;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    time::Instant,
};

use llmprof_analysis::{Analysis, host_stacks::flame_stacks, judged_device};
use llmprof_capture::session::Sliced;
use llmprof_record::{
    flame::{self, FlameStack},
    import::{self, Limits, Profile},
    issue::{Issue, IssueCode},
    mapped::was_cut,
    run::{RunRecord, TRACE_FILE},
    store::{LockedRun, Pass, RunDir, RunStatus, StoredRun, write_atomically},
    trace::Trace,
};
use llmprof_report::text::warning_lines;
use llmprof_theory::device::Device;
use llmprof_units::Nanos;

use crate::{
    args::{AnalyzeArgs, ExportArgs, ExportFormat, ImportArgs, ReportArgs},
    clock,
    failure::Failure,
    kernel_notes,
    output::Output,
    outputs::{self, Results, Wanted},
    progress::with_spinner,
    subject::{self, Subject},
};

pub(crate) fn import(args: &ImportArgs, output: &mut Output) -> Result<(), Failure> {
    let started = Instant::now();
    let (profiles, overrides) = request::split(&args.files);
    if profiles.is_empty() {
        return Err(Failure::new("no profile to import")
            .hint(format!("llmprof import FILE {}", overrides.join(" "))));
    }
    if let Some(done) = super::trtexec::import(&profiles, args, output) {
        return done;
    }
    let subject = request::subject(args.config.as_deref(), &overrides)?;
    let mut record = with_spinner("reading", || read(&profiles))?;
    let device = args.device.as_deref().map(subject::device).transpose()?;
    request::describe(&mut record, subject.as_ref(), device);
    let analysis = with_spinner("analyzing", || analyzed(&record, None))?;
    let dir = match &args.output {
        Some(dir) => dir.clone(),
        None => files::default_directory(&profiles),
    };
    let mut store = RunDir::create(&dir, clock::now(), crate::VERSION)
        .map_err(|error| Failure::directory(&error, "-o DIR"))?;
    let mut write_all = || -> Result<(), Failure> {
        store.describe("import", &record.name, &overrides)?;
        record.save(store.path())?;
        write(&record, &analysis, &mut store)?;
        store.set_pass(Pass {
            name: "import".to_owned(),
            status: RunStatus::Complete,
            duration_ns: Some(Nanos(started.elapsed().as_nanos() as i64)),
            exit_code: None,
        })?;
        Ok(())
    };
    let unwritten = match with_spinner("writing reports", &mut write_all) {
        Ok(()) => store
            .finish(RunStatus::Complete, None, clock::now())
            .err()
            .map(Failure::from),
        Err(failure) => {
            // The first failure is the one to report; the directory says `running` if even this cannot be written.
            let _ = store.finish(RunStatus::Failed, Some(failure.to_string()), clock::now());
            Some(failure)
        }
    };
    let profiled = Profiled {
        record,
        analysis,
        unwritten,
    };
    profiled.print(args.json, &dir, output)?;
    if args.view {
        super::view::view_run(dir, output)?;
    }
    Ok(())
}

pub(crate) fn analyze(args: &AnalyzeArgs, output: &mut Output) -> Result<(), Failure> {
    let mut locked = StoredRun::open(&args.run)?.lock()?;
    interrupted::recover(&mut locked)?;
    let run = &mut locked.run;
    let record = load(&run.path)?;
    let device = args.device.as_deref().map(subject::device).transpose()?;
    let analysis = analyzed(&record, device.as_ref())?;
    // What the analysis before this one found may be over.
    let before = again::issues(run);
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
    let mut files = outputs::files(&results, &run.manifest.issues, Wanted::ALL)?;
    files.push(("analysis.json".to_owned(), outputs::text(&analysis)?));
    let dir = run.path.clone();
    replace(&locked, &files)?;
    locked.finish()?;
    let profiled = Profiled {
        record,
        analysis,
        unwritten: None,
    };
    profiled.print(args.json, &dir, output)
}

/// Renders the reports of a run again from its analysis.
pub(crate) fn report(args: &ReportArgs, output: &mut Output) -> Result<(), Failure> {
    let locked = StoredRun::open(&args.run)?.lock()?;
    let run = &locked.run;
    let record = load(&run.path)?;
    let analysis = again::analysis(run)?;
    let judged = again::device(&record, &analysis);
    let notes = kernel_notes::of_run(&run.path)?;
    let results = Results {
        record: &record,
        analysis: &analysis,
        device: judged.as_ref(),
        predictions: None,
        notes: Some(&notes),
    };
    let files = outputs::files(&results, &run.manifest.issues, Wanted::ALL)?;
    let page = run.path.join("report.html");
    replace(&locked, &files)?;
    locked.finish()?;
    output.line(&page.display().to_string())?;
    if args.open {
        again::open(&page)?;
    }
    Ok(())
}

/// Reads profiles into a run that is open, analyzes them and writes all that follows. `sliced` says that they were to be
/// recorded within a budget.
pub(crate) fn keep(
    profiles: &[PathBuf],
    name: &str,
    subject: Option<&Subject>,
    device: Option<&str>,
    sliced: Option<Sliced>,
    issues: Vec<Issue>,
    store: &mut RunDir,
) -> Result<Profiled, Failure> {
    let mut record = read(profiles)?;
    name.clone_into(&mut record.name);
    let described = device.map(subject::device).transpose()?;
    request::describe(&mut record, subject, described);
    let mut analysis = analyzed(&record, None)?;
    record.issues = issues;
    if let Some(sliced) = sliced {
        let timeline = analysis.timeline.as_ref();
        let few = |issue: &Issue| issue.code == IssueCode::SlicesFew;
        let has_slices = timeline.is_some_and(|timeline| timeline.scaled.is_some())
            || analysis.issues.iter().any(few);
        let more = sliced.issues(has_slices, &analysis.issues);
        record.issues.extend(more);
    }
    analysis.issues.extend(record.issues.iter().cloned());
    let saved = record.save(store.path()).map_err(Failure::from);
    let written = saved.and_then(|()| write(&record, &analysis, store));
    Ok(Profiled {
        record,
        analysis,
        unwritten: written.err(),
    })
}

/// Profiles with what follows from them.
pub(crate) struct Profiled {
    record: RunRecord,
    analysis: Analysis,
    /// Why the run directory does not have all of it.
    unwritten: Option<Failure>,
}

impl Profiled {
    pub(crate) fn record(&self) -> &RunRecord {
        &self.record
    }

    /// What a terminal prints of them.
    pub(crate) fn digest(&self) -> Vec<String> {
        let results = Results {
            record: &self.record,
            analysis: &self.analysis,
            device: None,
            predictions: None,
            notes: None,
        };
        results.digest()
    }

    /// Whether a device did anything in what was recorded.
    pub(crate) fn has_device_events(&self) -> bool {
        let traces = self.record.traces.iter().map(|recorded| &recorded.trace);
        let events = |trace: &Trace| trace.kernels.len() + trace.copies.len() + trace.memsets.len();
        traces.map(events).sum::<usize>() > 0
    }

    /// Why the run directory does not have all of it, where it does not.
    pub(crate) fn unwritten(&self) -> Option<&Failure> {
        self.unwritten.as_ref()
    }

    /// Prints what was found, and then fails where it could not be written.
    pub(crate) fn print(self, json: bool, dir: &Path, output: &mut Output) -> Result<(), Failure> {
        if json {
            output.json(&self.analysis)?;
            return self.unwritten.map_or(Ok(()), Err);
        }
        for line in self.digest() {
            output.line(&line)?;
        }
        let mut warnings = Output::stderr();
        for line in warning_lines(&self.analysis.issues) {
            warnings.line(&line)?;
        }
        if let Some(unwritten) = self.unwritten {
            return Err(unwritten);
        }
        output.line(&format!("report: {}", dir.join("report.html").display()))
    }
}

/// Reads profiles of one program.
pub(crate) fn read(profiles: &[PathBuf]) -> Result<RunRecord, Failure> {
    let mut record = RunRecord {
        name: files::title(profiles),
        ..RunRecord::default()
    };
    for file in profiles {
        let (_, profile) = import::import(file, &Limits::default())
            .map_err(|error| Failure::new(error.to_string()))?;
        if let Profile::Trace(trace) = &profile {
            lost::refuse(file, trace)?;
        }
        record
            .add_profile(&files::name(file), profile)
            .map_err(|second| {
                Failure::new(format!("{} is {second}", file.display()))
                    .hint(second.hint().to_owned())
            })?;
    }
    Ok(record)
}

/// The record of a run that has something to analyze.
pub(crate) fn load(run: &Path) -> Result<RunRecord, Failure> {
    let record = RunRecord::load(run)?.filter(|record| !record.is_empty());
    record.ok_or_else(|| {
        Failure::new(format!("{} holds no profile to analyze", run.display()))
            .hint("`llmprof runs show RUN` shows how far the run came".to_owned())
    })
}

pub(crate) fn analyzed(record: &RunRecord, device: Option<&Device>) -> Result<Analysis, Failure> {
    let mut analysis = llmprof_analysis::analyze(record, device)
        .map_err(|error| Failure::new(format!("cannot analyze the run: {error}")))?;
    // What stands in the run is better than an analysis of zeros.
    if was_cut() {
        return Err(Failure::cut());
    }
    analysis.issues.extend(outputs::saturated(record));
    Ok(analysis)
}

fn write(record: &RunRecord, analysis: &Analysis, store: &mut RunDir) -> Result<(), Failure> {
    let judged = judged_device(record, None);
    let results = Results {
        record,
        analysis,
        device: judged.device.as_ref(),
        predictions: None,
        notes: None,
    };
    outputs::write(&results, Wanted::ALL, store)
}

/// Writes files anew into a run that ended.
fn replace(run: &LockedRun, files: &[outputs::Output]) -> Result<(), Failure> {
    for (name, contents) in files {
        run.write(name, contents)?;
    }
    Ok(())
}

pub(crate) fn export(args: &ExportArgs, output: &mut Output) -> Result<(), Failure> {
    let run = StoredRun::open(&args.run)?;
    let file = run.path.join(TRACE_FILE);
    if !run.folder()?.has_file(TRACE_FILE) {
        return Err(Failure::new(format!(
            "{} has no timeline to export",
            run.path.display()
        )));
    }
    let trace = Trace::load(&file).map_err(|error| Failure::new(error.to_string()))?;
    let name = match args.to {
        ExportFormat::Pftrace => "trace.pftrace",
        ExportFormat::Chrome => "trace.json",
        ExportFormat::Sqlite => "trace.sqlite",
        ExportFormat::Folded => "host_idle.folded",
        ExportFormat::Speedscope => "host.speedscope.json",
    };
    let target = args.output.clone().unwrap_or_else(|| run.path.join(name));
    let within = target.starts_with(&run.path);
    let run_path = &run.path.clone();
    // A file of the run is written by whoever holds the run.
    let locked = within.then(|| run.lock()).transpose()?;
    let text = match args.to {
        ExportFormat::Pftrace => Some(super::view::pftrace(run_path)?),
        ExportFormat::Chrome => {
            let mut text = Vec::new();
            trace
                .write_chrome(&mut text)
                .and_then(|()| text.flush())
                .map_err(|error| {
                    Failure::new(format!("cannot write {}: {error}", target.display()))
                })?;
            Some(text)
        }
        ExportFormat::Sqlite => {
            trace
                .write_sqlite(&target)
                .map_err(|error| Failure::new(error.to_string()))?;
            None
        }
        ExportFormat::Folded => {
            Some(flame::write_folded(&host_stacks(&trace, true, run_path)?).into())
        }
        ExportFormat::Speedscope => {
            let profiles = [
                (
                    "while no GPU was busy",
                    host_stacks(&trace, true, run_path)?,
                ),
                ("all the time", host_stacks(&trace, false, run_path)?),
            ];
            Some(flame::write_speedscope(&profiles).into())
        }
    };
    if let Some(text) = text {
        match (&locked, &args.output) {
            (Some(locked), None) => locked.write(name, &text)?,
            _ => write_atomically(&target, &text)?,
        }
    }
    if let Some(locked) = locked {
        locked.finish()?;
    }
    output.line(&target.display().to_string())
}

/// The stacks of a trace that has some.
fn host_stacks(trace: &Trace, only_idle: bool, run: &Path) -> Result<Vec<FlameStack>, Failure> {
    let stacks = flame_stacks(trace, only_idle);
    if stacks.is_empty() && flame_stacks(trace, false).is_empty() {
        return Err(
            Failure::new(format!("{} has no host stacks to export", run.display())).hint(
                "`llmprof record` samples them; torch.profiler records them with with_stack=True"
                    .to_owned(),
            ),
        );
    }
    Ok(stacks)
}
