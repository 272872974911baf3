//! What a run measured: one type for every kind of run, native, PyTorch, recorded, imported, served.
//!
//! A [`RunRecord`] holds facts only; everything derived is made from it again by `analyze`. It is saved pass by pass as
//! the run goes on ([`RunRecord::save`]), so that a killed run keeps what it finished, and loaded as a whole.

mod file;
mod host;
mod model;
mod pass;
mod profiles;
mod rank_name;
mod ranks;

use llmprof_theory::{Workload, device::Device};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::file::{RECORD_FILE, RecordError, TRACE_FILE};
pub use self::host::{Cpu, Gpu, GpuFacts, HostFacts};
pub use self::model::{RecordedModel, RecordedWeights};
pub use self::pass::{
    AllocatorFacts, MeasuredPass, PassKind, PassShape, PhaseSpan, ProcessorCounters, Request,
    RunPhase,
};
pub use self::profiles::SecondProfile;
pub use self::rank_name::rank_of_file;
pub use self::ranks::{is_graph_capture, rank_of};
use crate::communication::Communication;
use crate::counters::Counters;
use crate::issue::{Issue, IssueCode};
use crate::memory::MemoryHistory;
use crate::plan::Plan;
use crate::rank_summary::RankSummary;
use crate::samples::Samples;
use crate::serving::ServedLoad;
use crate::store::Artifact;
use crate::summary::SummaryTable;
use crate::trace::Trace;

/// Issues of a run that are kept one by one; no reader gets further.
const ISSUES_MAX: usize = 1_000;

/// The facts of one run. All times are on one clock, the run's, except those of a trace, which may have its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRecord {
    /// What to call it: the model, or the program.
    pub name: String,
    /// What was asked for; absent for what others ran.
    pub plan: Option<Plan>,
    pub host: Option<HostFacts>,
    /// The device with the peaks that the run is judged by, as they were known when it started.
    pub device: Option<Device>,
    pub model: Option<RecordedModel>,
    /// Absent where others loaded the model, or nothing was loaded.
    pub weights: Option<RecordedWeights>,
    /// What was asked of the model, with the number formats and lengths that really ran.
    pub workload: Option<Workload>,
    /// Configuration keys of the workload that the user set; the others are defaults, which a trace may contradict freely.
    pub workload_keys: Vec<String>,
    /// In the order in which they ran, warm-up included.
    pub passes: Vec<MeasuredPass>,
    pub requests: Vec<Request>,
    /// Whether the KV cache had its full size from the start, so that no step met a length that was new.
    pub fixed_cache: bool,
    /// What telemetry sampled; absent where it was off.
    pub samples: Option<Samples>,
    /// The first explains the time. Others stand beside it: other tools, other ranks, captures of graphs.
    pub traces: Vec<RecordedTrace>,
    /// The ranks of a job that were reduced when they were read, the lowest first, that of the first trace among them.
    pub rank_summaries: Vec<RankSummary>,
    /// Hardware counters of single launches.
    pub counters: Option<Counters>,
    /// Sums by name of other tools.
    pub summaries: Vec<Summary>,
    /// What communication libraries say of themselves.
    pub communication: Option<Communication>,
    /// The history of a caching allocator.
    pub memory: Option<MemoryHistory>,
    /// The load on a server, where the run was one.
    pub load: Option<ServedLoad>,
    /// What was dropped or should not be trusted.
    pub issues: Vec<Issue>,
    /// The files of the run, as its manifest lists them.
    pub artifacts: Vec<Artifact>,
}

/// A trace, and the pass in which it was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedTrace {
    /// Index in [`RunRecord::passes`]; absent for a trace that somebody else recorded.
    pub pass: Option<usize>,
    pub trace: Trace,
}

/// A table of sums, and the file it came from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[schemars(rename = "SummaryFile")]
pub struct Summary {
    /// Name of the file that the table was read from.
    pub file: String,
    #[serde(flatten)]
    pub table: SummaryTable,
}

impl RunRecord {
    /// The trace that explains the time.
    pub fn trace(&self) -> Option<&Trace> {
        self.traces.first().map(|recorded| &recorded.trace)
    }

    /// The passes of a kind, with their indices.
    pub fn passes_of(&self, kind: PassKind) -> impl Iterator<Item = (usize, &MeasuredPass)> {
        let passes = self.passes.iter().enumerate();
        passes.filter(move |(_, pass)| pass.kind == kind)
    }

    /// The requests of one pass.
    pub fn requests_of(&self, pass: usize) -> impl Iterator<Item = &Request> {
        self.requests
            .iter()
            .filter(move |request| request.pass == pass)
    }

    /// Whether there is anything to analyze.
    pub fn is_empty(&self) -> bool {
        self.load.is_none()
            && self.passes.is_empty()
            && self.traces.is_empty()
            && self.rank_summaries.is_empty()
            && self.counters.is_none()
            && self.summaries.is_empty()
            && self.memory.is_none()
            && self.communication.is_none()
            && self.samples.is_none()
    }

    /// Whether it says where time went: a timeline, or passes.
    pub fn has_times(&self) -> bool {
        !self.traces.is_empty() || !self.passes.is_empty()
    }

    /// Adds an issue unless it is known already. After [`ISSUES_MAX`] they are only counted: a worker may be anybody's program.
    pub fn add_issue(&mut self, issue: Issue) {
        if self.issues.contains(&issue) {
            return;
        }
        if self.issues.len() < ISSUES_MAX {
            self.issues.push(issue);
            return;
        }
        match self.issues.last_mut() {
            Some(last) if last.code == IssueCode::RunIssuesDropped => last.count += 1,
            _ => self
                .issues
                .push(Issue::warning(IssueCode::RunIssuesDropped)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_without_end_are_counted() {
        let mut record = RunRecord::default();
        for number in 0..ISSUES_MAX as u64 + 500 {
            let issue = Issue::info(IssueCode::RunFewSteps).with("steps", number);
            record.add_issue(issue.clone());
            record.add_issue(issue);
        }
        assert_eq!(record.issues.len(), ISSUES_MAX + 1);
        let last = &record.issues[ISSUES_MAX];
        assert_eq!(last.code, IssueCode::RunIssuesDropped);
        // Issues that are not kept cannot be told apart.
        assert_eq!(last.count, 1_000);
    }
}
