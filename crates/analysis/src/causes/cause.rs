//! A cause with its evidence and gain, as values; `report::text` has the sentences.

use llmprof_record::run::RunPhase;
use llmprof_units::{Bytes, DType, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::phases::REPETITION;

/// What was done. Counts and times are of one step where steps are known, else of the phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum CauseKind {
    /// The host waits for the device.
    Synchronization {
        /// The call: `cudaDeviceSynchronize`.
        call: String,
        /// Time that the host waits.
        waited_ns: Nanos,
        /// Whether the host computes on what it reads and copies the result back.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_copied_back: bool,
    },
    /// Calls of the CUDA API that neither launch, copy nor wait.
    HostCalls {
        /// Name of the call.
        call: String,
        /// With the code around them.
        time_ns: Nanos,
    },
    /// Copies between host and device.
    HostCopies {
        /// Whether data go from host to device.
        to_device: bool,
        /// Bytes copied in a step.
        bytes: Bytes,
        /// Whether the host memory is not page-locked.
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
    DeviceCopies {
        /// Bytes copied in a step.
        bytes: Bytes,
        /// Time of the copies on the device.
        copied_ns: Nanos,
    },
    /// Host time in which no recorded event runs.
    HostCode {
        /// Host time of a step.
        time_ns: Nanos,
        /// Longest pause.
        longest_ns: Nanos,
        /// The operators before and after the longest pause.
        after: Option<String>,
        /// Operator after the longest pause.
        before: Option<String>,
        /// Bytes that were copied to the host right before the longest pause.
        copied: Option<Bytes>,
        /// The part of the sampled time in which the garbage collector ran, or another thread held the GIL.
        collecting_share: Option<f64>,
        /// Function that holds the GIL.
        gil_holder: Option<String>,
        /// Whether pauses have the length of Python's switch interval, so that another thread holds the GIL.
        has_switch_interval: bool,
        /// Whether the trace has ops of the framework, so that the pauses are other code.
        #[serde(default)]
        has_ops: bool,
        /// Whether the trace has no second pause of such a length: nobody knows whether it comes again.
        #[serde(default)]
        is_seen_once: bool,
    },
    /// Nodes of autograd's graph, made without a backward pass.
    Autograd {
        /// What a node takes on the host.
        node_ns: Nanos,
    },
    /// Low-rank adapters computed beside the projections they belong to.
    UnmergedAdapters {
        /// Columns between the two GEMMs of an adapter.
        rank: u64,
        /// Time of their kernels in a step.
        kernels_ns: Nanos,
    },
    /// Tables that depend on positions alone, computed in each layer.
    RepeatedTables {
        /// Operators of one such run.
        operators: u64,
        /// The operator that ends it.
        last: String,
        /// Host time of a step.
        time_ns: Nanos,
    },
    /// Operators that a mode or a subclass of tensors handles in Python.
    DispatchMode {
        /// Host time of a step.
        time_ns: Nanos,
    },
    /// Operators that compute on the CPU, or take far longer on the host than others of their kind.
    HostOperators {
        /// Host time of a step.
        time_ns: Nanos,
        /// Whether the operators compute on the CPU.
        on_cpu: bool,
        /// Names of operators beside the longest one.
        #[serde(default)]
        others: u64,
    },
    /// Host memory page-locked and released.
    PinnedMemory {
        /// Host time of a step.
        time_ns: Nanos,
    },
    /// A CUDA graph captured and instantiated in the step that launches it.
    GraphCaptures {
        /// Host time of a step.
        time_ns: Nanos,
    },
    /// Memory taken from the driver and given back.
    Allocation {
        /// Host time of a step.
        time_ns: Nanos,
    },
    /// Every launch returns when its kernel has ended.
    BlockingLaunches,
    /// GEMMs in a wider format than the model's, or in FP32 without TF32.
    GemmFormat {
        /// Number format that is used.
        dtype: DType,
        /// Faster number format.
        faster: DType,
        /// Whether the model's own format is the faster one; else tensor cores would take the same data.
        is_of_model: bool,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// GEMMs whose rows are not aligned to 16 bytes.
    UnalignedGemms {
        /// Shapes of both factors of the longest one.
        shape: String,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// Weights converted to another format in every pass.
    WeightCasts {
        /// Format before the conversion.
        from: String,
        /// Format after the conversion.
        to: String,
        /// Shape of the tensor.
        shape: String,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// Weights of experts copied for each token before they are multiplied.
    GatheredWeights {
        /// Shape of the copied weights.
        shape: String,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// Attention as separate GEMMs and softmax.
    UnfusedAttention {
        /// Shape of the tensor.
        shape: String,
        /// Whether fused attention was asked for, and a fallback ran.
        is_fallback: bool,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// Fused attention with its causal mask as a tensor.
    MaskedAttention {
        /// Shape of the tensor.
        shape: String,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// The same GEMMs over many rows in every decode step.
    RepeatedWork {
        /// Rows that are computed.
        rows: u64,
        /// GEMMs of a step over these rows.
        gemms: u64,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// Tokens computed again that an earlier pass has computed.
    Recomputed {
        /// Tokens that are computed, or held in the KV cache.
        tokens: u64,
        /// Tokens that no earlier pass has computed.
        new_tokens: u64,
    },
    /// Logits of tokens that nothing is sampled from.
    UnusedLogits {
        /// Rows that are computed.
        rows: u64,
        /// Rows that are needed.
        needed: u64,
    },
    /// Attention over positions of the KV cache that hold no token.
    UnusedSpan {
        /// Positions of the KV cache that attention reads.
        positions: u64,
        /// Tokens that are computed, or held in the KV cache.
        tokens: u64,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// A loop of the same few operators on small tensors.
    OperatorLoop {
        /// Iterations of the loop.
        iterations: u64,
        /// Of one iteration.
        operators: u64,
        /// On the host.
        time_ns: Nanos,
    },
    /// Passes over the same positions one after another.
    RepeatedPasses {
        /// Passes over the model.
        passes: u64,
        /// Sequences of a pass.
        sequences: u64,
        /// Of each sequence.
        tokens: u64,
    },
    /// Tensors converted between layouts around convolutions.
    LayoutConversions {
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// Dropout runs, as in training.
    Dropout {
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// The KV cache copied: cloned, or concatenated with the new token.
    KvCopies {
        /// Operator that copies.
        operator: String,
        /// Shape of the tensor.
        shape: String,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// Sorting of a whole vocabulary.
    VocabularySort {
        /// Shape of the tensor.
        shape: String,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// Kernels of a thread that has nothing to do with the program, or of nobody in the trace.
    OtherWork {
        /// Streams of the other work.
        streams: u64,
        /// Time of the kernels.
        kernels_ns: Nanos,
        /// Name of the longest kernel.
        longest: Option<String>,
    },
    /// Operators other than GEMMs in a wider format than they need.
    WideOperators {
        /// Number format that is used.
        dtype: DType,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// Every token computed by every expert.
    AllExperts {
        /// Experts that are computed.
        experts: u64,
        /// Experts that a token chooses.
        chosen: u64,
        /// Time of the kernels.
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
    Fills {
        /// Size of the largest one that the program fills itself; absent where the framework fills all new tensors.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        largest: Option<Bytes>,
        /// Time of the kernels.
        kernels_ns: Nanos,
    },
    /// A prompt in passes of few tokens.
    SmallChunks {
        /// Passes over the model.
        passes: u64,
        /// Tokens that are computed, or held in the KV cache.
        tokens: u64,
    },
    /// The program's thread loses its CPU.
    CpuContention {
        /// Host time of a step.
        time_ns: Nanos,
    },
    /// Exchange between devices with nothing else running.
    Communication {
        /// Time of the kernels.
        kernels_ns: Nanos,
        /// Name of the longest kernel.
        longest: String,
    },
    /// Elementwise kernels that follow each other.
    UnfusedElementwise {
        /// Kernels that follow each other.
        kernels: u64,
        /// Time of the kernels.
        kernels_ns: Nanos,
        /// Operators that launch one such run, each once; none inside of a CUDA graph.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        run_operators: Vec<String>,
    },
    /// The device waits for launches.
    LaunchBound {
        /// Launches of a step.
        launches: u64,
        /// Time in which the device is busy in a step.
        busy_ns: Nanos,
    },
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
                | Self::DispatchMode { .. }
                | Self::HostCalls { .. }
                | Self::HostOperators { .. }
                | Self::CpuContention { .. }
        )
    }

    /// Whether it is a pause that the trace shows once.
    pub fn is_seen_once(&self) -> bool {
        matches!(
            self,
            Self::HostCode {
                is_seen_once: true,
                ..
            }
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
            Self::UnmergedAdapters { .. } => "unmerged_adapters",
            Self::RepeatedTables { .. } => "repeated_tables",
            Self::DispatchMode { .. } => "dispatch_mode",
            Self::HostOperators { .. } => "host_operators",
            Self::PinnedMemory { .. } => "pinned_memory",
            Self::GraphCaptures { .. } => "graph_captures",
            Self::Allocation { .. } => "allocation",
            Self::BlockingLaunches => "blocking_launches",
            Self::GemmFormat { .. } => "gemm_format",
            Self::UnalignedGemms { .. } => "unaligned_gemms",
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[schemars(rename = "CausePlace")]
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseGain {
    /// Name of the phase.
    pub phase: RunPhase,
    /// Name for people, where the phase is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Steps that the phase's times are divided by; 1 where the phase is one pass.
    pub steps: u64,
    /// What the phase takes now.
    pub now_ns: Nanos,
    /// With the profiler's cost, as recorded.
    #[serde(default)]
    pub recorded_ns: Nanos,
    /// What removing the cause saves, by replay.
    pub saved_ns: Nanos,
    /// The least and most over the range of the profiler's cost and of the new durations.
    pub low_ns: Nanos,
    /// Most that it saves.
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

    /// The most that may be saved as a part of the phase.
    pub fn most_share(&self) -> f64 {
        self.high_ns.0 as f64 / self.now_ns.0.max(1) as f64
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Cause {
    #[serde(flatten)]
    pub kind: CauseKind,
    /// How often in one step of the phase where it saves most.
    pub count: f64,
    /// Where in the program it is.
    pub place: Place,
    /// The phase where it saves most comes first.
    pub gains: Vec<PhaseGain>,
    /// Codes of causes before it that are about the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_time_as: Vec<String>,
}
