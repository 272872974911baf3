//! What some profiles hold together, and what follows from it.

use std::path::{Path, PathBuf};

use llmprof_analysis::{counters::CountersAnalysis, run::RunAnalysis};
use llmprof_record::{
    counters::Counters,
    import::{self, Limits, Profile},
    issue::Issue,
    memory::MemoryHistory,
    store::{RunDir, write_atomically},
    summary::SummaryTable,
    trace::Trace,
};
use llmprof_report::{Report, render::terminal};
use llmprof_theory::device::Device;
use serde::{Deserialize, Serialize};

use super::{counters, files, memory};
pub(crate) use crate::outputs::recorded::TRACE_FILE;
use crate::{
    failure::Failure,
    outputs::{
        self, Others, Output, Results,
        recorded::{Captured, Recorded, described, json},
        text,
    },
    telemetry::curves,
};

const COUNTERS_FILE: &str = "counters.json";
const MEMORY_FILE: &str = "memory.json";
const SUMMARIES_FILE: &str = "summaries.json";
const ANALYSIS_FILE: &str = "analysis.json";

/// A table of sums and the file it came from.
#[derive(Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) file: String,
    #[serde(flatten)]
    pub(super) table: SummaryTable,
}

/// Profiles of one program: a timeline, counters, tables of sums.
#[derive(Default)]
pub(super) struct Contents {
    /// What is known beside the timeline.
    pub(super) recorded: Recorded,
    trace: Option<Box<Trace>>,
    pub(super) counters: Option<Box<Counters>>,
    pub(super) summaries: Vec<Summary>,
    pub(super) memory: Option<Box<MemoryHistory>>,
}

/// What follows from the contents: `analysis.json`, and what `--json` prints.
#[derive(Serialize)]
pub(crate) struct Findings {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    run: Option<RunAnalysis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<CountersAnalysis>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    summaries: Vec<SummaryTable>,
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "memory::brief"
    )]
    memory: Option<MemoryHistory>,
    /// Where there is no timeline, the losses stand here; with one they are in it.
    #[serde(rename = "issues", skip_serializing_if = "Vec::is_empty")]
    other_issues: Vec<Issue>,
    /// What a terminal prints.
    #[serde(skip)]
    digest: Vec<String>,
}

impl Contents {
    /// Reads profiles of one program. Two timelines are two runs.
    pub(super) fn import(files: &[PathBuf]) -> Result<Self, Failure> {
        let mut contents = Self::default();
        for file in files {
            let (_, profile) = import::import(file, &Limits::default())
                .map_err(|error| Failure::new(error.to_string()))?;
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
            recorded: Recorded::load(run)?.unwrap_or_default(),
            trace: trace.map(Box::new),
            counters: json(&run.join(COUNTERS_FILE))?,
            summaries: json(&run.join(SUMMARIES_FILE))?.unwrap_or_default(),
            memory: json(&run.join(MEMORY_FILE))?,
        };
        if contents.trace.is_none()
            && contents.recorded.captured == Captured::Trace
            && contents.counters.is_none()
            && contents.summaries.is_empty()
            && contents.memory.is_none()
        {
            return Err(
                Failure::new(format!("{} holds no profile to analyze", run.display()))
                    .hint("`llmprof runs show RUN` tells how far the run came".to_owned()),
            );
        }
        Ok(contents)
    }

