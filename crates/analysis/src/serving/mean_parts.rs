//! The mean request of a load in parts, as codes and values; the report has the sentences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::thresholds::REQUEST_PART_MIN_SHARE;

/// The mean request in parts, milliseconds; they add up to its mean latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct MeanParts {
    /// Number of requests that the means are of.
    pub requests: u64,
    /// Mean latency: the sum of the parts.
    pub e2e_ms: f64,
    /// Parts in order of time.
    pub parts: Vec<MeanPart>,
    /// What stays in one part, and why.
    pub not_split: Vec<NotSplit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct MeanPart {
    /// What the time was spent on.
    pub part: LatencyPart,
    /// Milliseconds of the mean request.
    pub mean_ms: f64,
    /// 99th percentile over requests, where each has the part.
    pub p99_ms: Option<f64>,
    /// How the part is known.
    pub source: PartSource,
}

impl MeanParts {
    /// Milliseconds of a part; 0 where the mean request has none of it.
    pub fn ms(&self, part: LatencyPart) -> f64 {
        let own = self.parts.iter().find(|own| own.part == part);
        own.map_or(0.0, |own| own.mean_ms)
    }

    /// Milliseconds of queueing, prefill and network in one, where they are as much as a part that a finding names: queueing may be.
    pub fn undivided_wait_ms(&self) -> Option<f64> {
        let ms = self.ms(LatencyPart::UntilFirstToken);
        (ms > 0.0 && ms >= REQUEST_PART_MIN_SHARE * self.e2e_ms).then_some(ms)
    }
}

/// What a request spends its latency on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
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
    /// What the server's histograms leave of the client's measurement.
    Remainder,
    /// Gaps between tokens in which another request's first token came.
    OthersFirstTokens,
    /// Gaps beyond 5 times the typical one.
    LongGaps,
    /// The same, and the server counted preemptions.
    LongGapsAndPreemptions,
}

/// Why some time stays in one part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum NotSplit {
    /// Queueing and prefill of single requests: the server has histograms only.
    HistogramsOnly,
    /// The server's means are not those of these requests.
    OtherRequests {
        /// Mean queueing time of the server.
        queue_ms: f64,
        /// Mean prefill time of the server.
        prefill_ms: f64,
        /// Mean time to the first token of these requests.
        until_first_token_ms: f64,
    },
    NothingKnown,
}
