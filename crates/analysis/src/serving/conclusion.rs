//! What a load showed of a server, as codes and values; the report has the sentences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What takes time that a setting of the server could remove.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum ServingConclusion {
    /// Requests wait in the queue of the server.
    ServerQueueing {
        /// Mean queueing time of a request.
        queue_ms: f64,
        /// Mean latency of a request.
        e2e_ms: f64,
        /// Most requests that ran at once.
        running_max: Option<f64>,
        /// Most requests that waited at once.
        waiting_max: Option<f64>,
        /// Largest share of the KV cache in use.
        kv_usage_max: Option<f64>,
        /// What keeps requests in the queue.
        limit: QueueLimit,
    },
    /// Prefills of other requests hold up decode.
    PrefillInterruptsDecode {
        /// Mean time that decode waits for prefills of others.
        wait_ms: f64,
        /// Mean time of decode, the waiting included.
        decode_ms: f64,
    },
    /// The server preempts requests because its KV cache is full.
    Preemption {
        /// Number of requests that the server preempted.
        requests: f64,
        /// Mean time that preempted requests stand still.
        stall_ms: f64,
    },
    /// Prompts share tokens that the prefix cache does not have.
    PrefixCacheMisses {
        /// Share of the prompts' tokens that they have in common.
        shared: f64,
        /// Share of the prompts' tokens that the prefix cache had.
        hits: f64,
        /// What the mean request would gain.
        gain_ms: f64,
    },
    /// Decode steps whose kernels were launched one by one.
    WithoutCudaGraphs {
        /// Decode steps without a graph.
        eager_steps: u64,
        /// Decode steps with and without a graph.
        decode_steps: u64,
        /// Sequences of the eager steps, fewest and most.
        eager_batch: [u64; 2],
        /// Sequences of the largest step that replayed a graph; absent where none did.
        graph_batch_max: Option<u64>,
        /// GPU idle ÷ time of the eager steps.
        idle_share: f64,
        /// GPU idle of eager steps, of the mean request's decode.
        gain_ms: f64,
    },
    /// Time passes between client and engine.
    OutsideOfTheEngine {
        /// Mean time outside of the engine.
        outside_ms: f64,
    },
}

/// What keeps requests in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    KvCache,
    /// The KV cache has room: the scheduler's limits decide.
    Scheduler,
    Unknown,
}

impl ServingConclusion {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::ServerQueueing { .. } => "server_queueing",
            Self::PrefillInterruptsDecode { .. } => "prefill_interrupts_decode",
            Self::Preemption { .. } => "preemption",
            Self::PrefixCacheMisses { .. } => "prefix_cache_misses",
            Self::WithoutCudaGraphs { .. } => "without_cuda_graphs",
            Self::OutsideOfTheEngine { .. } => "outside_of_the_engine",
        }
    }

    /// What a change takes off the mean request at most.
    pub fn saving_ms(&self) -> f64 {
        match *self {
            Self::ServerQueueing { queue_ms: ms, .. }
            | Self::PrefillInterruptsDecode { wait_ms: ms, .. }
            | Self::Preemption { stall_ms: ms, .. }
            | Self::PrefixCacheMisses { gain_ms: ms, .. }
            | Self::WithoutCudaGraphs { gain_ms: ms, .. }
            | Self::OutsideOfTheEngine { outside_ms: ms } => ms,
        }
    }
}
