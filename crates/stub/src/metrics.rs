use std::{fmt::Write as _, sync::atomic::Ordering};

use crate::{
    lock_ignoring_poison,
    state::{ServedRequest, StubState},
};

/// Upper limits of the histograms, seconds.
const LIMITS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];

/// A page of metrics with vLLM's names, from what was served.
pub(super) fn metrics_page(state: &StubState) -> String {
    let served = lock_ignoring_poison(&state.served);
    let mut page = String::new();
    let repeated = state.repeated_keys();
    let prefix = state.behaviour.metrics_prefix;
    let gauge = |page: &mut String, name: &str, value: u64| {
        let _ = write!(
            page,
            "# TYPE {prefix}{name} gauge\n{prefix}{name}{{engine=\"0\",model_name=\"stub{repeated}\"}} {value}.0\n"
        );
    };
    gauge(
        &mut page,
        "num_requests_running",
        state.running.load(Ordering::Relaxed),
    );
    gauge(
        &mut page,
        "num_requests_waiting",
        state.waiting.load(Ordering::Relaxed),
    );
    let histogram = |page: &mut String, name: &str, value: &dyn Fn(&ServedRequest) -> f64| {
        let _ = writeln!(page, "# TYPE {prefix}{name} histogram");
        for limit in LIMITS {
            let below = served.iter().filter(|one| value(one) <= *limit).count();
            let _ = writeln!(
                page,
                "{prefix}{name}_bucket{{engine=\"0\",le=\"{limit}\"}} {below}"
            );
        }
        let sum: f64 = served.iter().map(value).sum();
        let _ = write!(
            page,
            "{prefix}{name}_bucket{{engine=\"0\",le=\"+Inf\"}} {0}\n{prefix}{name}_sum{{engine=\"0\"}} {sum}\n{prefix}{name}_count{{engine=\"0\"}} {0}\n",
            served.len()
        );
    };
    histogram(&mut page, "request_queue_time_seconds", &|one| {
        one.queue.as_secs_f64()
    });
    histogram(&mut page, "request_prefill_time_seconds", &|one| {
        one.prefill.as_secs_f64()
    });
    histogram(&mut page, "request_decode_time_seconds", &|one| {
        one.decode.as_secs_f64()
    });
    histogram(&mut page, "time_to_first_token_seconds", &|one| {
        (one.queue + one.prefill).as_secs_f64()
    });
    histogram(&mut page, "e2e_request_latency_seconds", &|one| {
        (one.queue + one.prefill + one.decode).as_secs_f64()
    });
    let total: u64 = served.iter().map(|one| one.tokens).sum();
    let _ = write!(
        page,
        "# TYPE {prefix}generation_tokens counter\n{prefix}generation_tokens_total{{engine=\"0\"}} {total}\n"
    );
    if !repeated.is_empty() {
        let name = repeated.trim_start();
        let _ = write!(
            page,
            "# HELP {prefix}seen_{name} for{repeated}\n# TYPE {prefix}seen_{name} counter\n{prefix}seen_{name}_total {total}\n"
        );
    }
    page
}
