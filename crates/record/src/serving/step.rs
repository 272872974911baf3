//! Engine steps of a server: when each ran, and what was in its batch.

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a batch: sequences, and sums over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct EnginePart {
    /// Number of sequences in the part.
    pub sequences: u64,
    /// Number of tokens that the step computes for them.
    pub tokens: u64,
    /// Tokens they attend to, where the label says so.
    pub context: Option<u64>,
}

/// One step of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct EngineStep {
    /// When the step started, ns since 1970.
    pub start_unix_ns: Nanos,
    /// When the step ended, since 1970.
    pub end_unix_ns: Nanos,
    /// The sequences that were in prefill.
    pub prefill: EnginePart,
    /// The sequences that were in decode.
    pub decode: EnginePart,
    /// When a GPU worked on what the step launched, where that was recorded.
    pub busy_ns: Option<Nanos>,
    /// Whether none of its kernels came out of a CUDA Graph, where kernels were recorded.
    pub is_eager: Option<bool>,
    /// Roofline time of its batch, where model and device are known.
    pub roofline_ns: Option<Nanos>,
}
