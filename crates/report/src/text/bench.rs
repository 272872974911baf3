//! The page of a load on a server, and what it shares with that of a simulation.

use llmprof_traffic::statistics::Distribution;
use llmprof_units::{Count, Percent, significant};

pub const LATENCY_BASIS: &str = "From the time a request was due, failed requests left out. TPOT is (last − first token) ÷ (output tokens − 1), one value a request; \
     ITL is the time to each token after the first. Intervals need no shape of the distribution; tokens of one request depend on each other, \
     so ITL has none, and the 99th percentile needs 368 values.";

pub const SWEEP_BASIS: &str = "Each rate has a load of its own, after the one before it was drained. Latencies in ms; the numbers below are those of the highest \
     rate that met the objectives.";

pub const NOTHING_REMOVABLE: &str =
    "No part of the latency that a setting of the server would remove takes a tenth of it.";

pub const CLIENT_KEPT_UP: &str = "The client kept up.";
pub const CLIENT_DID_NOT_KEEP_UP: &str = "The client did not keep up.";

/// Stands where a value is not known.
pub fn number(value: Option<f64>) -> String {
    value.map_or_else(super::dash, significant)
}

/// Whether objectives are met, in a table.
pub fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "not met" }
}

/// `TTFT p99 200 ms: met (180 ms).`
pub fn objective(objective: &str, is_met: bool, value_ms: Option<f64>) -> String {
    let value = value_ms.map_or_else(
        || "not known".to_owned(),
        |value| format!("{} ms", significant(value)),
    );
    format!("{objective}: {} ({value}).", met(is_met))
}

/// What a sweep over rates found.
pub fn swept(best: Option<f64>, failing: Option<f64>, objectives: &str) -> String {
    match (best, failing) {
        (Some(best), Some(failing)) => format!(
            "{} requests/s meet {objectives}; {} do not.",
            significant(best),
            significant(failing)
        ),
        (Some(best), None) => format!(
            "{} requests/s, the highest rate tried, meet {objectives}.",
            significant(best)
        ),
        (None, _) => format!("No rate that was tried meets {objectives}."),
    }
}

/// `TTFT 31.2 ms (p99 80.1), TPOT 8.4 ms (p99 9.9), latency 420 ms (p99 610).`
pub fn latencies(
    ttft: Option<Distribution>,
    tpot: Option<Distribution>,
    end_to_end: Option<Distribution>,
) -> String {
    let named = [("TTFT", ttft), ("TPOT", tpot), ("latency", end_to_end)];
    let shown: Vec<String> = named
        .into_iter()
        .filter_map(|(name, found)| {
            let found = found?;
            let (p50, p99) = (significant(found.p50), significant(found.p99));
            Some(format!("{name} {p50} ms (p99 {p99})"))
        })
        .collect();
    if shown.is_empty() {
        "No request has a result.".to_owned()
    } else {
        format!("{}.", shown.join(", "))
    }
}

/// How much was served.
pub fn throughput(
    requests_per_s: f64,
    tokens_per_s: Option<f64>,
    completed: u64,
    failed: u64,
    seconds: f64,
) -> String {
    let tokens = tokens_per_s.map_or_else(String::new, |rate| {
        format!(", {} output tokens/s", significant(rate))
    });
    let failed = if failed > 0 {
        format!(", {failed} failed")
    } else {
        String::new()
    };
    format!(
        "{} requests/s{tokens}; {completed} completed{failed} in {} s.",
        significant(requests_per_s),
        significant(seconds)
    )
}

/// A load between its beginning and its end.
pub fn steady_state(
    requests: u64,
    seconds: f64,
    requests_per_s: f64,
    ttft: Option<Distribution>,
    tpot: Option<Distribution>,
) -> String {
    let of = |found: Option<Distribution>| {
        found.map_or_else(super::dash, |d| {
            format!("{} (p99 {})", significant(d.p50), significant(d.p99))
        })
    };
    format!(
        "Steady state, from the first completion to the last request due ({} in {} s): {} requests/s, TTFT {} ms, TPOT {} ms.",
        Count(requests, "request"),
        significant(seconds),
        significant(requests_per_s),
        of(ttft),
        of(tpot)
    )
}

/// What the parts of the mean request are.
pub fn parts(requests: u64) -> String {
    format!(
        "Parts of each of {requests} requests add up to its measured latency (`requests.csv`); these are their means."
    )
}

/// Where the server's own figures come from.
pub fn server_basis(family: &str) -> String {
    format!(
        "{family}: its own histograms over the time of the load. Quantiles are no more exact than the buckets are wide."
    )
}

/// What engine steps there were.
pub fn engine_steps(
    steps: u64,
    with_prefill: u64,
    mean_decode_batch: f64,
    busy_share: f64,
) -> String {
    format!(
        "{} during the load, {with_prefill} of them with prefill, {} sequences in a decode step; steps cover {} of the time from the first to \
         the last (`server/steps.csv`).",
        Count(steps, "engine step"),
        significant(mean_decode_batch),
        Percent(busy_share)
    )
}

/// Whether the client can be believed.
pub fn client(
    kept_up: bool,
    schedule_lag_ms: Option<Distribution>,
    worker_cpu_share: f64,
    event_loop_delay_ms: Option<Distribution>,
    counted_by: &[(String, u64)],
) -> Vec<String> {
    let of = |found: Option<Distribution>| {
        found.map_or_else(super::dash, |d| {
            format!("{:.3} ms (p99 {:.3})", d.p50, d.p99)
        })
    };
    let counted: Vec<String> = counted_by
        .iter()
        .map(|(name, count)| format!("{name} ({})", Count(*count, "request")))
        .collect();
    vec![
        if kept_up {
            CLIENT_KEPT_UP
        } else {
            CLIENT_DID_NOT_KEEP_UP
        }
        .to_owned(),
        format!("Schedule lag: {}.", of(schedule_lag_ms)),
        format!("Busiest worker: {} of a core.", Percent(worker_cpu_share)),
        format!(
            "Event loop delay: {} (up to 1 ms is the timer's own).",
            of(event_loop_delay_ms)
        ),
        format!("Tokens counted by: {}.", counted.join(", ")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_of_a_load_comes_first() {
        assert_eq!(
            swept(Some(12.0), Some(14.0), "TTFT p99 200 ms"),
            "12 requests/s meet TTFT p99 200 ms; 14 do not."
        );
        assert_eq!(
            throughput(3.5, Some(120.0), 70, 2, 20.0),
            "3.5 requests/s, 120 output tokens/s; 70 completed, 2 failed in 20 s."
        );
        assert_eq!(latencies(None, None, None), "No request has a result.");
        assert_eq!(
            objective("TTFT p99 200 ms", false, None),
            "TTFT p99 200 ms: not met (not known)."
        );
    }
}
