//! What a run says, as a whole: `analysis.json`.

use llmprof_record::communication::Communication;
use llmprof_record::issue::Issue;
use llmprof_record::memory::MemoryHistory;
use llmprof_record::run::RunPhase;
use llmprof_record::summary::SummaryTable;
use llmprof_theory::{Workload, WorkloadError};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::assumption::Assumption;
use crate::causes::PhaseReplay;
use crate::counters::{CountersAnalysis, DerivedKernels};
use crate::findings::Finding;
use crate::gemms::GemmsAnalysis;
use crate::graphs::GraphAnalysis;
use crate::latency::Latency;
use crate::matching::places::KernelPlaces;
use crate::phase_analysis::PhaseAnalysis;
use crate::program::Program;
use crate::ranks::{OwnCollectives, RanksAnalysis};
use crate::serving::ServingAnalysis;
use crate::telemetry::HostTelemetry;
use crate::trace::TraceAnalysis;

/// Why a run cannot be analyzed.
#[derive(Debug, Error)]
pub enum AnalysisError {
    /// The workload does not suit the model.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// Everything that follows from a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Analysis {
    /// Version of this layout.
    pub schema_version: u32,
    /// Name of the model, or of the program that was traced.
    pub model: String,
    /// Family that its config was read as; absent where the model is not known.
    pub family: Option<String>,
    /// The device that roofline times are of; absent where none is known.
    pub device: Option<String>,
    /// What was asked for; absent where the model is not known. Routing is what was measured, where the run reports it.
    pub workload: Option<Workload>,
    /// What ran, with its proof.
    #[serde(default)]
    pub program: Program,
    /// TTFT, TPOT and throughput.
    pub latency: Latency,
    /// Time that loading took, where the run has such a phase.
    pub load_ns: Option<Nanos>,
    /// Index of the pass that waterfalls are made from; absent where none was captured.
    pub captured_pass: Option<u64>,
    /// In the order of time.
    pub phases: Vec<PhaseAnalysis>,
    /// In the order of their gains.
    pub findings: Vec<Finding>,
    /// How phases were replayed; gains of causes come from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replays: Vec<PhaseReplay>,
    /// What the machine did meanwhile, where that was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<HostTelemetry>,
    /// What the trace of the captured pass says by itself: kernels, operators of the framework, idle causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Box<TraceAnalysis>>,
    /// What launched graphs did, and where their kernels come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<GraphAnalysis>,
    /// What several ranks did together, where the run has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<RanksAnalysis>,
    /// Collectives of a rank that was recorded alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<OwnCollectives>,
    /// Hardware counters of single launches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<CountersAnalysis>,
    /// Kernels classified from model and timeline, where counters were asked for and there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived_kernels: Option<DerivedKernels>,
    /// GEMMs of a cuBLAS log with the times of their kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gemms: Option<GemmsAnalysis>,
    /// A load on a server, where the run was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<Box<ServingAnalysis>>,
    /// Sums by name of other tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<SummaryTable>,
    /// What communication libraries say of themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication: Option<Communication>,
    /// A caching allocator's memory, without the points of its timelines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryHistory>,
    /// Where in the model kernels run.
    #[serde(skip)]
    pub(crate) places: KernelPlaces,
    /// What the traces beside the first say: the operators of a framework where another trace explains the time.
    #[serde(skip)]
    pub beside: Vec<Self>,
    /// What the derived numbers rest on.
    pub assumptions: Vec<Assumption>,
    /// What was dropped or should not be trusted.
    pub issues: Vec<Issue>,
}

impl Analysis {
    /// The version of the layout that is written.
    pub const SCHEMA_VERSION: u32 = 3;

    /// The analysis of the pass that torch's profiler recorded, whether its trace explains the time or stands beside another.
    pub fn profiled_by_torch(&self) -> Option<&Self> {
        let by_torch = |analysis: &&Self| {
            let tool = analysis
                .timeline
                .as_ref()
                .and_then(|trace| trace.tool.as_deref());
            analysis.captured_pass.is_some() && tool == Some("kineto")
        };
        std::iter::once(self).chain(&self.beside).find(by_torch)
    }

    pub fn phase(&self, phase: RunPhase) -> Option<&PhaseAnalysis> {
        self.phases.iter().find(|found| found.phase == phase)
    }
}
