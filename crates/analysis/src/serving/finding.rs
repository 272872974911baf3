//! What a load showed of a server, as codes and values; the report has the sentences.

use serde::{Deserialize, Serialize};

/// The mean request in parts, milliseconds; they add up to its mean latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanParts {
    /// Requests they are of.
    pub requests: u64,
    pub e2e_ms: f64,
    pub parts: Vec<MeanPart>,
    pub not_split: Vec<NotSplit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanPart {
    pub part: LatencyPart,
    /// Milliseconds of the mean request.
    pub mean_ms: f64,
    /// 99th percentile over requests, where each has the part.
    pub p99_ms: Option<f64>,
    pub source: PartSource,
}

impl MeanParts {
    /// Milliseconds of a part; 0 where the mean request has none of it.
    pub fn ms(&self, part: LatencyPart) -> f64 {
        let found = self.parts.iter().find(|found| found.part == part);
        found.map_or(0.0, |found| found.mean_ms)
    }
}

/// What a request spends its latency on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyPart {
    /// Between the time a request was due and the time it was sent.
    Client,
    Connection,
    /// The engine step that ran when the request came: it is scheduled after its end at the earliest.
    RunningStep,
    Queueing,
    Prefill,
    /// Network and API server: before the first token, and none of the above.
    Network,
    /// Queueing, prefill and network in one, where nothing splits them.
    UntilFirstToken,
    Decode,
    OthersPrefill,
    Stalls,
}

/// How a part is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartSource {
    ClientTimestamps,
    ServerTimings,
    TraceSteps,
    ServerTimingsAndTraceSteps,
    /// The server's histograms: means of the window.
    ServerHistograms,
    /// The server's TTFT less its queueing and prefill.
    ServerTtftRemainder,
    /// What the histograms leave.
    Remainder,
    /// Gaps between tokens in which another request's first token came.
    OthersFirstTokens,
    /// Gaps beyond 5 times the typical one.
    LongGaps,
    /// The same, and the server counted preemptions.
    LongGapsAndPreemptions,
}

/// What stays in one part, and why.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum NotSplit {
    /// Queueing and prefill of single requests: the server has histograms only.
    HistogramsOnly,
    /// The server's means are not those of these requests.
    OtherRequests {
        queue_ms: f64,
        prefill_ms: f64,
        until_first_token_ms: f64,
    },
    NothingKnown,
}

/// A conclusion about the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    #[serde(flatten)]
    pub kind: FindingKind,
    /// What a change gains at most, as a share of the mean latency: what findings are ordered by.
    pub share_of_latency: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum FindingKind {
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

/// Why nothing is concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoFindings {
    /// The client did not keep up, so its latencies are not the server's.
    ClientTooSlow,
    NoCompleteStream,
}
