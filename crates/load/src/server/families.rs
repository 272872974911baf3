//! What servers call the same things. Names that are not here are kept as they are.

use llmprof_record::serving::{Gauges, ServerFamily, ServerWindow, WindowHistogram};

use super::{text::MetricsPage, window::Window};

/// Where servers have their metrics.
pub const METRICS_PATHS: [&str; 2] = ["/metrics", "/prometheus/metrics"];

/// By the prefix that most of a page's names have.
pub fn identify_server(page: &MetricsPage) -> ServerFamily {
    let prefixes = [
        ("vllm:", ServerFamily::Vllm),
        ("sglang:", ServerFamily::Sglang),
        ("trtllm_", ServerFamily::TensorRtLlm),
        ("nv_inference_", ServerFamily::Triton),
        ("DCGM_FI_", ServerFamily::Dcgm),
        ("llamacpp:", ServerFamily::LlamaCpp),
    ];
    let count = |prefix: &str| {
        let names = page.samples.iter();
        names.filter(|s| s.name.starts_with(prefix)).count()
    };
    prefixes
        .into_iter()
        .map(|(prefix, family)| (count(prefix), family))
        .filter(|(count, _)| *count > 0)
        .max_by_key(|(count, _)| *count)
        .map_or(ServerFamily::Unknown, |(_, family)| family)
}

/// Its names of gauges: running, waiting, KV usage. The KV cache's is a share of 1 in all of them.
fn gauge_names(family: ServerFamily) -> [&'static str; 3] {
    match family {
        ServerFamily::Vllm => [
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
            "vllm:kv_cache_usage_perc",
        ],
        ServerFamily::Sglang => [
            "sglang:num_running_reqs",
            "sglang:num_queue_reqs",
            "sglang:token_usage",
        ],
        ServerFamily::TensorRtLlm => [
            "trtllm_num_requests_running",
            "trtllm_num_requests_waiting",
            "trtllm_kv_cache_utilization",
        ],
        ServerFamily::LlamaCpp => [
            "llamacpp:requests_processing",
            "llamacpp:requests_deferred",
            "llamacpp:kv_cache_usage_ratio",
        ],
        ServerFamily::Triton | ServerFamily::Dcgm | ServerFamily::Unknown => [""; 3],
    }
}

/// Gauges of a page in our words.
pub fn read_gauges(family: ServerFamily, page: &MetricsPage) -> Gauges {
    let [running, waiting, kv] = gauge_names(family);
    // What cannot be is not believed: fewer than no requests, more than all of a cache.
    let value = |name: &str| {
        let total = page.total(name);
        total.filter(|value| *value >= 0.0 && value.is_finite())
    };
    // Several engines each have a share of their own cache.
    let shares: Vec<f64> = page
        .samples
        .iter()
        .filter(|s| !kv.is_empty() && s.name == kv && (0.0..=1.0).contains(&s.value))
        .map(|s| s.value)
        .collect();
    Gauges {
        running: value(running),
        waiting: value(waiting),
        kv_usage: (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64),
    }
}

