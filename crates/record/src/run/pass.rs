//! The passes of a run: what ran when, on the run's one clock.

use std::fmt;

use llmprof_theory::{Pass, Phase};
use llmprof_units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a pass was run.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    JsonSchema,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PassKind {
    /// A warm-up pass, which is excluded from all statistics.
    WarmUp,
    /// No profiler attached: gives latencies and wall times.
    #[default]
    Plain,
    /// A profiler attached: gives the waterfall.
    Captured,
}

impl PassKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::WarmUp => "warm_up",
            Self::Plain => "plain",
            Self::Captured => "captured",
        }
    }
}

/// One run of the whole workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct MeasuredPass {
    /// Whether the pass was a warm-up, plain or captured.
    pub kind: PassKind,
    /// Intervals do not overlap; a phase may have several.
    pub phases: Vec<PhaseSpan>,
    /// What the allocator of the device did, per batch, where the runtime reports it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocator: Vec<AllocatorFacts>,
    /// What the CPU counted while the pass ran, where counters could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_counters: Option<ProcessorCounters>,
}

/// What part of inference an interval of a run belongs to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    Load,
    Vision,
    /// The encoder over the prompt or audio, in models of two stacks.
    Encoder,
    /// The decoder over the prompt.
    Prefill,
    /// The decoder over one token per sequence and step.
    Decode,
    /// Prefill of some requests in the same steps as decode of others.
    Mixed,
    /// Something else; its label says what.
    Other,
}

impl RunPhase {
    /// The name used in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Vision => "vision",
            Self::Encoder => "encoder",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
            Self::Other => "other",
        }
    }

    /// Whether it comes before the decoder's work, once per request: image towers, an encoder.
    pub fn is_before_decoder(self) -> bool {
        matches!(self, Self::Vision | Self::Encoder)
    }

    /// The phase of theory that counts its operators; none for those that theory does not count by themselves.
    pub fn counted(self) -> Option<Phase> {
        match self {
            Self::Vision => Some(Phase::Vision),
            Self::Encoder => Some(Phase::Encoder),
            Self::Prefill => Some(Phase::Prefill),
            Self::Decode => Some(Phase::Decode),
            Self::Load | Self::Mixed | Self::Other => None,
        }
    }
}

impl fmt::Display for RunPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An interval of a pass that belongs to one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseSpan {
    /// The phase that the interval belongs to.
    pub phase: RunPhase,
    /// Start of the interval, ns on the clock of the run.
    pub start_ns: Nanos,
    /// End of the interval, ns on the clock of the run.
    pub end_ns: Nanos,
    /// What the decoder did in it, in order. Empty means what the workload says for the phase: all of its prefill, or all
    /// of its decode steps. A generation that stopped early must state its steps, or the others count as missing.
    #[serde(default)]
    pub passes: Vec<PassShape>,
}

impl PhaseSpan {
    /// The length of the interval; 0 if it ends before it starts.
    pub fn duration(&self) -> Nanos {
        Nanos(self.end_ns.0.saturating_sub(self.start_ns.0).max(0))
    }

    pub fn contains(&self, time: Nanos) -> bool {
        (self.start_ns..self.end_ns).contains(&time)
    }
}

/// Equal steps of the decoder, as [`Pass`] without its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct PassShape {
    /// Number of sequences in the batch.
    pub batch: u64,
    /// New tokens per sequence and step.
    pub queries: u64,
    /// Tokens per sequence in the KV cache before the first step.
    pub past: u64,
    /// Number of steps with this shape.
    pub steps: u64,
    /// Positions per sequence and step whose logits are computed.
    pub logits: u64,
}

impl PassShape {
    pub fn pass(self, phase: Phase) -> Pass {
        Pass {
            phase,
            batch: self.batch,
            queries: self.queries,
            past: self.past,
            steps: self.steps,
            logits: self.logits,
        }
    }
}

/// When one request started and when its tokens came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Request {
    /// Its name in per-request rows.
    pub id: String,
    /// Index of its pass in [`RunRecord::passes`](super::RunRecord::passes).
    pub pass: usize,
    /// When it was handed to the engine.
    pub start_ns: Nanos,
    /// When each of its tokens arrived, in order. A server that sends several at once gives fewer times than tokens.
    pub token_ns: Vec<Nanos>,
    /// The same by the device's own events, since its batch began; empty where the runtime has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_token_ns: Vec<Nanos>,
    /// Number of tokens in the prompt.
    pub prompt_tokens: u64,
    /// Number of tokens that were generated.
    pub output_tokens: u64,
    /// Sequences that ran together with it, itself included.
    pub batch: u64,
}

/// What the device's caching allocator did during one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct AllocatorFacts {
    /// Held by tensors when the batch began: weights and what earlier batches left.
    pub start_allocated_bytes: Bytes,
    /// Most memory that tensors held.
    pub peak_allocated_bytes: Bytes,
    /// Taken from the driver, at most.
    pub peak_reserved_bytes: Bytes,
    /// Memory that tensors held at the end.
    pub end_allocated_bytes: Bytes,
    /// Memory that the allocator held of the driver at the end.
    pub end_reserved_bytes: Bytes,
    /// Free pieces of blocks in use, at most: lost to fragmentation unless a later request fits.
    pub peak_inactive_split_bytes: Bytes,
    /// Number of allocations during the batch.
    pub allocations: u64,
    /// Allocations that only succeeded after cached blocks went back to the driver.
    pub retries: u64,
}

/// What the CPU counted in user mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct ProcessorCounters {
    /// CPU cycles in user mode.
    pub cycles: Option<u64>,
    /// Instructions that the CPU retired.
    pub instructions: Option<u64>,
    /// Accesses that reached the last level of cache.
    pub cache_references: Option<u64>,
    /// Accesses that missed the last level of cache.
    pub cache_misses: Option<u64>,
    /// The smallest share of time in which a counter was scheduled on the hardware.
    pub counted_share: Option<f64>,
}

impl ProcessorCounters {
    pub fn instructions_per_cycle(&self) -> Option<f64> {
        let cycles = self.cycles.filter(|&cycles| cycles > 0)?;
        Some(self.instructions? as f64 / cycles as f64)
    }
}
