//! What a finding says, as values: the conclusion, how its gain is computed, or why there is none.

use llmprof_record::kernel_name::Library;
use llmprof_record::serving::ServerFamily;
use llmprof_theory::roofline::Resource;
use llmprof_units::{Bytes, DType, FlopsPerSecond, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bottleneck::ClassReason;
use crate::causes::Cause;
use crate::matching::UnmatchedReason;
use crate::phase_facts::CopyTime;
use crate::serving::ServingConclusion;
use crate::timeline::host_gaps::HostGaps;

/// The conclusion of a finding. Shares are of the wall time that gains are judged by.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Conclusion {
    /// Something that was done and need not be.
    Cause {
        #[serde(flatten)]
        cause: Box<Cause>,
    },
    /// The device, or the host of a native run, is idle.
    Idle {
        /// Share of the wall time.
        share: f64,
        /// Whether the phase is host-bound.
        is_host_bound: bool,
        /// Whether a device idles; else no operator of the host runs.
        on_device: bool,
        /// The part that first uses take, which have a finding of their own.
        first_use_share: Option<f64>,
        /// The part in which work was queued that the device did not start, where it is worth saying. No gain takes it off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queued_share: Option<f64>,
        /// What would shorten the idle time.
        remedy: Option<IdleRemedy>,
        /// The operator of the host that most of the idle time waits for, where that is no launching.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host_work: Option<HostWork>,
    },
    /// A program on the CPU alone runs no op for a part of its time.
    HostGaps {
        #[serde(flatten)]
        gaps: HostGaps,
    },
    /// Operators above their roofline time.
    Inefficiency {
        /// Name of the group of operators, such as `linear` or `attention`.
        operators: String,
        /// Share of the wall time.
        share: f64,
        /// Roofline time ÷ measured time.
        roofline_fraction: f64,
        /// The limit; absent where fusion can remove them.
        binds: Option<Resource>,
        /// The library that most of the time of GEMMs or attention is in; absent where names do not show it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        library: Option<Library>,
    },
    /// GEMMs above the roofline time of the shapes that the framework recorded; no model is known.
    GemmShapes {
        /// Share of the wall time.
        share: f64,
        /// Roofline time ÷ measured time.
        roofline_fraction: f64,
        /// Library that most of the time is in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        library: Option<Library>,
    },
    /// Operators that the model does not need: casts, copies, concatenations.
    Extra {
        /// Share of the wall time.
        share: f64,
        /// Whether only names say so, since no model says what is needed.
        by_name: bool,
        /// Whether they are kernels of a device; else ops of the host.
        #[serde(default = "is_usual")]
        on_device: bool,
        /// The part of it in ops of the host that touch no data, where it is worth saying.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        views_share: Option<f64>,
    },
    /// Memory copies and fills with nothing else running.
    Copies {
        /// Share of the wall time in which only copies and fills run.
        share: f64,
        /// Whether most of that time is copies inside a device and fills.
        is_on_device: bool,
        /// Whether the phase is copy-bound.
        #[serde(default)]
        is_copy_bound: bool,
        /// The direction that takes most of it; absent where none is recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        longest: Option<CopyTime>,
        /// Other directions that take a good part of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<CopyTime>,
    },
    /// Exchange between devices with nothing else running.
    Communication {
        /// Share of the wall time with exchange and nothing else running.
        exposed_share: f64,
        /// The part of it that is waiting for slower ranks; absent where only one rank is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting_share: Option<f64>,
        /// The rank that was recorded, and of how many, where only one was: its communication contains waiting for the others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rank: Option<(u64, u64)>,
        /// The device whose time it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<u32>,
        /// Whether most of the exchange is sending to and receiving from single ranks, as between the stages of a pipeline.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_point_to_point: bool,
    },
    /// Kernels that are neither GEMM nor attention.
    Fusion {
        /// Kernels other than GEMMs and attention in a step, or in the phase where steps are not known.
        kernels: u64,
        /// All kernels of a step, or of the phase where steps are not known.
        of_kernels: u64,
        /// Whether kernels are those of one step.
        per_step: bool,
        /// Mean time of such a kernel, or of such a wait.
        mean_ns: Nanos,
        /// The part that a compiler has fused already.
        fused_share: Option<f64>,
        /// Share of the wall time, with the gaps after them.
        share: f64,
        /// Whether gaps after them are known, and part of the share.
        #[serde(default)]
        with_gaps: bool,
    },
    /// GEMMs in a format that the device multiplies slowly.
    FasterFormat {
        /// Share of the wall time.
        share: f64,
        /// Number format of the GEMMs.
        dtype: DType,
        /// Peak rate of the device in that format.
        peak_flops_per_s: FlopsPerSecond,
        /// Number format in which the device multiplies faster.
        faster_dtype: DType,
        /// Peak rate of the device in the faster format.
        faster_peak_flops_per_s: FlopsPerSecond,
        /// Whether llmprof's own engine ran the model, which has no GEMM in that format.
        is_native: bool,
    },
    /// Weights that could be stored in fewer bits.
    QuantizeWeights {
        /// Number format in which the weights are stored now.
        weights: String,
    },
    /// The bytes of a step fit into caches, so DRAM is no limit.
    WeightsOnChip {
        /// Bytes that a step reads.
        bytes_per_step: Bytes,
        /// The level, or `caches` for all of them together.
        cache: String,
    },
    /// Attention that waits at each length of the KV cache that has not run before.
    KvLengths {
        /// Waits for new lengths of the KV cache.
        waits: u64,
        /// Mean time of such a kernel, or of such a wait.
        mean_ns: Nanos,
    },
    /// The first pass takes longer than later ones.
    FirstPass {
        /// Time of the first pass or range.
        first_ns: Nanos,
        /// What its median step took longer, where each new length costs that.
        extra_step_ns: Option<Nanos>,
        /// Whether the model is known to have a KV cache.
        has_kv_cache: bool,
    },
    /// The first range of a phase takes longer than later ones.
    FirstRange {
        /// Time of the first pass or range.
        first_ns: Nanos,
        /// The part in waits for new lengths of the KV cache, and their number.
        attention_wait_ns: Option<Nanos>,
        /// Waits for new lengths of the KV cache.
        lengths: u64,
    },
    /// A conclusion about a served load.
    Serving {
        /// The server whose options may be named.
        server: Option<ServerFamily>,
        #[serde(flatten)]
        conclusion: ServingConclusion,
    },
    /// The GPU ran below its clock because of a limit.
    Throttled {
        /// Index of the GPU that was throttled.
        gpu: u32,
        /// Share of the wall time.
        share: f64,
        /// Reasons that the driver gives for the lower clock.
        reasons: Vec<String>,
        /// Mean SM clock in the phase, MHz; absent where it was not sampled.
        clock_mhz: Option<f64>,
    },
}

