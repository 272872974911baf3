//! What a load showed of a server, as codes and values; the report has the sentences.

use serde::{Deserialize, Serialize};

/// What takes time that a setting of the server could remove.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum ServingConclusion {
    ServerQueueing {
        queue_ms: f64,
        e2e_ms: f64,
        running_max: Option<f64>,
        waiting_max: Option<f64>,
        kv_usage_max: Option<f64>,
        limit: QueueLimit,
    },
    PrefillInterruptsDecode {
        wait_ms: f64,
        /// Decode with the waiting.
        decode_ms: f64,
    },
    Preemption {
        requests: f64,
        stall_ms: f64,
    },
    PrefixCacheMisses {
        /// Share of the prompts' tokens that they have in common.
        shared: f64,
        /// Share of the prompts' tokens that the prefix cache had.
        hits: f64,
        gain_ms: f64,
    },
    /// Decode steps whose kernels were launched one by one.
    WithoutCudaGraphs {
        eager_steps: u64,
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
    OutsideOfTheEngine {
        outside_ms: f64,
    },
}

/// What keeps requests in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
