//! Numbers that support a conclusion.

use llmprof_units::{Basis, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a number of evidence measures. Several take a name: a cause, an operator, a dtype.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Of wall time.
    IdleShare,
    /// Part of the wall time in which the device waited for data.
    DataLoadingShare,
    /// Of the wall time of passes without capture.
    PlainIdleShare,
    IdleTime,
    /// The longest time between two ops on the CPU.
    LongestGap,
    PlainWallTime,
    /// Of the idle time, by the cause that is named.
    IdleCauseTime,
    /// Of the idle time under capture, by the cause that is named.
    IdleCauseShare,
    /// Idle time in which the host was inside the operator that is named.
    HostOperatorTime,
    MeasuredTime,
    RooflineTime,
    RooflineShare,
    Calls,
    /// With the dtype as name, where it is of one.
    AchievedRate,
    OverheadOpsTime,
    CopyTime,
    /// Of wall time.
    WallShare,
    WeightGemmTime,
    /// In the dtype that is named.
    PeakRate,
    /// Roofline time after a change ÷ before.
    RooflineRatio,
    LinearRooflineShare,
    WeightBytes,
    Int8WeightBytes,
    BatchNow,
    BatchThen,
    /// Decode time then ÷ now.
    DecodeTimeRatio,
    StepBytes,
    CacheCapacity,
    Kernels,
    /// Kernels that are neither GEMM nor attention.
    GlueKernels,
    GlueTime,
    /// Gaps after them.
    GlueGapTime,
    ThrottledShare,
    ThrottledTime,
    MeanPower,
    FirstPassTime,
    /// Mean.
    LaterPassTime,
    /// What the first pass took longer until its first token.
    ExtraTtft,
    /// What it took longer after that.
    ExtraAfterTtft,
    /// What each later step of it took longer, at a length that had not run before.
    ExtraStepTime,
    FirstRangeTime,
    /// Mean.
    LaterRangeTime,
    /// Waits before attention kernels far above the usual.
    AttentionWaits,
    /// Their time beyond the usual.
    AttentionWaitTime,
    UsualAttentionWait,
    /// Arithmetic at its peak ÷ busy time.
    ComputeShare,
    /// Minimum DRAM traffic at the bandwidth ÷ busy time.
    MemoryShare,
    /// Of wall time.
    ExposedCommunicationShare,
    /// Of busy time, in which nothing but copies and memsets ran.
    ExposedCopyShare,
    /// By the direction that is named.
    CopyRate,
    /// Of copied bytes, by the link that is named.
    LinkRate,
    /// Of busy time, in kernels with fewer blocks than the device has SMs.
    SmallKernelShare,
}

/// A number that supports a conclusion.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Evidence {
    /// Code of the measure.
    pub what: Measure,
    /// The cause, operator or dtype that it is of, where [`Measure`] asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its value in `unit`.
    pub value: f64,
    /// `1` for a fraction of one.
    pub unit: String,
    /// How the number is known.
    pub basis: Basis,
}

impl Evidence {
    pub(crate) fn new(what: Measure, value: f64, unit: &str, basis: Basis) -> Self {
        Self {
            what,
            name: None,
            value,
            unit: unit.to_owned(),
            basis,
        }
    }

    /// A fraction of one.
    pub(crate) fn share(what: Measure, value: f64, basis: Basis) -> Self {
        Self::new(what, value, "1", basis)
    }

    pub(crate) fn time(what: Measure, value: Nanos, basis: Basis) -> Self {
        Self::new(what, value.0 as f64, "ns", basis)
    }

    pub(crate) fn of(self, name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..self
        }
    }
}
