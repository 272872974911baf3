//! Whether the figures of a load would hold for a longer one.

use llmprof_traffic::slo::{Latencies, Metric};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{plan::steady::SETTLED_SHARE, simulated_load::SimulatedLoad};

/// Part of the requests that arrive of which less than are served at overload: some are always on their way when a load ends.
const SERVED_SHARE_MAX: f64 = 0.9;

/// TTFT of all requests ÷ TTFT of their first half from which on the queue grows; a queue that only grows has 2.
const GROWTH_MIN_RATIO: f64 = 1.5;

/// Rates of a load that is more than the engines serve.
#[derive(Serialize, JsonSchema)]
pub struct Overload {
    /// Requests per second that arrive.
    pub asked_per_s: f64,
    /// Requests per second that are served.
    pub served_per_s: f64,
}

/// A statistic of half as many requests, and of all.
#[derive(Serialize, JsonSchema)]
pub struct Unsettled {
    /// Metric and percentile, such as `tpot:p99`.
    pub statistic: String,
    /// Value of the first half of the requests.
    pub half_ms: f64,
    /// Value of all requests of the load.
    pub all_ms: f64,
}

/// Finds out whether a load is more than the engines serve: fewer requests are served than arrive, and the median request waits the longer
/// the more there are.
pub fn find_overload(
    asked_per_s: Option<f64>,
    summary: &SimulatedLoad,
    unsettled: &[Unsettled],
) -> Option<Overload> {
    let asked_per_s = asked_per_s?;
    let served_per_s = summary.figures.request_throughput;
    let grows = |one: &Unsettled| {
        one.statistic == "ttft:p50" && one.all_ms > GROWTH_MIN_RATIO * one.half_ms
    };
    let is_more = served_per_s < SERVED_SHARE_MAX * asked_per_s;
    (is_more && unsettled.iter().any(grows)).then_some(Overload {
        asked_per_s,
        served_per_s,
    })
}

/// Medians and 99th percentiles of TTFT and TPOT that half as many requests put elsewhere, by the rule of [`SETTLED_SHARE`].
pub fn find_unsettled(half: &SimulatedLoad, all: &SimulatedLoad) -> Vec<Unsettled> {
    let mut unsettled = Vec::new();
    for metric in [Metric::Ttft, Metric::Tpot] {
        let (Some(half), Some(all)) = (half.distribution(metric), all.distribution(metric)) else {
            continue;
        };
        for (name, half_ms, all_ms) in [("p50", half.p50, all.p50), ("p99", half.p99, all.p99)] {
            if (half_ms - all_ms).abs() > SETTLED_SHARE * all_ms {
                unsettled.push(Unsettled {
                    statistic: format!("{}:{name}", metric.name()),
                    half_ms,
                    all_ms,
                });
            }
        }
    }
    unsettled
}
