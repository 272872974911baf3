//! A cause with its evidence and gain, as values; `report::text` has the sentences.

use crate::thresholds::{
    GAIN_HIGH_RATIO, GAIN_LOW_RATIO, GAIN_VALUE_ERROR_MAX_PHASE_SHARE, GAIN_VALUE_ERROR_MAX_SHARE,
};
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
        /// Name of the API call in which the host waits, such as `cudaDeviceSynchronize`.
        call: String,
        /// Time that the host waits.
        waited_ns: Nanos,
        /// Whether the host computes on what it reads and copies the result back.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_copied_back: bool,
    },
    /// Calls of the CUDA API that neither launch, copy nor wait.
    HostCalls {
        /// Name of the API function that is called.
        call: String,
        /// Host time of the calls and of the code around them, in a step.
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
        /// Whether it may be the fresh input of a step: one copy to the device in each, in a program that is not known to generate text.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_input: bool,
        /// Whether the copies of a step would take less time as one: they are small, and slower than their link.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gains_by_joining: bool,
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
        /// Duration of the longest pause.
        longest_ns: Nanos,
        /// Operator that ends before the longest pause; absent where the trace has none.
        after: Option<String>,
        /// Operator that begins after the longest pause; absent where the trace has none.
        before: Option<String>,
        /// Bytes that were copied to the host right before the longest pause.
        copied: Option<Bytes>,
        /// Part of the sampled time in which the garbage collector ran; absent where no sample shows it running.
        collecting_share: Option<f64>,
        /// Thread, and the line it runs, that holds the GIL during the pauses; absent where samples show none.
        gil_holder: Option<String>,
        /// Whether pauses have the length of Python's switch interval, so that another thread holds the GIL.
        has_switch_interval: bool,
        /// Whether the trace has ops of the framework, so that the pauses are other code.
        #[serde(default)]
        has_ops: bool,
        /// Whether the trace has no second pause of such a length: nobody knows whether it comes again.
        #[serde(default)]
        is_seen_once: bool,
        /// Whether the device works for as long in a step, so that it could hide the code.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fits_beside_gpu: bool,
        /// Whether all pauses lie between the ranges of requests: the program may wait for the next one.
        #[serde(default)]
        are_between_requests: bool,
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
        /// Number of other operators with the same cause.
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
        /// Number format that the program uses.
        dtype: DType,
        /// Number format in which the device would multiply faster.
        faster: DType,
        /// Whether the model's own format is the faster one; else tensor cores would take the same data.
        is_of_model: bool,
        /// Device time of these GEMMs in a step.
        kernels_ns: Nanos,
    },
    /// GEMMs whose rows are not aligned to 16 bytes.
    UnalignedGemms {
        /// Shapes of both factors of the longest one.
        shape: String,
        /// Device time of these GEMMs in a step.
        kernels_ns: Nanos,
    },
    /// Weights converted to another format in every pass.
    WeightCasts {
        /// Number format before the conversion; empty where it is not recorded.
        from: String,
        /// Number format after the conversion; empty where it is not recorded.
        to: String,
        /// Shape of the first such weight.
        shape: String,
        /// Device time of the conversions in a step.
        kernels_ns: Nanos,
    },
    /// Weights of experts copied for each token before they are multiplied.
    GatheredWeights {
        /// Shape of the copied weights.
        shape: String,
        /// Device time of the gathers in a step.
        kernels_ns: Nanos,
    },
    /// Attention as separate GEMMs and softmax.
    UnfusedAttention {
        /// Shape of the attention scores: `[batch, heads, queries, keys]`.
        shape: String,
        /// Whether fused attention was asked for, and a fallback ran.
        is_fallback: bool,
        /// Device time of all parts of attention in a step.
        kernels_ns: Nanos,
    },
    /// Fused attention with its causal mask as a tensor.
    MaskedAttention {
        /// Shape of the mask.
        shape: String,
        /// Device time of the attention kernels in a step.
        kernels_ns: Nanos,
    },
    /// The same GEMMs over many rows in every decode step.
    RepeatedWork {
        /// Rows of the largest repeated GEMM.
        rows: u64,
        /// GEMMs of a step over these rows.
        gemms: u64,
        /// Device time of the repeated work in a step.
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
        /// Rows of logits that are computed, one for each token.
        rows: u64,
        /// Rows of logits that are sampled from, one for each sequence.
        needed: u64,
    },
    /// Attention over positions of the KV cache that hold no token.
    UnusedSpan {
        /// Positions of the KV cache that attention reads.
        positions: u64,
        /// Tokens that are computed, or held in the KV cache.
        tokens: u64,
        /// Device time of the attention kernels in a step.
        kernels_ns: Nanos,
    },
    /// A loop of the same few operators on small tensors.
    OperatorLoop {
        /// Iterations of all such loops in a step.
        iterations: u64,
        /// Outermost operators of one iteration of the longest loop.
        operators: u64,
        /// Host time of all iterations but the first, in a step.
        time_ns: Nanos,
    },
    /// Passes over the same positions one after another.
    RepeatedPasses {
        /// Forward passes that one pass could replace.
        passes: u64,
        /// Sequences of one pass.
        sequences: u64,
        /// Tokens of each sequence in one pass.
        tokens: u64,
    },
    /// Tensors converted between layouts around convolutions.
    LayoutConversions {
        /// Device time of the conversions in a step.
        kernels_ns: Nanos,
    },
    /// Dropout runs, as in training.
    Dropout {
        /// Device time of dropout in a step.
        kernels_ns: Nanos,
    },
    /// The KV cache copied: cloned, or concatenated with the new token.
    KvCopies {
        /// Names of the operators that copy, or of the kernel inside of a CUDA graph.
        operator: String,
        /// Shape of the tensor that takes longest to copy, or its number of elements inside of a CUDA graph.
        shape: String,
        /// Device time of the copies in a step.
        kernels_ns: Nanos,
    },
    /// Sorting of a whole vocabulary.
    VocabularySort {
        /// Shape of the sorted tensor.
        shape: String,
        /// Device time of sorting and of what uses its result, in a step.
        kernels_ns: Nanos,
    },
    /// Kernels of a thread that has nothing to do with the program, or of nobody in the trace.
    OtherWork {
        /// Streams of the other work.
        streams: u64,
        /// Device time of the other work in a step.
        kernels_ns: Nanos,
        /// Name of the longest kernel.
        longest: Option<String>,
    },
    /// Another process computes on the same device, in time slices.
    GpuShared {
        /// Usual length of a slice of the other process.
        slice_ns: Nanos,
        /// Time of its slices in a step.
        time_ns: Nanos,
    },
    /// Long kernels of a few thread blocks, while nothing else runs.
    SmallGrids {
        /// Name of the longest one.
        kernel: String,
        /// Thread blocks of the longest kernel.
        blocks: u64,
        /// Number of multiprocessors of the device.
        multiprocessors: u64,
        /// Device time of these kernels in a step.
        kernels_ns: Nanos,
    },
    /// Decode steps in several passes, each over a part of the sequences.
    SmallBatches {
        /// Passes over the model in a step.
        passes: u64,
        /// Number of sequences in one pass.
        rows: u64,
        /// Number of sequences in one step.
        sequences: u64,
        /// Time of the kernels of all passes but the first.
        kernels_ns: Nanos,
    },
    /// Operators other than GEMMs in a wider format than they need.
    WideOperators {
        /// Number format that the program uses.
        dtype: DType,
        /// Device time of these operators in a step.
        kernels_ns: Nanos,
    },
    /// Every token computed by every expert.
    AllExperts {
        /// Experts of a layer, all of which compute every token.
        experts: u64,
        /// Experts that a token chooses.
        chosen: u64,
        /// Device time of the GEMMs over all experts in a step.
        kernels_ns: Nanos,
    },
    /// Experts computed one after another by a loop of the host.
    ExpertLoop {
        /// Experts of one layer that the loop computes.
        experts: u64,
        /// Host time of the loops in a step.
        time_ns: Nanos,
    },
    /// New tensors filled before they are written.
    Fills {
        /// Size of the largest one that the program fills itself; absent where the framework fills all new tensors.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        largest: Option<Bytes>,
        /// Device time of the fills in a step.
        kernels_ns: Nanos,
    },
    /// A prompt in passes of few tokens.
    SmallChunks {
        /// Forward passes that compute one prompt.
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
        /// Device time of the exchange in a step.
        kernels_ns: Nanos,
        /// Name of the longest kernel.
        longest: String,
    },
    /// Device work that moves, orders or gathers tensors and that nothing else explains.
    WorkBeyondModel {
        /// Shape of the largest tensor of the longest call.
        shape: String,
        /// Device time of the operator in a step.
        kernels_ns: Nanos,
    },
    /// Products of tensors that both have a row for every token.
    TokenProducts {
        /// Shape of the largest tensor of the longest call.
        shape: String,
        /// Device time of the products in a step.
        kernels_ns: Nanos,
    },
    /// Elementwise kernels that follow each other.
    UnfusedElementwise {
        /// Elementwise kernels that follow each other.
        kernels: u64,
        /// Copies and reductions between them.
        #[serde(default)]
        others: u64,
        /// Device time of these kernels in a step.
        kernels_ns: Nanos,
        /// Operators that launch one such run, each once; none inside of a CUDA graph.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        run_operators: Vec<String>,
    },
    /// Several devices of which one computes at a time.
    DevicesInTurn {
        /// Number of devices.
        devices: u64,
        /// Time in which one of them is busy in a step.
        busy_ns: Nanos,
    },
    /// The device waits for launches.
    LaunchBound {
        /// Number of launch calls in a step.
        launches: u64,
        /// Time in which the device is busy in a step.
        busy_ns: Nanos,
        /// Host time of a step in code between ops that takes far longer than between most ops: not the launches' fault.
        #[serde(default)]
        code_ns: Nanos,
    },
}