/// What a window says in our words.
pub fn read_window(family: ServerFamily, window: &Window) -> ServerWindow {
    let prefix = match family {
        ServerFamily::Vllm => "vllm:",
        ServerFamily::Sglang => "sglang:",
        ServerFamily::TensorRtLlm => "trtllm_",
        ServerFamily::LlamaCpp => "llamacpp:",
        ServerFamily::Triton => return triton_window(window),
        ServerFamily::Dcgm | ServerFamily::Unknown => return ServerWindow::default(),
    };
    let seconds = |names: &[&str]| {
        let histogram = names
            .iter()
            .find_map(|name| window.histograms.get(&format!("{prefix}{name}")));
        histogram.map(in_ms)
    };
    let counter = |names: &[&str]| {
        names.iter().find_map(|name| {
            let name = format!("{prefix}{name}");
            let counter = window.counters.get(&name);
            counter
                .or_else(|| window.counters.get(&format!("{name}_total")))
                .copied()
        })
    };
    let mut figures = ServerWindow {
        ttft_ms: seconds(&["time_to_first_token_seconds"]),
        itl_ms: seconds(&[
            "inter_token_latency_seconds",
            "inter_token_latency_seconds_bucket",
        ]),
        tpot_ms: seconds(&[
            "request_time_per_output_token_seconds",
            "time_per_output_token_seconds",
        ]),
        e2e_ms: seconds(&["e2e_request_latency_seconds"]),
        queue_ms: seconds(&["request_queue_time_seconds", "queue_time_seconds"]),
        prefill_ms: seconds(&["request_prefill_time_seconds"]),
        decode_ms: seconds(&["request_decode_time_seconds"]),
        preemptions: counter(&["num_preemptions"]),
        prefix_cache_hit_rate: match (
            counter(&["prefix_cache_hits"]),
            counter(&["prefix_cache_queries"]),
        ) {
            (Some(hits), Some(asked)) if asked > 0.0 && hits <= asked => Some(hits / asked),
            _ => None,
        },
        output_tokens: counter(&["generation_tokens", "tokens_predicted"]),
        tokens_per_step: window
            .histograms
            .get(&format!("{prefix}iteration_tokens_total"))
            .and_then(|h| h.mean),
        ..ServerWindow::default()
    };
    if family == ServerFamily::LlamaCpp {
        let seconds = counter(&["tokens_predicted_seconds"]);
        let tokens = counter(&["tokens_predicted"]).filter(|tokens| *tokens > 0.0);
        figures.tpot_mean_ms = seconds.zip(tokens).map(|(s, tokens)| 1e3 * s / tokens);
    }
    figures
}

/// Triton's counters of microseconds, per successful request.
fn triton_window(window: &Window) -> ServerWindow {
    let counter = |name: &str| window.counters.get(name).copied();
    let requests = counter("nv_inference_request_success").filter(|n| *n > 0.0);
    let mean = |name: &str| Some(counter(name)? / requests? / 1e3);
    ServerWindow {
        e2e_mean_ms: mean("nv_inference_request_duration_us"),
        queue_mean_ms: mean("nv_inference_queue_duration_us"),
        compute_mean_ms: mean("nv_inference_compute_infer_duration_us"),
        energy_j: counter("nv_energy_consumption"),
        ..ServerWindow::default()
    }
}

