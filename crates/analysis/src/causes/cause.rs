//! A cause with its evidence and gain, as values; `report::text` has the sentences.

use llmprof_record::run::RunPhase;
use llmprof_units::{Bytes, DType, Nanos};
use serde::{Deserialize, Serialize};

use crate::phases::REPETITION;

/// What was done. Counts and times are of one step where steps are known, else of the phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum CauseKind {
    /// The host waits for the device.
    Synchronization {
        /// The call: `cudaDeviceSynchronize`.
        call: String,
        waited_ns: Nanos,
        /// Whether the host computes on what it reads and copies the result back.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_copied_back: bool,
    },
    /// Calls of the CUDA API that neither launch, copy nor wait.
    HostCalls {
        call: String,
        /// With the code around them.
        time_ns: Nanos,
    },
    /// Copies between host and device.
    HostCopies {
        to_device: bool,
        bytes: Bytes,
        is_pageable: bool,
        /// Whether the copies run on a stream of their own, one after another with the kernels.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_serialized: bool,
        /// Time of the copies on the device.
        copied_ns: Nanos,
        /// Operators that compute on the host what was copied there, and their time.
        computed_on_host: Option<(String, Nanos)>,
    },
    /// Whole tensors cloned within the device.
    DeviceCopies { bytes: Bytes, copied_ns: Nanos },
    /// Host time in which no recorded event runs.
    HostCode {
        time_ns: Nanos,
        longest_ns: Nanos,
        /// The operators before and after the longest pause.
        after: Option<String>,
        before: Option<String>,
        /// Bytes that were copied to the host right before the longest pause.
        copied: Option<Bytes>,
        /// The part of the sampled time in which the garbage collector ran, or another thread held the GIL.
        collecting_share: Option<f64>,
        gil_holder: Option<String>,
        /// Whether pauses have the length of Python's switch interval, so that another thread holds the GIL.
        has_switch_interval: bool,
    },
    /// Nodes of autograd's graph, made without a backward pass.
    Autograd {
        /// What a node takes on the host.
        node_ns: Nanos,
    },
    /// Operators that compute on the CPU, or take far longer on the host than others of their kind.
    HostOperators { time_ns: Nanos, on_cpu: bool },
    /// Host memory page-locked and released.
    PinnedMemory { time_ns: Nanos },
    /// A CUDA graph captured and instantiated in the step that launches it.
    GraphCaptures { time_ns: Nanos },
    /// Memory taken from the driver and given back.
    Allocation { time_ns: Nanos },
    /// Every launch returns when its kernel has ended.
    BlockingLaunches,
    /// GEMMs in a wider format than the model's, or in FP32 without TF32.
    GemmFormat {
        dtype: DType,
        faster: DType,
        /// Whether the model's own format is the faster one; else tensor cores would take the same data.
        is_of_model: bool,
        kernels_ns: Nanos,
    },
    /// Weights converted to another format in every pass.
    WeightCasts {
        from: String,
        to: String,
        shape: String,
        kernels_ns: Nanos,
    },
    /// Weights of experts copied for each token before they are multiplied.
    GatheredWeights { shape: String, kernels_ns: Nanos },
    /// Attention as separate GEMMs and softmax.
    UnfusedAttention {
        shape: String,
        /// Whether fused attention was asked for, and a fallback ran.
        is_fallback: bool,
        kernels_ns: Nanos,
    },
    /// Fused attention with its causal mask as a tensor.
    MaskedAttention { shape: String, kernels_ns: Nanos },
    /// The same GEMMs over many rows in every decode step.
    RepeatedWork {
        rows: u64,
        gemms: u64,
        kernels_ns: Nanos,
    },
    /// Tokens computed again that an earlier pass has computed.
    Recomputed { tokens: u64, new_tokens: u64 },
    /// Logits of tokens that nothing is sampled from.
    UnusedLogits { rows: u64, needed: u64 },
    /// Attention over positions of the KV cache that hold no token.
    UnusedSpan {
        positions: u64,
        tokens: u64,
        kernels_ns: Nanos,
    },
    /// A loop of the same few operators on small tensors.
    OperatorLoop {
        iterations: u64,
        /// Of one iteration.
        operators: u64,
        /// On the host.
        time_ns: Nanos,
    },
    /// Passes over the same positions one after another.
    RepeatedPasses {
        passes: u64,
        sequences: u64,
        /// Of each sequence.
        tokens: u64,
    },
    /// Tensors converted between layouts around convolutions.
    LayoutConversions { kernels_ns: Nanos },
    /// Dropout runs, as in training.
    Dropout { kernels_ns: Nanos },
    /// The KV cache copied: cloned, or concatenated with the new token.
    KvCopies {
        operator: String,
        shape: String,
        kernels_ns: Nanos,
    },
    /// Sorting of a whole vocabulary.
    VocabularySort { shape: String, kernels_ns: Nanos },
    /// Kernels of a thread that has nothing to do with the program, or of nobody in the trace.
    OtherWork {
        streams: u64,
        kernels_ns: Nanos,
        longest: Option<String>,
    },
    /// Operators other than GEMMs in a wider format than they need.
    WideOperators { dtype: DType, kernels_ns: Nanos },
    /// Every token computed by every expert.
    AllExperts {
        experts: u64,
        chosen: u64,
        kernels_ns: Nanos,
    },
    /// Experts computed one after another by a loop of the host.
    ExpertLoop {
        /// Of a layer.
        experts: u64,
        /// On the host.
        time_ns: Nanos,
    },
    /// New tensors filled before they are written.
    Fills { kernels_ns: Nanos },
    /// A prompt in passes of few tokens.
    SmallChunks { passes: u64, tokens: u64 },
    /// The program's thread loses its CPU.
    CpuContention { time_ns: Nanos },
    /// Exchange between devices with nothing else running.
    Communication { kernels_ns: Nanos, longest: String },
    /// Elementwise kernels that follow each other.
    UnfusedElementwise {
        kernels: u64,
        kernels_ns: Nanos,
        /// That launch one such run, each once; none inside of a CUDA graph.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        run_operators: Vec<String>,
    },
    /// The device waits for launches.
    LaunchBound { launches: u64, busy_ns: Nanos },
}

