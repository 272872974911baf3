//! Why a measured run took as long as it did.
//!
//! [`MeasuredRun`] is what a run measured, [`analyze_run`] joins it with what theory says and gives a [`RunAnalysis`]:
//! [`latency`] of requests, [`matching`] of what ran to what was counted, the [`waterfall`] of each phase,
//! [`utilization`] of the device, the [`classes`] of phases, and [`findings`] with the gain to expect.

mod capture_cost;
pub mod classes;
pub mod contention;
mod finding_rules;
pub mod findings;
mod idle_parts;
pub mod kernel_table;
pub mod latency;
pub mod matching;
pub mod measured;
pub mod operator_groups;
pub mod phase_analysis;
pub mod residence;
pub mod run_analysis;
pub mod statistics;
pub mod telemetry;
mod throttling;
pub mod traced;
pub mod utilization;
pub mod waterfall;
mod what_if;

pub use capture_cost::CaptureCost;
pub use classes::{Classification, PhaseClass, PhaseSignals};
pub use contention::ProcessorUse;
pub use findings::{Confidence, EACH_LENGTH, Evidence, Finding, Gain, GainOf};
pub use idle_parts::{NamedTime, UNRECORDED};
pub use latency::{FirstUse, Latency, RequestRow};
pub use matching::{MissingOperator, UnmatchedOperator, UnmatchedReason};
pub use measured::{
    HostInterval, MeasuredPass, MeasuredRun, OperatorEvent, OperatorIdentity, PassKind, PassShape,
    PhaseSpan, RequestFacts, RunPhase,
};
pub use operator_groups::OperatorGroup;
pub use phase_analysis::PhaseAnalysis;
pub use residence::Residence;
pub use run_analysis::{RunAnalysis, RunAnalysisError, analyze_run, analyze_times};
pub(crate) use statistics::student_t_975;
pub use statistics::{Distribution, Summary};
pub use telemetry::{Energy, GpuPhase, HostTelemetry, PhaseTelemetry, ProcessorCounters};
pub use traced::{RecordedPart, TracedPass, TracedPhase, analyze_trace};
pub use utilization::Utilization;
pub use waterfall::Waterfall;
