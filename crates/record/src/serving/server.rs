//! What a server said of itself while it was loaded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which program a page of metrics is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerFamily {
    /// The server of vLLM.
    Vllm,
    /// The server of SGLang.
    Sglang,
    /// The server of TensorRT-LLM.
    TensorRtLlm,
    /// NVIDIA's Triton Inference Server.
    Triton,
    /// NVIDIA's DCGM exporter, which reports GPUs.
    Dcgm,
    /// The server of llama.cpp.
    LlamaCpp,
    /// Metrics with none of the known prefixes.
    Unknown,
}

impl ServerFamily {
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::TensorRtLlm => "TensorRT-LLM",
            Self::Triton => "Triton",
            Self::Dcgm => "DCGM exporter",
            Self::LlamaCpp => "llama.cpp",
            Self::Unknown => "unknown server",
        }
    }
}

/// Gauges of a server at one scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Gauges {
    /// Number of requests in running batches.
    pub running: Option<f64>,
    /// Number of requests in the queue.
    pub waiting: Option<f64>,
    /// KV cache in use, a share of 1.
    pub kv_usage: Option<f64>,
}

/// What a server says of a window. Absent is what it does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct ServerWindow {
    /// Time to the first token, from when the server had the request.
    pub ttft_ms: Option<WindowHistogram>,
    /// Time between two tokens (ITL), ms.
    pub itl_ms: Option<WindowHistogram>,
    /// Time per output token (TPOT), ms.
    pub tpot_ms: Option<WindowHistogram>,
    /// Time to the last token.
    pub e2e_ms: Option<WindowHistogram>,
    /// Time that requests waited in the queue, ms.
    pub queue_ms: Option<WindowHistogram>,
    /// Time that requests spent in prefill, ms.
    pub prefill_ms: Option<WindowHistogram>,
    /// Time that requests spent in decode, ms.
    pub decode_ms: Option<WindowHistogram>,
    /// Number of preemptions in the window.
    pub preemptions: Option<f64>,
    /// Share of prompt tokens found in the prefix cache.
    pub prefix_cache_hit_rate: Option<f64>,
    /// Number of tokens generated in the window.
    pub output_tokens: Option<f64>,
    /// Tokens of an engine step, mean.
    pub tokens_per_step: Option<f64>,
    /// Means, of servers without histograms.
    pub e2e_mean_ms: Option<f64>,
    /// Mean time in the queue, ms, of servers without histograms.
    pub queue_mean_ms: Option<f64>,
    /// Mean time of computing, ms, of servers without histograms.
    pub compute_mean_ms: Option<f64>,
    /// Mean time per output token, ms, of servers without histograms.
    pub tpot_mean_ms: Option<f64>,
    /// Energy that the GPUs took in the window, J.
    pub energy_j: Option<f64>,
}

/// What a quantile of a histogram is where it is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The quantile is no more than this.
    AtMost,
    /// The quantile is no less than this: it lies in the bucket without an upper limit.
    AtLeast,
}

/// A histogram over a window, all label sets together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct WindowHistogram {
    /// Number of values in the window.
    pub count: f64,
    /// Sum of the values in the window.
    pub sum: f64,
    /// Upper limits and the values up to each, cumulative; the last limit is infinite and left out of JSON.
    #[serde(skip)]
    pub buckets: Vec<(f64, f64)>,
    /// Mean of the values; absent where the window has none.
    pub mean: Option<f64>,
    /// By linear interpolation inside of a bucket, and no more than the mean allows: no more exact than the buckets are wide.
    pub p50: Option<f64>,
    /// The 90th percentile, estimated like `p50`.
    pub p90: Option<f64>,
    /// The 99th percentile, estimated like `p50`.
    pub p99: Option<f64>,
    /// Which of them are bounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bounds: BTreeMap<String, Bound>,
}

impl WindowHistogram {
    /// With its mean and quantiles.
    #[must_use]
    pub fn finished(mut self) -> Self {
        self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Durations are not negative, whatever a server adds up.
        self.mean = (self.count > 0.0 && self.sum >= 0.0).then(|| self.sum / self.count);
        let mut quantile = |name: &str, q: f64| {
            let (value, bound) = self.bounded_quantile(q)?;
            if let Some(bound) = bound {
                self.bounds.insert(name.to_owned(), bound);
            }
            Some(value)
        };
        (self.p50, self.p90, self.p99) = (
            quantile("p50", 0.5),
            quantile("p90", 0.9),
            quantile("p99", 0.99),
        );
        self
    }

    /// Of values that are not negative, no more than mean ÷ (1 − q) (Markov's inequality): a first bucket of 300 ms says
    /// nothing about queueing of microseconds, its sum does.
    fn bounded_quantile(&self, q: f64) -> Option<(f64, Option<Bound>)> {
        let value = self.quantile(q)?;
        let most = self.mean.map_or(f64::INFINITY, |mean| mean / (1.0 - q));
        if most < value {
            return Some((most, Some(Bound::AtMost)));
        }
        let (_, total) = *self.buckets.last()?;
        let finite = self.buckets.iter().rfind(|(limit, _)| limit.is_finite());
        let is_beyond = finite.is_none_or(|(_, count)| *count < q * total);
        Some((value, is_beyond.then_some(Bound::AtLeast)))
    }

    /// As Prometheus' `histogram_quantile`; in the last bucket, its lower limit.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let (_, total) = *self.buckets.last()?;
        if total <= 0.0 {
            return None;
        }
        let rank = q * total;
        let (mut low, mut below) = (0.0, 0.0);
        for &(limit, count) in &self.buckets {
            if count >= rank {
                if limit.is_infinite() {
                    return Some(low);
                }
                let inside = count - below;
                let share = if inside > 0.0 {
                    (rank - below) / inside
                } else {
                    1.0
                };
                return Some(low + (limit - low) * share);
            }
            (low, below) = (limit, count);
        }
        None
    }
}
