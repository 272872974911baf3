//! The types of other crates that reports are made of, named in one place.

pub(crate) use llmprof_analysis::{
    Analysis, Scaled,
    counters::{CountersAnalysis, LaunchRow as CountedLaunch, Point, percentages},
    kernels::{KernelRow, LaunchRow},
    operators::{OperatorRow, ShapeRow},
    phases::PhaseSource,
    run::{
        Confidence, Distribution, EACH_LENGTH, Evidence, Finding, GainOf, GpuPhase, HostTelemetry,
        MeasuredRun, OperatorGroup, PassKind, PhaseAnalysis, PhaseClass, PhaseTelemetry,
        ProcessorUse, RunAnalysis, Summary, TracedPhase, UnmatchedOperator,
        contention::{SHARED, STOLEN_FROM, THROTTLED},
    },
    statics::{PhaseStatics, Statics, Sums},
    steps::{StepPattern, StepPatterns},
};
