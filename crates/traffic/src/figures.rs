//! A load in numbers, measured or predicted. Times are milliseconds, rates per second.

use std::collections::BTreeMap;

use llmprof_units::Basis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    slo::{Latencies, Metric},
    statistics::Distribution,
};

/// What a load that was sent and one that was simulated have in common.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct LoadFigures {
    /// `measured`, or `predicted` by a simulation.
    #[serde(default = "measured_basis")]
    pub basis: Basis,
    /// Time to first token in ms, counted from when the request was due.
    pub ttft_ms: Option<Distribution>,
    /// (Last − first token) ÷ (output tokens − 1), one a request.
    pub tpot_ms: Option<Distribution>,
    /// Time to each token after the first, one a token.
    pub itl_ms: Option<Distribution>,
    /// End-to-end latency in ms: from when the request was due to its last token.
    pub e2e_ms: Option<Distribution>,
    /// Completed requests per second, from the first due to the last answer.
    pub request_throughput: f64,
    /// Output tokens per second; absent where tokens are not known.
    pub output_throughput: Option<f64>,
    /// Prompt and output tokens per second.
    pub total_token_throughput: Option<f64>,
    /// Completed requests per second that met every SLO, where there are any.
    pub goodput: Option<f64>,
    /// Number of requests that were answered in full.
    pub completed: u64,
    /// Number of requests that ended without a full answer.
    pub failed: u64,
    /// Prompt tokens of completed requests.
    pub total_input_tokens: Option<u64>,
    /// Output tokens of completed requests.
    pub total_output_tokens: Option<u64>,
    /// Seconds from the first due to the last answer.
    pub duration_s: f64,
}

/// Files of earlier versions do not say.
fn measured_basis() -> Basis {
    Basis::Measured
}

impl Latencies for LoadFigures {
    fn distribution(&self, metric: Metric) -> Option<Distribution> {
        match metric {
            Metric::Ttft => self.ttft_ms,
            Metric::Tpot => self.tpot_ms,
            Metric::Itl => self.itl_ms,
            Metric::E2e => self.e2e_ms,
        }
    }

    fn outcomes(&self) -> (u64, u64) {
        (self.completed, self.failed)
    }
}

/// The numbers of a load that was sent. Latencies are of completed requests, without those that the server's profiler may have
/// slowed unless there are no others.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct LoadSummary {
    #[serde(flatten)]
    pub figures: LoadFigures,
    /// Gaps between arrivals of text, whatever each brings.
    pub arrival_gap_ms: Option<Distribution>,
    /// What the client was late by; absent in a closed loop.
    pub schedule_lag_ms: Option<Distribution>,
    /// Requests without a result by kind of failure.
    pub failures: BTreeMap<String, u64>,
    /// Turns never asked, since one before them failed.
    pub abandoned: u64,
    /// Requests that latencies are of.
    #[serde(default)]
    pub timed: u64,
    /// When the server stopped answering, seconds from the start of the load; absent where it answered to the end.
    #[serde(default)]
    pub server_stopped_s: Option<f64>,
    /// How tokens were counted, by requests.
    pub token_basis: BTreeMap<String, u64>,
    /// Highest number of requests in flight, and the mean over time.
    pub concurrency: Concurrency,
    /// The part of the load in which neither its start nor its end shows.
    pub steady_state: Option<SteadyState>,
}

/// Requests in flight, from due to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Concurrency {
    /// Highest number of requests in flight at any one time.
    pub max: u64,
    /// Number of requests in flight, averaged over time.
    pub mean: f64,
}

/// From the first completion to the last request that was due, or to where the server stopped answering.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SteadyState {
    /// Start of the interval, in seconds from the start of the load.
    pub start_s: f64,
    /// End of the interval, in seconds from the start of the load.
    pub end_s: f64,
    /// Requests that were due in it.
    pub requests: u64,
    /// Requests per second, each counted by the share of its latency that lies in it: completions at the edges of a closed loop
    /// come in waves, and counting them whole adds a wave.
    pub request_throughput: f64,
    /// Tokens that arrived in it per second; absent where arrivals of tokens are not known.
    pub output_throughput: Option<f64>,
    /// TTFT of requests due in it.
    pub ttft_ms: Option<Distribution>,
    /// TPOT of requests due in it.
    pub tpot_ms: Option<Distribution>,
    /// Latency of requests due in it.
    pub e2e_ms: Option<Distribution>,
}
