//! What the page of a served load says, and what it shares with that of a simulation.

use llmprof_analysis::serving::SloOutcome;
use llmprof_traffic::{
    figures::LoadFigures,
    slo::{Slo, are_met},
    statistics::Distribution,
    sweep::Sweep,
};
use llmprof_units::{Count, Percent, format_significant};

use crate::compose::steps::sentences::has_percentile;

pub const LATENCY_BASIS: &str = "Measured from the time a request was due, without failed requests. TPOT is (last − first token) ÷ (output tokens − 1), one value per \
     request; ITL is the time to each token after the first. Intervals of percentiles assume no distribution: that of p99 needs 368 values. \
     ITL has none, since the tokens of a request are not independent.";

pub const NOTHING_REMOVABLE: &str =
    "None: nothing that a server setting could remove takes 10 % of the latency.";

/// Queueing that is in one part with prefill and network can be most of it.
pub fn undivided_wait(ms: f64, whole_ms: f64) -> String {
    format!(
        "None of what is known by itself takes 10 % of the latency and could be removed by a server setting. Queueing, prefill and network are one part \
         here ({} ms, {} of the latency): how much of it is queueing is not known.",
        format_significant(ms),
        Percent(ms / whole_ms)
    )
}

pub const QUEUE_GREW: &str = "None: more was asked than the server serves, so most of the latency is the growing queue (see the warnings).";

pub const CLIENT_KEPT_UP: &str = "The client kept up.";
pub const CLIENT_DID_NOT_KEEP_UP: &str = "The client did not keep up.";

/// Stands where a value is not known.
pub fn number(value: Option<f64>) -> String {
    value.map_or_else(crate::text::dash, format_significant)
}

/// Whether objectives are met, in a table.
pub fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "not met" }
}

/// The last seconds of a load, or all of it, in a line of progress.
pub fn live(
    ttft_p50_ms: Option<f64>,
    requests_per_s: f64,
    output_tokens_per_s: Option<f64>,
) -> String {
    let mut shown = Vec::new();
    if let Some(ms) = ttft_p50_ms {
        shown.push(format!("TTFT p50 {}", crate::text::time(ms * 1e6)));
    }
    shown.push(format!("{} requests/s", format_significant(requests_per_s)));
    if let Some(rate) = output_tokens_per_s {
        shown.push(format!("{} tokens/s", format_significant(rate)));
    }
    shown.join(", ")
}

/// What came of a load, when it has ended.
pub fn ended(requests: u64, figures: &LoadFigures, slos: &[Slo]) -> String {
    let failed = match figures.failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let numbers = live(
        figures.ttft_ms.map(|ttft| ttft.p50),
        figures.request_throughput,
        figures.output_throughput,
    );
    let objectives = match slos {
        [] => String::new(),
        slos => format!(
            ", objectives {}",
            are_met(slos, figures).map_or("not known", met)
        ),
    };
    let requests = Count(requests, "request");
    format!("{requests}{failed}, {numbers}{objectives}")
}

/// A server that ended or hung during the load.
pub fn server_stopped(seconds: f64) -> String {
    format!("The server stopped answering at {seconds:.1} s.")
}

/// What else decides over an objective.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectiveContext {
    /// Failed requests and all, where they are too many for any objective.
    pub failed: Option<(u64, u64)>,
    /// Whether the client made latencies longer: what is met holds, what is not met may be the client's.
    pub is_client_late: bool,
}

