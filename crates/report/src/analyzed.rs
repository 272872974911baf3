//! The types of other crates that reports are made of, named in one place.

pub(crate) use llmprof_analysis::assumption::Assumption;
pub(crate) use llmprof_analysis::attribution::kernels::KernelRow;
pub(crate) use llmprof_analysis::attribution::operators::{OperatorRow, ShapeRow};
pub(crate) use llmprof_analysis::bottleneck::{ClassReason, Limits, PhaseClass};
pub(crate) use llmprof_analysis::causes::{Cause, CauseKind, PhaseGain, Place};
pub(crate) use llmprof_analysis::counters::{
    Advice, CountersAnalysis, DerivedKernels, DerivedRow, LaunchRow as CountedLaunch, Point,
    percentages,
};
pub(crate) use llmprof_analysis::evidence::{Evidence, Measure};
pub(crate) use llmprof_analysis::findings::{
    Abstention, Conclusion, Confidence, Derivation, Finding, GainOf, IdleRemedy,
};
pub(crate) use llmprof_analysis::framework::Framework;
pub(crate) use llmprof_analysis::gemms::{GemmShapeRow, GemmsAnalysis};
pub(crate) use llmprof_analysis::graphs::{
    AttributedBy, GraphAnalysis, GraphOperatorRow, GraphSource,
};
pub(crate) use llmprof_analysis::matching::{OperatorGroup, UnmatchedOperator};
pub(crate) use llmprof_analysis::phase_facts::{
    BetweenSlices, CopyDirection, CopyTime, RecordedPart, TracedPhase,
};
pub(crate) use llmprof_analysis::phases::PhaseSource;
pub(crate) use llmprof_analysis::program::{Parallelism, Program, ProgramKind, Proof};
pub(crate) use llmprof_analysis::ranks::job::{
    GroupKind, GroupSet, JobAnalysis, RankDifference, Reason, SlowLink, Straggler,
};
pub(crate) use llmprof_analysis::ranks::{
    CollectiveKind, CollectiveRow, Difference, LanePiece, MatchedBy, OwnCollectives, Part, RankRow,
    RanksAnalysis, SlowestRank, lanes,
};
pub(crate) use llmprof_analysis::statics::{PhaseStatics, Statics, Sums};
pub(crate) use llmprof_analysis::stats::{Distribution, Summary};
pub(crate) use llmprof_analysis::steps::{StepPattern, StepPatterns};
pub(crate) use llmprof_analysis::telemetry::{
    GpuPhase, HostTelemetry, PhaseTelemetry, ProcessorUse, SHARED, STOLEN_FROM, THROTTLED,
};
pub(crate) use llmprof_analysis::trace::scaled::{Estimate, Scaled};
pub(crate) use llmprof_analysis::trace::{OriginRow, Totals};
pub(crate) use llmprof_analysis::{Analysis, PhaseAnalysis, TraceAnalysis};
pub(crate) use llmprof_record::run::PassKind;
