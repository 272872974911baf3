//! What some profiles hold together, and what follows from it.

use std::path::{Path, PathBuf};

use llmprof_analysis::{Analysis, analyze, summary_lines};
use llmprof_record::{
    counters::Counters,
    import::{self, Limits, Profile},
    issue::{Issue, Severity},
    memory::MemoryHistory,
    store::{RunDir, write_atomically},
    summary::SummaryTable,
    trace::Trace,
};
use llmprof_theory::device::{Catalog, Device};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    counters::{CountersAnalysis, LaunchRow},
    files, memory,
};
use crate::failure::Failure;

pub(super) const TRACE_FILE: &str = "trace.llmprof";
const COUNTERS_FILE: &str = "counters.json";
const MEMORY_FILE: &str = "memory.json";
const SUMMARIES_FILE: &str = "summaries.json";
const ANALYSIS_FILE: &str = "analysis.json";

/// A table of sums and the file it came from.
#[derive(Serialize, Deserialize)]
pub(super) struct Summary {
    file: String,
    #[serde(flatten)]
    table: SummaryTable,
}

/// Profiles of one program: a timeline, counters, tables of sums.
#[derive(Default)]
pub(super) struct Contents {
    trace: Option<Box<Trace>>,
    counters: Option<Box<Counters>>,
    summaries: Vec<Summary>,
    memory: Option<Box<MemoryHistory>>,
    /// `name: format`, for the summary.
    sources: Vec<String>,
}

/// What follows from the contents: `analysis.json`, and what `--json` prints.
#[derive(Serialize)]
pub(super) struct Findings {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    timeline: Option<Analysis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<CountersAnalysis>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    summaries: Vec<SummaryTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryHistory>,
    /// Where there is no timeline, the losses stand here; with one they are in it.
    #[serde(rename = "issues", skip_serializing_if = "Vec::is_empty")]
    other_issues: Vec<Issue>,
    #[serde(skip)]
    sources: Vec<String>,
}

impl Contents {
    /// Reads profiles of one program. Two timelines are two runs.
    pub(super) fn import(files: &[PathBuf]) -> Result<Self, Failure> {
        let mut contents = Self::default();
        for file in files {
            let (format, profile) = import::import(file, &Limits::default())
                .map_err(|error| Failure::new(error.to_string()))?;
            contents
                .sources
                .push(format!("{}: {format}", file.display()));
            match profile {
                Profile::Trace(_) if contents.trace.is_some() => {
                    return Err(
                        Failure::new(format!("{} is a second timeline", file.display()))
                            .hint("import each timeline into a run of its own".to_owned()),
                    );
                }
                Profile::Trace(trace) => contents.trace = Some(trace),
                Profile::Counters(more) => {
                    match &mut contents.counters {
                        None => contents.counters = Some(more),
                        Some(_) => {
                            return Err(Failure::new(format!("{} holds a second set of counters", file.display()))
                            .hint("import a directory of reports, or each report into a run of its own".to_owned()));
                        }
                    }
                }
                Profile::Memory(_) if contents.memory.is_some() => {
                    return Err(Failure::new(format!(
                        "{} is a second snapshot of memory",
                        file.display()
                    ))
                    .hint("import each snapshot into a run of its own".to_owned()));
                }
                Profile::Memory(memory) => contents.memory = Some(memory),
                Profile::Summary(table) => contents.summaries.push(Summary {
                    file: files::name(file),
                    table: *table,
                }),
            }
        }
        Ok(contents)
    }

    /// Reads them back from a run.
    pub(super) fn load(run: &Path) -> Result<Self, Failure> {
        let trace = run.join(TRACE_FILE);
        let trace = trace
            .is_file()
            .then(|| Trace::load(&trace).map_err(|error| Failure::new(error.to_string())))
            .transpose()?;
        let contents = Self {
            trace: trace.map(Box::new),
            counters: json(&run.join(COUNTERS_FILE))?,
            summaries: json(&run.join(SUMMARIES_FILE))?.unwrap_or_default(),
            memory: json(&run.join(MEMORY_FILE))?,
            sources: Vec::new(),
        };
        if contents.trace.is_none()
            && contents.counters.is_none()
            && contents.summaries.is_empty()
            && contents.memory.is_none()
        {
            return Err(Failure::new(format!(
                "{} holds no profile to analyze",
                run.display()
            )));
        }
        Ok(contents)
    }