/// `ttft:p99<200ms: met (180 ms).`
pub fn objective(outcome: &SloOutcome, context: &ObjectiveContext) -> String {
    let SloOutcome {
        slo,
        value_ms,
        is_met,
        too_few,
    } = outcome;
    let value = value_ms.map(|value| format!("{} ms", format_significant(value)));
    let is_late = context.is_client_late && !is_met;
    match (context.failed, value, too_few) {
        (Some((failed, all)), value, _) => {
            let value = value.unwrap_or_else(|| "too few values".to_owned());
            let all = Count(all, "request");
            format!("{slo}: not met ({failed} of {all} failed; {value} of the others).")
        }
        (None, Some(value), _) if is_late => {
            format!("{slo}: not known ({value}, but the client was late).")
        }
        (None, Some(value), _) => format!("{slo}: {} ({value}).", met(*is_met)),
        (None, None, Some(few)) if few.is_missed => {
            let above = format!("at least 2 of {} are above it", Count(few.values, "value"));
            if is_late {
                format!("{slo}: not known ({above}, but the client was late).")
            } else {
                format!("{slo}: not met ({above}; the value needs {}).", few.needed)
            }
        }
        (None, None, Some(few)) => format!(
            "{slo}: not known ({}; {} are needed).",
            Count(few.values, "value"),
            few.needed
        ),
        (None, None, None) => format!("{slo}: not known (no values)."),
    }
}

/// What a sweep over rates found. `is_client_late` where the client was late at the lowest rate that failed.
pub fn swept<S>(sweep: &Sweep<S>, objectives: &str, is_client_late: bool) -> String {
    match (sweep.best_rate, sweep.first_failing_rate) {
        (Some(best), Some(failing)) if is_client_late => format!(
            "{} requests/s meet {objectives}. At {} the client was late and the search ended: the server may meet them at higher rates.",
            format_significant(best),
            format_significant(failing)
        ),
        (Some(best), Some(failing)) => format!(
            "{} requests/s meet {objectives}; {} do not.",
            format_significant(best),
            format_significant(failing)
        ),
        (Some(best), None) => format!(
            "{} requests/s, the highest rate tried, meet {objectives}.",
            format_significant(best)
        ),
        (None, Some(_)) => format!("No rate that was tried meets {objectives}."),
        (None, None) => "Interrupted before the load of a rate was complete.".to_owned(),
    }
}

/// What the rates of a sweep are, and which of them the numbers below are of.
pub fn sweep_basis<S>(sweep: &Sweep<S>) -> String {
    let kept = match (sweep.best_rate, sweep.points.is_empty()) {
        (Some(_), _) => "the highest rate that met the objectives",
        (None, false) => "the lowest rate that was tried: none met the objectives",
        (None, true) => "the load that was interrupted",
    };
    format!(
        "Each rate has one load of its own, after the one before it was drained: chance decides between rates that are close, and more --requests make the \
         limit surer. Latencies in ms; the numbers below are those of {kept}."
    )
}

/// `TTFT p50 31.2 ms, p99 80.1 ms; TPOT p50 8.4 ms, p99 9.9 ms; end-to-end p50 420 ms, p99 610 ms.`
pub fn latencies(
    ttft: Option<Distribution>,
    tpot: Option<Distribution>,
    end_to_end: Option<Distribution>,
) -> String {
    let named = [("TTFT", ttft), ("TPOT", tpot), ("end-to-end", end_to_end)];
    let shown: Vec<String> = named
        .into_iter()
        .filter_map(|(name, distribution)| {
            let distribution = distribution?;
            Some(format!("{name} {}", median_and_high(&distribution)))
        })
        .collect();
    if shown.is_empty() {
        "No request has a result.".to_owned()
    } else {
        format!("{}.", shown.join("; "))
    }
}

/// `p50 31.2 ms, p99 80.1 ms`, of a distribution in ms; p90 or the maximum where there are too few values for p99.
fn median_and_high(distribution: &Distribution) -> String {
    let time = |ms: f64| crate::text::time(ms * 1e6);
    let (name, high) = if has_percentile(distribution.count, 99) {
        ("p99", distribution.p99)
    } else if has_percentile(distribution.count, 90) {
        ("p90", distribution.p90)
    } else {
        ("max", distribution.max)
    };
    format!("p50 {}, {name} {}", time(distribution.p50), time(high))
}

/// A percentile in ms for a table; a dash where there are too few values for it.
pub(super) fn percentile_cell(distribution: Option<Distribution>, percent: u8) -> String {
    let distribution =
        distribution.filter(|distribution| has_percentile(distribution.count, percent));
    number(distribution.map(|distribution| match percent {
        50 => distribution.p50,
        90 => distribution.p90,
        _ => distribution.p99,
    }))
}

