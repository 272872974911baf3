//! The types of other crates that reports are made of, named in one place.

pub(crate) use llmprof_analysis::assumption::Assumption;
pub(crate) use llmprof_analysis::attribution::kernels::KernelRow;
pub(crate) use llmprof_analysis::attribution::operators::{OperatorRow, ShapeRow};
pub(crate) use llmprof_analysis::bottleneck::{ClassReason, Limits, PhaseClass};
pub(crate) use llmprof_analysis::causes::{Cause, CauseKind, CausePlace, PhaseGain};
pub(crate) use llmprof_analysis::counters::{
    Advice, CountedLaunch, CounterPoint, CountersAnalysis, DerivedKernels, DerivedRow, percentages,
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
    GroupKind, GroupSet, JobAnalysis, LookAtReason, RankDifference, SlowLink, Straggler,
};
pub(crate) use llmprof_analysis::ranks::{
    CollectiveKind, CollectiveRow, LanePiece, MatchedBy, OwnCollectives, RankPart, RankRow,
    RanksAnalysis, SlowestDifference, SlowestRank, rank_lanes,
};
pub(crate) use llmprof_analysis::statics::{PhaseStatics, Statics, Sums};
pub(crate) use llmprof_analysis::stats::{RepeatSummary, ValueDistribution};
pub(crate) use llmprof_analysis::steps::{StepPattern, StepPatterns};
pub(crate) use llmprof_analysis::telemetry::{
    GpuPhase, HostTelemetry, PhaseTelemetry, ProcessorUse, SHARED, STOLEN_FROM, THROTTLED,
};
pub(crate) use llmprof_analysis::timeline::host_gaps::HostGaps;
pub(crate) use llmprof_analysis::trace::scaled::{Estimate, ScaledTrace};
pub(crate) use llmprof_analysis::trace::{OriginRow, TraceTotals};
pub(crate) use llmprof_analysis::waterfall::NamedTime;
pub(crate) use llmprof_analysis::{Analysis, PhaseAnalysis, TraceAnalysis};
pub(crate) use llmprof_record::run::PassKind;