    pub(super) fn save(&self, store: &RunDir) -> Result<(), Failure> {
        if let Some(trace) = &self.trace {
            trace
                .save(&store.path().join(TRACE_FILE))
                .map_err(|error| Failure::new(error.to_string()))?;
        }
        if let Some(counters) = &self.counters {
            store.write(COUNTERS_FILE, text(counters)?)?;
        }
        if !self.summaries.is_empty() {
            store.write(SUMMARIES_FILE, text(&self.summaries)?)?;
        }
        if let Some(memory) = &self.memory {
            store.write(MEMORY_FILE, text(memory)?)?;
        }
        Ok(())
    }

    /// Rooflines are of `device`, or of the one that the timeline names.
    pub(super) fn analyze(&self, device: Option<&Device>) -> Findings {
        let mut other_issues = Vec::new();
        let mut timeline = self.trace.as_ref().map(|trace| {
            let (known, issue) = match device {
                Some(device) => (Some(device.clone()), None),
                None => described(trace),
            };
            let mut analysis = analyze(trace, known.as_ref());
            analysis.issues.extend(issue);
            analysis
        });
        let counters = self
            .counters
            .as_ref()
            .map(|counters| CountersAnalysis::of(counters, timeline.as_ref()));
        let lost = self
            .counters
            .iter()
            .flat_map(|counters| &counters.issues)
            .chain(
                self.summaries
                    .iter()
                    .flat_map(|summary| &summary.table.issues),
            )
            .chain(self.memory.iter().flat_map(|memory| &memory.issues));
        match &mut timeline {
            Some(analysis) => analysis.issues.extend(lost.cloned()),
            None => other_issues.extend(lost.cloned()),
        }
        Findings {
            timeline,
            counters,
            summaries: self
                .summaries
                .iter()
                .map(|summary| summary.table.clone())
                .collect(),
            memory: self.memory.as_deref().cloned(),
            other_issues,
            sources: self.sources.clone(),
        }
    }
}

/// The description of the device that a timeline names, or why there is none.
fn described(trace: &Trace) -> (Option<Device>, Option<Issue>) {
    let Some(name) = trace
        .devices
        .iter()
        .map(|device| device.name.as_str())
        .find(|name| !name.is_empty())
    else {
        return (None, None);
    };
    match Catalog::embedded().by_driver_name(name) {
        Ok(device) => (Some(device), None),
        Err(error) => {
            let issue = Issue::new(
                Severity::Warning,
                "hardware.unknown",
                format!("no rooflines: {error}"),
            )
            .with_hint("--device NAME compares with another device");
            (None, Some(issue))
        }
    }
}

impl Findings {
    pub(super) fn issues(&self) -> &[Issue] {
        self.timeline
            .as_ref()
            .map_or(&self.other_issues, |analysis| &analysis.issues)
    }

    /// About ten lines.
    pub(super) fn summary(&self) -> Vec<String> {
        let mut lines = self.sources.clone();
        // What was lost stands above every number.
        lines.extend(self.issues().iter().map(ToString::to_string));
        if let Some(analysis) = &self.timeline {
            lines.extend(summary_lines(analysis));
        }
        if let Some(counters) = &self.counters {
            lines.extend(counters.summary());
        }
        for table in &self.summaries {
            lines.extend(files::table_lines(table));
        }
        if let Some(memory) = &self.memory {
            lines.extend(memory::lines(memory));
        }
        lines
    }

    pub(super) fn save(&self, store: &RunDir) -> Result<(), Failure> {
        for (name, text) in self.files()? {
            store.write(name, text)?;
        }
        Ok(())
    }

    /// Writes the files anew into a run that ended.
    pub(super) fn replace(&self, run: &Path) -> Result<(), Failure> {
        for (name, text) in self.files()? {
            write_atomically(&run.join(name), text.as_bytes())?;
        }
        Ok(())
    }

    fn files(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let mut files = vec![(ANALYSIS_FILE, text(self)?)];
        if let Some(analysis) = &self.timeline {
            if !analysis.kernels.is_empty() {
                files.push(("kernels.csv", files::kernels_csv(analysis)));
            }
            if !analysis.operators.is_empty() {
                files.push(("operators.csv", files::operators_csv(analysis)));
            }
        }
        if let Some(counters) = &self.counters {
            files.push(("counters.csv", LaunchRow::csv(&counters.launches)));
        }
        if let Some(timeline) = self.memory.as_ref().and_then(memory::csv) {
            files.push((memory::FILE, timeline));
        }
        Ok(files)
    }
}

fn text<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))
}

/// The contents of a JSON file of a run; `None` where there is no such file.
fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
    };
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| failed(&error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}