/// A histogram of seconds as milliseconds.
fn in_ms(histogram: &WindowHistogram) -> WindowHistogram {
    let ms = |value: Option<f64>| value.map(|seconds| seconds * 1e3);
    WindowHistogram {
        count: histogram.count,
        sum: histogram.sum * 1e3,
        buckets: histogram
            .buckets
            .iter()
            .map(|(l, c)| (l * 1e3, *c))
            .collect(),
        mean: ms(histogram.mean),
        p50: ms(histogram.p50),
        p90: ms(histogram.p90),
        p99: ms(histogram.p99),
        bounds: histogram.bounds.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window_between(before: &str, after: &str) -> (ServerFamily, ServerWindow) {
        let (before, after) = (MetricsPage::read(before), MetricsPage::read(after));
        let family = identify_server(&after);
        (
            family,
            read_window(family, &Window::between(&before, &after)),
        )
    }

    #[test]
    fn triton_counts_microseconds_per_request() {
        let page = |n: u64, queue: u64| {
            format!(
                "# TYPE nv_inference_request_success counter\nnv_inference_request_success{{model=\"m\"}} {n}\n\
                 # TYPE nv_inference_queue_duration_us counter\nnv_inference_queue_duration_us{{model=\"m\"}} {queue}\n\
                 # TYPE nv_inference_request_duration_us counter\nnv_inference_request_duration_us{{model=\"m\"}} {}\n",
                queue * 10
            )
        };
        let (family, figures) = window_between(&page(10, 1000), &page(30, 41_000));
        assert_eq!(family, ServerFamily::Triton);
        assert_eq!(figures.queue_mean_ms, Some(2.0));
        assert_eq!(figures.e2e_mean_ms, Some(20.0));
    }

    #[test]
    fn llama_cpp_and_sglang() {
        let page = |s: f64, n: u64| {
            format!(
                "# TYPE llamacpp:tokens_predicted_seconds_total counter\nllamacpp:tokens_predicted_seconds_total {s}\n# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total {n}\n"
            )
        };
        let (family, figures) = window_between(&page(1.0, 100), &page(3.0, 200));
        assert_eq!(family, ServerFamily::LlamaCpp);
        assert_eq!(figures.tpot_mean_ms, Some(20.0));
        let page = MetricsPage::read(
            "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{m=\"a\"} 3\nsglang:num_queue_reqs{m=\"a\"} 2\nsglang:token_usage{m=\"a\"} 0.5\nsglang:token_usage{m=\"b\"} 0.7\n",
        );
        let gauges = read_gauges(identify_server(&page), &page);
        assert_eq!(gauges.running, Some(3.0));
        assert_eq!(gauges.waiting, Some(2.0));
        assert!((gauges.kv_usage.unwrap() - 0.6).abs() < 1e-12);
    }

    /// A KV cache was reported 10¹¹ % full.
    #[test]
    fn gauges_that_cannot_be_are_not_believed() {
        let page = MetricsPage::read(
            "vllm:num_requests_running -3\nvllm:num_requests_waiting NaN\nvllm:kv_cache_usage_perc 1e9\n",
        );
        let gauges = read_gauges(identify_server(&page), &page);
        assert_eq!(gauges, Gauges::default());
        let page = |hits: u64| {
            format!(
                "# TYPE vllm:prefix_cache_hits counter\nvllm:prefix_cache_hits_total {hits}\n# TYPE vllm:prefix_cache_queries counter\nvllm:prefix_cache_queries_total 10\n"
            )
        };
        assert_eq!(
            window_between("", &page(5)).1.prefix_cache_hit_rate,
            Some(0.5)
        );
        assert_eq!(window_between("", &page(500)).1.prefix_cache_hit_rate, None);
    }

    /// Names by the documentation of `trtllm-serve` (`/prometheus/metrics`).
    #[test]
    fn tensorrt_llm_has_its_own_prefix() {
        let page = |n: u64, ttft: f64, queue: f64| {
            format!(
                "# TYPE trtllm_request_success_total counter\ntrtllm_request_success_total{{finished_reason=\"length\"}} {n}\n\
                 # TYPE trtllm_time_to_first_token_seconds histogram\n\
                 trtllm_time_to_first_token_seconds_bucket{{le=\"+Inf\"}} {n}\n\
                 trtllm_time_to_first_token_seconds_sum {ttft}\n\
                 trtllm_time_to_first_token_seconds_count {n}\n\
                 # TYPE trtllm_request_queue_time_seconds histogram\n\
                 trtllm_request_queue_time_seconds_bucket{{le=\"+Inf\"}} {n}\n\
                 trtllm_request_queue_time_seconds_sum {queue}\n\
                 trtllm_request_queue_time_seconds_count {n}\n\
                 # TYPE trtllm_kv_cache_utilization gauge\ntrtllm_kv_cache_utilization 0.25\n\
                 # TYPE trtllm_num_requests_running gauge\ntrtllm_num_requests_running 3\n\
                 # TYPE trtllm_num_requests_waiting gauge\ntrtllm_num_requests_waiting 2\n"
            )
        };
        let (family, figures) = window_between(&page(10, 1.0, 0.5), &page(30, 3.0, 1.1));
        assert_eq!(family, ServerFamily::TensorRtLlm);
        let ttft = figures.ttft_ms.unwrap();
        assert_eq!(ttft.count, 20.0);
        assert!((ttft.mean.unwrap() - 100.0).abs() < 1e-9, "{ttft:?}");
        let queue = figures.queue_ms.unwrap().mean.unwrap();
        assert!((queue - 30.0).abs() < 1e-9, "{queue}");
        let gauges = read_gauges(family, &MetricsPage::read(&page(1, 1.0, 1.0)));
        assert_eq!(
            (gauges.running, gauges.waiting, gauges.kv_usage),
            (Some(3.0), Some(2.0), Some(0.25))
        );
    }

    #[test]
    fn dcgm_is_known_and_what_is_unknown_stays_raw() {
        let page = MetricsPage::read(
            "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 250.5\nDCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu=\"0\"} 0.4\nDCGM_FI_DEV_POWER_USAGE{gpu=\"1\"} 70\n",
        );
        assert_eq!(identify_server(&page), ServerFamily::Dcgm);
        let (family, figures) = window_between("", "# TYPE mine counter\nmine_total 3\n");
        assert_eq!(family, ServerFamily::Unknown);
        assert_eq!(figures, ServerWindow::default());
    }
}