/// Files of earlier versions do not say so, but most findings are of a device.
fn is_usual() -> bool {
    true
}

impl Conclusion {
    /// The share of the phase that it is about, where it is about a part of the time.
    pub(crate) fn time_share(&self) -> Option<f64> {
        match self {
            Self::Idle {
                share, host_work, ..
            } => Some(host_work.as_ref().map_or(*share, |work| work.share)),
            Self::Copies { share, .. } | Self::GemmShapes { share, .. } => Some(*share),
            Self::Communication { exposed_share, .. } => Some(*exposed_share),
            Self::HostGaps { gaps } => Some(gaps.share()),
            _ => None,
        }
    }

    /// The code of the finding.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Cause { cause } => cause.kind.code(),
            Self::Idle { .. } => "idle",
            Self::HostGaps { .. } => "host_gaps",
            Self::Inefficiency { operators, .. } => return format!("inefficiency.{operators}"),
            Self::GemmShapes { .. } => "inefficiency.gemm_shapes",
            Self::Extra { .. } => "extra",
            Self::Copies { .. } => "copies",
            Self::Communication { .. } => "communication",
            Self::Fusion { .. } => "fusion",
            Self::FasterFormat { .. } => "faster_format",
            Self::QuantizeWeights { .. } => "quantize_weights",
            Self::WeightsOnChip { .. } => "weights_on_chip",
            Self::KvLengths { .. } => "first_use.kv_lengths",
            Self::FirstPass { .. } | Self::FirstRange { .. } => "first_use",
            Self::Serving { conclusion, .. } => conclusion.code(),
            Self::Throttled { .. } => "throttled",
        }
        .to_owned()
    }
}

/// An operator of the host during which a device idles, such as the loading of data.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct HostWork {
    /// Name of the host operator.
    pub operator: String,
    /// Gaps of the device in which it was the longest.
    pub gaps: u64,
    /// Share of the wall time; the gain removes no more than this.
    pub share: f64,
}

/// What would make idle time of a device shorter, by what most of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleRemedy {
    /// Less host work before launches.
    CheaperLaunches,
    /// One operator of the host, in gaps that are far longer than launching takes.
    LessHostWork,
    /// One function of the runtime that allocates or frees memory.
    ReuseMemory,
    /// Host work around the launches of CUDA Graphs, from which most kernels come.
    LessAroundGraphs,
    /// Gaps between kernels that were launched in time.
    FewerKernels,
}

