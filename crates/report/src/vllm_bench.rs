//! A load as `vllm bench serve` writes it, for programs that read its results.

use llmprof_record::serving::{LoadRecord, RequestRecord};
use llmprof_traffic::{arrivals::Arrivals, figures::LoadSummary, statistics::Distribution};
use llmprof_units::Nanos;
use serde_json::{Map, Value, json};

/// A load with the keys of `vllm bench serve --save-result --save-detailed`. Latencies count from when requests were due, gaps are
/// those between arrivals, as the tool has them.
pub fn vllm_bench(
    load: &LoadRecord,
    summary: &LoadSummary,
    arrivals: &Arrivals,
    model: &str,
    date: &str,
) -> Value {
    let mut out = asked(load, arrivals, model, date);
    out.append(&mut totals(summary));
    out.append(&mut latencies(summary));
    out.append(&mut details(load));
    Value::Object(out)
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Map<String, Value> {
    let entries = entries.into_iter();
    entries
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn asked(load: &LoadRecord, arrivals: &Arrivals, model: &str, date: &str) -> Map<String, Value> {
    let burstiness = match arrivals {
        Arrivals::Gamma { burstiness, .. } => *burstiness,
        _ => 1.0,
    };
    let concurrency = match arrivals {
        Arrivals::Closed { concurrency } => json!(concurrency),
        _ => Value::Null,
    };
    map([
        ("date", json!(date)),
        ("backend", json!("openai")),
        ("endpoint_type", json!("openai")),
        ("label", Value::Null),
        ("model_id", json!(model)),
        ("tokenizer_id", json!(model)),
        ("num_prompts", json!(load.requests.len())),
        (
            "request_rate",
            arrivals
                .mean_rate()
                .map_or(json!("inf"), |rate| json!(rate)),
        ),
        ("burstiness", json!(burstiness)),
        ("max_concurrency", concurrency),
    ])
}

fn totals(summary: &LoadSummary) -> Map<String, Value> {
    let tokens = |count: Option<u64>| json!(count.unwrap_or(0));
    let rate = |rate: Option<f64>| json!(rate.unwrap_or(0.0));
    map([
        ("duration", json!(summary.figures.duration_s)),
        ("completed", json!(summary.figures.completed)),
        ("failed", json!(summary.figures.failed)),
        (
            "total_input_tokens",
            tokens(summary.figures.total_input_tokens),
        ),
        (
            "total_output_tokens",
            tokens(summary.figures.total_output_tokens),
        ),
        (
            "request_throughput",
            json!(summary.figures.request_throughput),
        ),
        ("request_goodput", json!(summary.figures.goodput)),
        ("output_throughput", rate(summary.figures.output_throughput)),
        (
            "total_token_throughput",
            rate(summary.figures.total_token_throughput),
        ),
    ])
}

fn latencies(summary: &LoadSummary) -> Map<String, Value> {
    let latencies: [(&str, Option<Distribution>); 4] = [
        ("ttft", summary.figures.ttft_ms),
        ("tpot", summary.figures.tpot_ms),
        ("itl", summary.arrival_gap_ms),
        ("e2el", summary.figures.e2e_ms),
    ];
    let mut out = Map::new();
    for (name, distribution) in latencies {
        for (statistic, value) in [
            ("mean", distribution.map(|d| d.mean)),
            ("median", distribution.map(|d| d.p50)),
            ("std", distribution.map(|d| d.std)),
            ("p90", distribution.map(|d| d.p90)),
            ("p95", distribution.map(|d| d.p95)),
            ("p99", distribution.map(|d| d.p99)),
        ] {
            out.insert(
                format!("{statistic}_{name}_ms"),
                json!(value.unwrap_or(0.0)),
            );
        }
    }
    out
}

/// Lists with an entry for each request, `0` where it has none.
fn details(load: &LoadRecord) -> Map<String, Value> {
    let each = |value: fn(&RequestRecord) -> Value| {
        Value::Array(load.requests.iter().map(value).collect())
    };
    map([
        ("input_lens", each(|r| json!(r.prompt_tokens.unwrap_or(0)))),
        (
            "output_lens",
            each(|r| json!(r.output_tokens.filter(|_| r.is_complete()).unwrap_or(0))),
        ),
        (
            "ttfts",
            each(|r| {
                let ttft = r.ttft_ns().filter(|_| r.is_complete());
                json!(ttft.map_or(0.0, Nanos::seconds))
            }),
        ),
        (
            "itls",
            each(|r| r.gaps_ns().map(|gap| json!(gap as f64 / 1e9)).collect()),
        ),
        ("start_times", each(|r| json!(r.scheduled_ns.seconds()))),
        (
            "errors",
            each(|r| json!(r.failure.as_ref().map_or("", |failure| &failure.message))),
        ),
    ])
}