pub fn throughput(
    requests_per_s: f64,
    tokens_per_s: Option<f64>,
    completed: u64,
    failed: u64,
    seconds: f64,
) -> String {
    let tokens = tokens_per_s.map_or_else(String::new, |rate| {
        format!(", {} output tokens/s", format_significant(rate))
    });
    let failed = if failed > 0 {
        format!(", {failed} failed")
    } else {
        String::new()
    };
    format!(
        "{} requests/s{tokens}; {completed} completed{failed} in {} s.",
        format_significant(requests_per_s),
        format_significant(seconds)
    )
}

/// A load between its beginning and its end.
pub fn steady_state(
    requests: u64,
    seconds: f64,
    requests_per_s: f64,
    ttft: Option<Distribution>,
    tpot: Option<Distribution>,
    has_server_stopped: bool,
) -> String {
    let end = if has_server_stopped {
        "the time at which the server stopped answering"
    } else {
        "the last request due"
    };
    let of = |distribution: Option<Distribution>| {
        distribution.map_or_else(crate::text::dash, |d| median_and_high(&d))
    };
    format!(
        "Steady state, from the first completion to {end} ({} in {} s): {} requests/s; TTFT {}; TPOT {}.",
        Count(requests, "request"),
        format_significant(seconds),
        format_significant(requests_per_s),
        of(ttft),
        of(tpot)
    )
}

/// Which requests the latencies are of.
pub fn timed(timed: u64, completed: u64) -> String {
    if timed == completed {
        return format!(
            "All tables are of the {} that completed.",
            Count(completed, "request")
        );
    }
    format!(
        "All tables are of the {} that completed before the server's profiler started; {} that ran under it are left out.",
        Count(timed, "request"),
        Count(completed - timed, "request")
    )
}

/// What the parts of the mean request are.
pub fn parts(requests: u64) -> String {
    format!(
        "Parts of each of {} add up to its measured latency (`requests.csv`); these are their means.",
        Count(requests, "request")
    )
}

/// The same of requests that are in no other table.
pub fn profiled_parts(requests: u64) -> String {
    format!(
        "{} that the server's profiler recorded, split by its engine steps. Their times include the profiler and the pause in which it wrote its \
         trace; they are in no other table.",
        Count(requests, "request")
    )
}