impl CauseKind {
    /// Whether it is true of most programs that a framework runs operator by operator.
    pub(crate) fn is_general(&self) -> bool {
        matches!(
            self,
            Self::LaunchBound { .. } | Self::UnfusedElementwise { .. }
        )
    }

    /// Whether the host does something else than launching, while the device may wait.
    pub(crate) fn is_host_time(&self) -> bool {
        matches!(
            self,
            Self::HostCode { .. }
                | Self::HostCalls { .. }
                | Self::HostOperators { .. }
                | Self::CpuContention { .. }
        )
    }

    /// The code of the finding.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Synchronization { .. } => "synchronization",
            Self::HostCalls { .. } => "host_calls",
            Self::HostCopies { .. } => "host_copies",
            Self::DeviceCopies { .. } => "device_copies",
            Self::HostCode { .. } => "host_code",
            Self::Autograd { .. } => "autograd",
            Self::HostOperators { .. } => "host_operators",
            Self::PinnedMemory { .. } => "pinned_memory",
            Self::GraphCaptures { .. } => "graph_captures",
            Self::Allocation { .. } => "allocation",
            Self::BlockingLaunches => "blocking_launches",
            Self::GemmFormat { .. } => "gemm_format",
            Self::WeightCasts { .. } => "weight_casts",
            Self::GatheredWeights { .. } => "gathered_weights",
            Self::UnfusedAttention { .. } => "unfused_attention",
            Self::MaskedAttention { .. } => "masked_attention",
            Self::RepeatedWork { .. } => "repeated_work",
            Self::Recomputed { .. } => "recomputed_tokens",
            Self::UnusedLogits { .. } => "unused_logits",
            Self::UnusedSpan { .. } => "unused_span",
            Self::OperatorLoop { .. } => "operator_loop",
            Self::RepeatedPasses { .. } => "repeated_passes",
            Self::LayoutConversions { .. } => "layout_conversions",
            Self::Dropout { .. } => "dropout",
            Self::KvCopies { .. } => "kv_copies",
            Self::VocabularySort { .. } => "vocabulary_sort",
            Self::OtherWork { .. } => "other_work",
            Self::WideOperators { .. } => "wide_operators",
            Self::AllExperts { .. } => "all_experts",
            Self::ExpertLoop { .. } => "expert_loop",
            Self::Fills { .. } => "fills",
            Self::SmallChunks { .. } => "small_chunks",
            Self::CpuContention { .. } => "cpu_contention",
            Self::Communication { .. } => "communication",
            Self::UnfusedElementwise { .. } => "unfused_elementwise",
            Self::LaunchBound { .. } => "launch_bound",
        }
    }
}

/// Where in the program it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The operator of the framework.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The `nn.Module`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Function, file and line of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// What removing a cause gives in one phase: times without the profiler's cost, of one step where steps are known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseGain {
    pub phase: RunPhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Steps that the phase's times are divided by; 1 where the phase is one pass.
    pub steps: u64,
    /// What the phase takes now.
    pub now_ns: Nanos,
    /// With the profiler's cost, as recorded.
    #[serde(default)]
    pub recorded_ns: Nanos,
    pub saved_ns: Nanos,
    /// The least and most over the range of the profiler's cost and of the new durations.
    pub low_ns: Nanos,
    pub high_ns: Nanos,
    /// Whether the host limits the phase only while it is profiled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_bound_by_profiler: bool,
}

impl PhaseGain {
    /// What is saved as a part of the phase.
    pub fn share(&self) -> f64 {
        self.saved_ns.0 as f64 / self.now_ns.0.max(1) as f64
    }

    /// Over all steps.
    pub fn total_saved(&self) -> i64 {
        self.saved_ns.0.saturating_mul(self.steps as i64)
    }

    /// What its times are of, where they are of one of several.
    pub fn unit_name(&self) -> &'static str {
        if self.label.as_deref() == Some(REPETITION) {
            REPETITION
        } else {
            "step"
        }
    }

    pub fn phase_name(&self) -> &str {
        self.label.as_deref().unwrap_or(self.phase.name())
    }
}

/// A cause in all phases in which it occurs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    #[serde(flatten)]
    pub kind: CauseKind,
    /// How often in one step of the phase where it saves most.
    pub count: f64,
    pub place: Place,
    /// The phase where it saves most comes first.
    pub gains: Vec<PhaseGain>,
    /// Codes of causes before it that are about the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_time_as: Vec<String>,
}