    pub(super) fn save(&self, store: &RunDir) -> Result<(), Failure> {
        if let Some(trace) = &self.trace {
            outputs::save_trace(trace, store.path())?;
            self.recorded.save(store.path())?;
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

    /// Whether they say where time went: a timeline, or operators that passes recorded.
    pub(super) fn tells_time(&self) -> bool {
        self.trace.is_some() || self.recorded.captured == Captured::Operators
    }

    /// Limits are those of `device`, of the recorded one, or of the one that the timeline names.
    pub(super) fn analyze(&mut self, device: Option<&Device>) -> Result<Findings, Failure> {
        let mut other_issues = Vec::new();
        let mut unknown = None;
        if let Some(trace) = &self.trace
            && self.recorded.device.is_none()
            && device.is_none()
        {
            (self.recorded.device, unknown) = described(trace);
        }
        let mut run = self
            .tells_time()
            .then(|| self.recorded.analyze(self.trace.as_deref(), device))
            .transpose()?;
        let timeline = run.as_ref().and_then(|run| run.timeline.as_deref());
        let counters = self
            .counters
            .as_ref()
            .map(|counters| CountersAnalysis::of(counters, timeline));
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
        match &mut run {
            Some(run) => run.issues.extend(unknown.into_iter().chain(lost.cloned())),
            None => other_issues.extend(lost.cloned()),
        }
        let others = self.others();
        let digest = terminal::digest(
            &Report {
                analysis: run.as_ref(),
                ..others.report(&[])
            }
            .digest(),
        );
        Ok(Findings {
            run,
            counters,
            summaries: self
                .summaries
                .iter()
                .map(|summary| summary.table.clone())
                .collect(),
            memory: self.memory.as_deref().cloned(),
            other_issues,
            digest,
        })
    }

    /// The profiles without a timeline.
    pub(super) fn others(&self) -> Others<'_> {
        let sums = self.summaries.iter();
        Others {
            counters: self.counters.as_deref(),
            sums: sums.map(|sum| (sum.file.as_str(), &sum.table)).collect(),
            memory: self.memory.as_deref(),
        }
    }

    /// What the reports of an analysis are made of.
    pub(super) fn results<'a>(
        &'a self,
        analysis: &'a RunAnalysis,
        device: Option<&'a Device>,
        run: &Path,
    ) -> Result<Results<'a>, Failure> {
        Ok(Results {
            analysis,
            model: self.recorded.model.as_ref(),
            device: device.or(self.recorded.device.as_ref()),
            measured: self.recorded.measured.as_ref(),
            trace: self.trace.as_deref(),
            telemetry: curves::load(run)?,
            others: self.others(),
        })
    }
}

impl Findings {
    pub(super) fn issues(&self) -> &[Issue] {
        self.run
            .as_ref()
            .map_or(&self.other_issues, |run| &run.issues)
    }

    /// Adds what is known to be lost beside what the profiles say.
    pub(super) fn add_issues(&mut self, issues: Vec<Issue>) {
        match &mut self.run {
            Some(run) => run.issues.extend(issues),
            None => self.other_issues.extend(issues),
        }
    }

    /// Whether slices were recorded within a budget.
    pub(super) fn has_slices(&self) -> bool {
        let timeline = self.run.as_ref().and_then(|run| run.timeline.as_ref());
        let few = |issue: &Issue| issue.code == "slices.few";
        timeline.is_some_and(|timeline| timeline.scaled.is_some()) || self.issues().iter().any(few)
    }

    /// The analysis of what ran, where there is a timeline or recorded operators.
    pub(super) fn run(&self) -> Option<&RunAnalysis> {
        self.run.as_ref()
    }

    /// The result, a line per phase, the best findings.
    pub(super) fn digest(&self) -> &[String] {
        &self.digest
    }

    /// The files that follow: the analysis, reports, tables of counters and memory.
    pub(super) fn files(
        &self,
        contents: &Contents,
        results: Option<&Results<'_>>,
        issues: &[Issue],
    ) -> Result<Vec<Output>, Failure> {
        let mut files = vec![(ANALYSIS_FILE.to_owned(), text(self)?)];
        if let Some(results) = results {
            files.push(outputs::metrics_file(results)?);
            files.extend(outputs::files(results, issues, true));
        } else {
            let others = contents.others();
            files.extend(outputs::rendered(&others.report(issues).document(), true));
        }
        if let Some(counters) = &self.counters {
            files.push(("counters.csv".to_owned(), counters::csv(&counters.launches)));
        }
        if let Some(timeline) = self.memory.as_ref().and_then(memory::csv) {
            files.push((memory::FILE.to_owned(), timeline));
        }
        Ok(files)
    }
}

/// Writes files anew into a run that ended.
pub(super) fn replace(run: &Path, files: &[Output]) -> Result<(), Failure> {
    for (name, contents) in files {
        let file = run.join(name);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failure::new(format!("cannot create {}: {error}", folder.display()))
            })?;
        }
        write_atomically(&file, contents.as_bytes())?;
    }
    Ok(())
}