impl CauseKind {
    /// Whether it is true of most programs that a framework runs operator by operator.
    pub(crate) fn is_general(&self) -> bool {
        matches!(
            self,
            Self::LaunchBound { .. }
                | Self::UnfusedElementwise { .. }
                | Self::WorkBeyondModel { .. }
                | Self::TokenProducts { .. }
        )
    }

    /// Whether its gain rests on how long something takes that did not run: other kernels, fewer positions, a device without other work.
    pub(crate) fn assumes_new_times(&self) -> bool {
        matches!(
            self,
            Self::GemmFormat { .. }
                | Self::UnalignedGemms { .. }
                | Self::GatheredWeights { .. }
                | Self::UnfusedAttention { .. }
                | Self::MaskedAttention { .. }
                | Self::Recomputed { .. }
                | Self::UnusedLogits { .. }
                | Self::UnusedSpan { .. }
                | Self::OperatorLoop { .. }
                | Self::RepeatedPasses { .. }
                | Self::OtherWork { .. }
                | Self::SmallGrids { .. }
                | Self::SmallBatches { .. }
                | Self::SmallChunks { .. }
                | Self::WideOperators { .. }
                | Self::AllExperts { .. }
                | Self::ExpertLoop { .. }
                | Self::UnfusedElementwise { .. }
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

    /// Recorded time of a step in what the host does instead of launching, where that is all that the cause is about.
    pub(super) fn host_time(&self) -> Option<Nanos> {
        match self {
            Self::HostCode { time_ns, .. }
            | Self::HostCalls { time_ns, .. }
            | Self::HostOperators { time_ns, .. } => Some(*time_ns),
            _ => None,
        }
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
            Self::GpuShared { .. } => "gpu_shared",
            Self::SmallGrids { .. } => "small_grids",
            Self::SmallBatches { .. } => "small_batches",
            Self::WideOperators { .. } => "wide_operators",
            Self::AllExperts { .. } => "all_experts",
            Self::ExpertLoop { .. } => "expert_loop",
            Self::Fills { .. } => "fills",
            Self::SmallChunks { .. } => "small_chunks",
            Self::CpuContention { .. } => "cpu_contention",
            Self::Communication { .. } => "communication",
            Self::WorkBeyondModel { .. } => "work_beyond_model",
            Self::TokenProducts { .. } => "token_products",
            Self::UnfusedElementwise { .. } => "unfused_elementwise",
            Self::DevicesInTurn { .. } => "devices_in_turn",
            Self::LaunchBound { .. } => "launch_bound",
        }
    }
}

/// Where in the program it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct CausePlace {
    /// The operator of the framework; absent where the cause has no single operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The `nn.Module` that calls the operator; absent where no module was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Function, file and line of the program; absent where neither Python functions nor stacks were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// What removing a cause gives in one phase: times without the profiler's cost, of one step where steps are known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseGain {
    /// The phase in which the cause occurs.
    pub phase: RunPhase,
    /// Name of the phase in reports; absent where the name of `phase` is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Steps that the phase's times are divided by; 1 where the phase is one pass.
    pub steps: u64,
    /// Replayed time of a step without the profiler's cost.
    pub now_ns: Nanos,
    /// Replayed time of a step with the profiler's cost, as recorded.
    #[serde(default)]
    pub recorded_ns: Nanos,
    /// What removing the cause saves, by replay.
    pub saved_ns: Nanos,
    /// Least time that it saves: four of five measured savings are between this and `high_ns`. Of an upper bound (`saved_ns` is 0) both are
    /// as replayed.
    pub low_ns: Nanos,
    /// Most time that it saves.
    pub high_ns: Nanos,
    /// Whether the host limits the phase only while it is profiled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_bound_by_profiler: bool,
}

