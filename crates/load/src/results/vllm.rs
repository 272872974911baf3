//! `vllm bench serve` and SGLang's `bench_serving`, which writes nearly the same keys, a line a run.

use llmprof_units::Nanos;
use serde_json::{Map, Value, json};

use super::{ForeignRequest, ForeignResult, Statistics, number, text, whole};
use crate::{
    arrivals::Arrivals, client::LoadRecord, record::RequestRecord, statistics::Distribution,
    summary::Summary,
};

pub(super) fn read(value: &Value) -> Option<ForeignResult> {
    value.get("request_throughput")?;
    let is_sglang = value.get("mean_e2e_latency_ms").is_some();
    if !is_sglang && value.get("mean_ttft_ms").is_none() {
        return None;
    }
    let statistics = |names: &[&str]| {
        names.iter().fold(Statistics::new(), |mut found, name| {
            let ending = format!("_{name}_ms");
            for (key, value) in value.as_object().into_iter().flatten() {
                if let (Some(statistic), Some(ms)) = (key.strip_suffix(&ending), value.as_f64()) {
                    let statistic = if statistic == "median" {
                        "p50"
                    } else {
                        statistic
                    };
                    found.insert(statistic.to_owned(), ms);
                }
            }
            found
        })
    };
    Some(ForeignResult {
        tool: if is_sglang {
            "sglang"
        } else {
            "vllm bench serve"
        }
        .to_owned(),
        model: text(value, "model_id").or_else(|| text(value, "model")),
        request_rate: number(value, "request_rate"),
        duration_s: number(value, "duration"),
        completed: whole(value, "completed"),
        failed: whole(value, "failed"),
        total_input_tokens: whole(value, "total_input_tokens"),
        total_output_tokens: whole(value, "total_output_tokens"),
        request_throughput: number(value, "request_throughput"),
        output_throughput: number(value, "output_throughput"),
        goodput: number(value, "request_goodput"),
        ttft_ms: statistics(&["ttft"]),
        tpot_ms: statistics(&["tpot"]),
        itl_ms: statistics(&["itl"]),
        e2e_ms: statistics(&["e2el", "e2e_latency"]),
        requests: requests(value),
    })
}

/// The lists of a detailed result, one entry a request. The tool leaves `0` where a request failed.
fn requests(value: &Value) -> Vec<ForeignRequest> {
    let list = |key: &str| value.get(key).and_then(Value::as_array);
    let Some(ttfts) = list("ttfts") else {
        return Vec::new();
    };
    let at = |key: &str, index: usize| list(key).and_then(|list| list.get(index));
    (0..ttfts.len())
        .map(|index| {
            let seconds = |key: &str| at(key, index).and_then(Value::as_f64);
            let gaps: Vec<f64> = at("itls", index)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|gap| Some(gap.as_f64()? * 1e3))
                .collect();
            let error = at("errors", index)
                .and_then(Value::as_str)
                .filter(|error| !error.is_empty())
                .map(str::to_owned);
            let ttft_ms = seconds("ttfts")
                .map(|s| s * 1e3)
                .filter(|_| error.is_none());
            ForeignRequest {
                start_s: seconds("start_times"),
                input_tokens: at("input_lens", index).and_then(Value::as_u64),
                output_tokens: at("output_lens", index).and_then(Value::as_u64),
                ttft_ms,
                e2e_ms: ttft_ms.map(|ttft| ttft + gaps.iter().sum::<f64>()),
                gaps_ms: gaps,
                error,
            }
        })
        .collect()
}

/// A load with the keys of `vllm bench serve --save-result --save-detailed`. Latencies count from when requests were due, gaps are
/// those between arrivals, as the tool has them.
pub fn write_vllm(
    load: &LoadRecord,
    summary: &Summary,
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
            arrivals.rate().map_or(json!("inf"), |rate| json!(rate)),
        ),
        ("burstiness", json!(burstiness)),
        ("max_concurrency", concurrency),
    ])
}

fn totals(summary: &Summary) -> Map<String, Value> {
    let tokens = |count: Option<u64>| json!(count.unwrap_or(0));
    let rate = |rate: Option<f64>| json!(rate.unwrap_or(0.0));
    map([
        ("duration", json!(summary.duration_s)),
        ("completed", json!(summary.completed)),
        ("failed", json!(summary.failed)),
        ("total_input_tokens", tokens(summary.total_input_tokens)),
        ("total_output_tokens", tokens(summary.total_output_tokens)),
        ("request_throughput", json!(summary.request_throughput)),
        ("request_goodput", json!(summary.goodput)),
        ("output_throughput", rate(summary.output_throughput)),
        (
            "total_token_throughput",
            rate(summary.total_token_throughput),
        ),
    ])
}

fn latencies(summary: &Summary) -> Map<String, Value> {
    let latencies: [(&str, Option<Distribution>); 4] = [
        ("ttft", summary.ttft_ms),
        ("tpot", summary.tpot_ms),
        ("itl", summary.arrival_gap_ms),
        ("e2el", summary.e2e_ms),
    ];
    let mut out = Map::new();
    for (name, found) in latencies {
        for (statistic, value) in [
            ("mean", found.map(|d| d.mean)),
            ("median", found.map(|d| d.p50)),
            ("std", found.map(|d| d.std)),
            ("p90", found.map(|d| d.p90)),
            ("p95", found.map(|d| d.p95)),
            ("p99", found.map(|d| d.p99)),
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