/// Where the server's own figures come from.
pub fn server_basis(family: &str, is_until_profile: bool) -> String {
    let until = if is_until_profile {
        ", until its profiler was started"
    } else {
        ""
    };
    format!(
        "{family}: its own histograms over the time of the load{until}. Quantiles are no more exact than the buckets are wide; ≤ and ≥ \
         stand before bounds."
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
        format_significant(mean_decode_batch),
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
    let of = |distribution: Option<Distribution>| {
        distribution.map_or_else(crate::text::dash, |d| {
            format!("p50 {:.3} ms, p99 {:.3} ms", d.p50, d.p99)
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
            "Event loop delay: {} (up to 1 ms is timer resolution).",
            of(event_loop_delay_ms)
        ),
        format!("Tokens counted by: {}.", counted.join(", ")),
    ]
}

#[cfg(test)]
mod tests {
    use llmprof_traffic::{slo::TooFewValues, sweep::SweepPoint};

    use super::*;

    #[test]
    fn few_requests_have_no_p99() {
        let of = |count: usize| {
            let values: Vec<f64> = (1..=count).map(|value| value as f64).collect();
            latencies(Distribution::of_values(&values), None, None)
        };
        assert_eq!(of(5), "TTFT p50 3 ms, max 5 ms.");
        assert_eq!(of(21), "TTFT p50 11 ms, p90 19 ms.");
        assert_eq!(of(101), "TTFT p50 51 ms, p99 100 ms.");
    }

    #[test]
    fn the_result_of_a_load_comes_first() {
        let mut sweep = Sweep::<()>::default();
        assert_eq!(
            swept(&sweep, "TTFT p99 200 ms", false),
            "Interrupted before the load of a rate was complete."
        );
        assert!(sweep_basis(&sweep).ends_with("the load that was interrupted."));
        let point = |rate, is_met| SweepPoint {
            rate,
            is_met,
            summary: (),
        };
        sweep.add_point(point(14.0, false));
        assert_eq!(
            swept(&sweep, "TTFT p99 200 ms", false),
            "No rate that was tried meets TTFT p99 200 ms."
        );
        assert!(sweep_basis(&sweep).contains("of the lowest rate that was tried"));
        sweep.add_point(point(12.0, true));
        assert_eq!(
            swept(&sweep, "TTFT p99 200 ms", false),
            "12 requests/s meet TTFT p99 200 ms; 14 do not."
        );
        assert!(swept(&sweep, "TTFT p99 200 ms", true).contains("At 14 the client was late"));
        assert!(sweep_basis(&sweep).contains("of the highest rate that met"));
        assert_eq!(
            throughput(3.5, Some(120.0), 70, 2, 20.0),
            "3.5 requests/s, 120 output tokens/s; 70 completed, 2 failed in 20 s."
        );
        assert_eq!(latencies(None, None, None), "No request has a result.");
        assert_eq!(
            server_stopped(8.04),
            "The server stopped answering at 8.0 s."
        );
        assert_eq!(
            live(Some(31.2), 4.125, Some(512.0)),
            "TTFT p50 31.2 ms, 4.125 requests/s, 512 tokens/s"
        );
    }

    /// A wait of 129 ms of 924 ms stood beside "nothing that a server setting could remove takes 10 %".
    #[test]
    fn a_wait_that_is_not_divided_is_no_absence_of_queueing() {
        let said = undivided_wait(128.886, 924.355);
        assert!(said.ends_with(
            "one part here (128.9 ms, 13.9 % of the latency): how much of it is queueing is not known."
        ), "{said}");
        use llmprof_analysis::serving::{LatencyPart, MeanPart, MeanParts, PartSource};
        let of = |mean_ms| MeanParts {
            requests: 80,
            e2e_ms: 1000.0,
            parts: vec![MeanPart {
                part: LatencyPart::UntilFirstToken,
                mean_ms,
                p99_ms: None,
                source: PartSource::ClientTimestamps,
            }],
            not_split: Vec::new(),
        };
        assert_eq!(of(100.0).undivided_wait_ms(), Some(100.0));
        assert_eq!(of(99.0).undivided_wait_ms(), None);
    }

    #[test]
    fn objectives_say_what_decides_them() {
        let said = |value_ms: Option<f64>, too_few, failed: Option<(u64, u64)>, is_client_late| {
            let outcome = SloOutcome {
                slo: "ttft:p99<200ms".to_owned(),
                value_ms,
                is_met: value_ms.is_some_and(|value| value < 200.0) && failed.is_none(),
                too_few,
            };
            let context = ObjectiveContext {
                failed,
                is_client_late,
            };
            objective(&outcome, &context)
        };
        let few = |is_missed| {
            Some(TooFewValues {
                values: 60,
                needed: 100,
                is_missed,
            })
        };
        assert_eq!(
            said(None, few(false), None, false),
            "ttft:p99<200ms: not known (60 values; 100 are needed)."
        );
        assert_eq!(
            said(None, few(true), None, false),
            "ttft:p99<200ms: not met (at least 2 of 60 values are above it; the value needs 100)."
        );
        // With a median above the limit it said that 100 values are needed: the client decides it, not their number.
        assert_eq!(
            said(None, few(true), None, true),
            "ttft:p99<200ms: not known (at least 2 of 60 values are above it, but the client was late)."
        );
        assert_eq!(
            said(Some(180.0), None, Some((43, 60)), false),
            "ttft:p99<200ms: not met (43 of 60 requests failed; 180 ms of the others)."
        );
        // The page said that nothing is concluded about the server, and then that it does not meet the objective.
        assert_eq!(
            said(Some(280.0), None, None, true),
            "ttft:p99<200ms: not known (280 ms, but the client was late)."
        );
        assert_eq!(
            said(Some(180.0), None, None, true),
            "ttft:p99<200ms: met (180 ms)."
        );
    }
}