impl PhaseGain {
    /// Widens the range of replays, which covers the profiler's cost and new durations, by what they do not show, such as the speed of the
    /// host without the profiler. An upper bound stays one.
    ///
    /// No gain is more than `most_ns`, where that is known.
    pub(super) fn widen_range(&mut self, most_ns: Option<Nanos>) {
        if self.saved_ns.0 > 0 {
            let scaled = |time: Nanos, ratio: f64| Nanos((ratio * time.0 as f64) as i64);
            let most = most_ns.unwrap_or(self.now_ns).min(self.now_ns);
            self.low_ns = scaled(self.low_ns, GAIN_LOW_RATIO);
            self.high_ns = scaled(self.high_ns, GAIN_HIGH_RATIO)
                .min(most)
                .max(self.saved_ns);
        }
    }

    /// Saved time ÷ time of a step.
    pub fn share(&self) -> f64 {
        self.saved_ns.0 as f64 / self.now_ns.0.max(1) as f64
    }

    /// Most time that may be saved ÷ time of a step.
    pub fn most_share(&self) -> f64 {
        self.high_ns.0 as f64 / self.now_ns.0.max(1) as f64
    }

    /// Whether the range is what is known: its half is more than a single value may be off.
    pub fn is_range(&self) -> bool {
        let half = (self.high_ns.0 - self.low_ns.0) as f64 / 2.0;
        let of_gain = GAIN_VALUE_ERROR_MAX_SHARE * self.saved_ns.0 as f64;
        let of_phase = GAIN_VALUE_ERROR_MAX_PHASE_SHARE * self.now_ns.0 as f64;
        self.saved_ns.0 > 0 && half > of_gain.max(of_phase)
    }

    /// Time saved in all steps, ns.
    pub fn total_saved(&self) -> i64 {
        self.saved_ns.0.saturating_mul(self.steps as i64)
    }

    /// What `steps` counts: steps, or repetitions where nothing proves a step.
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
    pub place: CausePlace,
    /// The phase where it saves most comes first.
    pub gains: Vec<PhaseGain>,
    /// Codes of causes before it that are about the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_time_as: Vec<String>,
}