/// How the factor of a gain is computed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "formula", rename_all = "snake_case")]
pub enum Derivation {
    /// A replay of the recorded timeline without the cause.
    Replayed {
        /// Replayed time of a step with the cause.
        now_ns: Nanos,
        /// Replayed time of a step without the cause.
        after_ns: Nanos,
    },
    /// wall ÷ (wall − idle)
    WithoutIdle {
        /// Wall time of the phase.
        wall_ns: Nanos,
        /// Idle time of the phase.
        idle_ns: Nanos,
        /// Idle time of first uses, which is not taken off.
        first_use_ns: Option<Nanos>,
        /// Idle time with work queued, which is not taken off either.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queued_ns: Option<Nanos>,
    },
    /// wall ÷ (wall − first use)
    WithoutFirstUse {
        /// Wall time of the phase.
        wall_ns: Nanos,
        /// Time of first uses, which the change removes.
        first_use_ns: Nanos,
    },
    /// wall ÷ (wall − (measured − roofline))
    AtRoofline {
        /// Wall time of the phase.
        wall_ns: Nanos,
        /// Measured time of the operators.
        measured_ns: Nanos,
        /// Roofline time of the operators.
        roofline_ns: Nanos,
    },
    /// wall ÷ (wall − part)
    WithoutPart {
        /// Wall time of the phase.
        wall_ns: Nanos,
        /// Time of the part that the change removes.
        part_ns: Nanos,
    },
    /// wall ÷ (wall − kernels − gaps)
    Fused {
        /// Wall time of the phase.
        wall_ns: Nanos,
        /// Device time of the kernels that are fused, without what runs at the same time.
        kernels_ns: Nanos,
        /// Time of the gaps after these kernels.
        gaps_ns: Nanos,
    },
    /// wall ÷ after, with weight GEMMs counted again in another format, at their present share of roofline or that of decode.
    GemmsRecounted {
        /// Wall time of the phase.
        wall_ns: Nanos,
        /// What it takes after the change.
        after_ns: Nanos,
        /// Measured time ÷ roofline time that is kept.
        roofline_ratio: f64,
        /// Number format after the change.
        dtype: DType,
    },
    /// wall ÷ after, with weights counted again in int8, each operator at its present share of roofline.
    Int8Recounted {
        /// Wall time of the phase.
        wall_ns: Nanos,
        /// What it takes after the change.
        after_ns: Nanos,
        /// Measured time ÷ roofline time that is kept.
        roofline_ratio: f64,
    },
    /// First pass ÷ mean of the later ones.
    FirstOverLaterPasses,
    /// First range ÷ median of the later ones.
    FirstOverLaterRanges,
}

/// Why a finding has no conclusion.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Abstention {
    /// No phases were found, so the time includes the program's start and end.
    NoPhases,
    /// The device is hardly used: the phase is work of the host or of another device.
    HardlyUsed,
    /// For nearly all of the idle time work was queued that the device did not start. Shares of the wall time.
    QueuedIdle {
        /// Idle share of the wall time.
        share: f64,
        /// Share of the wall time with work queued that did not start.
        queued_share: f64,
    },
    /// The device idles for this share of the time, and neither launch calls nor stacks say why.
    UnknownIdle {
        /// Idle share of the wall time.
        share: f64,
    },
    /// The device idles for this share of the time, and the clocks of host and device disagree.
    ClocksDisagree {
        /// Idle share of the wall time.
        share: f64,
    },
    /// No model is known to compare with.
    NoModel,
    /// A model was named, but it is not the one that ran, or what was asked of it is not known: an issue says which.
    NothingCounted,
    /// No device is known whose peaks could be used.
    NoDevice,
    /// Which operators of the model the phase runs is not known.
    UnknownPhase,
    /// Overhead ops cannot be separated from matched work.
    Unmatched {
        /// Why it cannot be told.
        why: UnmatchedReason,
    },
    /// Whether memory is the limit is not known.
    UnknownLimit {
        /// Why it cannot be told.
        why: ClassReason,
    },
    /// Linear operators are far from roofline: fewer bytes may change nothing.
    FarFromRoofline {
        /// Roofline time ÷ measured time.
        fraction: f64,
    },
    /// Theory cannot count the change on this device.
    NotCounted,
    /// The client of a load did not keep up, so its latencies are not the server's.
    ClientTooSlow,
    /// No request of a load streamed to its end.
    NoCompleteStream,
}
