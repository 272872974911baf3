//! Profiles of programs: read, analyzed, kept in a run.

pub(crate) mod files;
pub(crate) mod interrupted;
mod lost;
pub(crate) mod request;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use llmprof_analysis::{Analysis, judged_device};
use llmprof_capture::session::Sliced;
use llmprof_record::{
    command_line,
    import::{self, ImportError, Limits, Profile},
    issue::{Issue, IssueCode},
    mapped::was_cut,
    run::RunRecord,
    store::RunDir,
    trace::Trace,
};
use llmprof_report::text;
use llmprof_theory::device::Device;

use crate::{
    failure::Failure,
    output::{Output, warn_of},
    outputs::{self, Results, WantedFiles},
    subject::{self, RunSubject},
};

/// Reads profiles into a run that is open, analyzes them and writes all that follows. `sliced` says that they were to be
/// recorded within a budget.
pub(crate) fn keep(
    profiles: &[PathBuf],
    name: &str,
    subject: Option<&RunSubject>,
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
        let more = sliced.into_issues(has_slices, &analysis.issues);
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
    pub(crate) record: RunRecord,
    pub(crate) analysis: Analysis,
    /// Why the run directory does not have all of it.
    pub(crate) unwritten: Option<Failure>,
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
        output.summary(&self.digest())?;
        warn_of(&self.analysis.issues);
        if let Some(unwritten) = self.unwritten {
            return Err(unwritten);
        }
        output.report(dir)
    }
}

fn unreadable(error: &ImportError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        ImportError::NoEvents {
            worst: Some(worst), ..
        } => failure.hint(text::issue(worst)),
        _ => failure,
    }
}

/// Files that a command was given, by name or in folders.
#[derive(Default)]
pub(crate) struct FoundInputs {
    pub(crate) files: Vec<PathBuf>,
    /// Files of an unrecognized format in the folders.
    pub(crate) others: Vec<PathBuf>,
    /// Those of `files` that lie in the folders: one without a usable profile is left out.
    pub(crate) searched: HashSet<PathBuf>,
}

/// Reads profiles of one program, those of folders as far as they can be used.
pub(crate) fn read_found(inputs: &FoundInputs) -> Result<RunRecord, Failure> {
    let mut record = RunRecord::default();
    let (mut used, mut unusable) = (Vec::new(), Vec::new());
    for file in &inputs.files {
        let profile = match import::import(file, &Limits::default()) {
            Ok((_, profile)) => profile,
            Err(error) if inputs.searched.contains(file) && error.is_of_content() => {
                unusable.push(error);
                continue;
            }
            Err(error) => return Err(not_imported(file, &error)),
        };
        if let Profile::Trace(trace) = &profile {
            lost::refuse(file, trace)?;
        }
        record
            .add_profile(&files::name(file), profile)
            .map_err(|second| {
                let others = inputs.files.iter().filter(|other| *other != file);
                let others: Vec<String> = others.map(|other| files::name(other)).collect();
                let own = command_line::join_words(&[file.display().to_string()]);
                Failure::new(format!(
                    "{} is {second} beside {}",
                    file.display(),
                    others.join(", ")
                ))
                .hint(format!(
                    "{}; `llmprof import {own}` imports this one",
                    second.hint()
                ))
            })?;
        used.push(file.clone());
    }
    if let (true, Some(error)) = (used.is_empty(), unusable.first()) {
        return Err(unreadable(error));
    }
    record.name = files::title(&used);
    for error in unusable {
        let issue = Issue::warning(IssueCode::ImportLeftOut).with("why", error.to_string());
        record.issues.push(issue);
    }
    if !inputs.others.is_empty() {
        let names = inputs.others.iter().map(|file| files::name(file));
        let issue =
            Issue::info(IssueCode::ImportLeftOut).with("files", files::listed(names.collect()));
        record
            .issues
            .push(issue.counting(inputs.others.len() as u64));
    }
    Ok(record)
}

/// Reads profiles of one program.
pub(crate) fn read(profiles: &[PathBuf]) -> Result<RunRecord, Failure> {
    read_found(&FoundInputs {
        files: profiles.to_vec(),
        ..FoundInputs::default()
    })
}

fn not_imported(file: &Path, error: &ImportError) -> Failure {
    if file.join("run.json").is_file() {
        let run = command_line::join_words(&[file.display().to_string()]);
        Failure::new(format!(
            "{} is a run, which is imported already",
            file.display()
        ))
        .hint(format!(
            "`llmprof view {run}` shows it, `llmprof analyze {run}` analyzes it again"
        ))
    } else if file.exists() {
        unreadable(error)
    } else {
        files::missing(file)
    }
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

pub(crate) fn write(
    record: &RunRecord,
    analysis: &Analysis,
    store: &mut RunDir,
) -> Result<(), Failure> {
    let judged = judged_device(record, None);
    let results = Results {
        record,
        analysis,
        device: judged.device.as_ref(),
        predictions: None,
        notes: None,
    };
    outputs::write(&results, WantedFiles::ALL, store)
}
