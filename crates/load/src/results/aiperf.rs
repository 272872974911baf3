//! AIPerf: `profile_export_aiperf.json` (a metric has `unit, avg, p50…`) and `profile_export.jsonl` (a record a request).

use serde_json::Value;

use super::{ForeignRequest, ForeignResult, Statistics};
use crate::statistics::Distribution;

/// The summary of a run.
pub(super) fn read_summary(value: &Value) -> Option<ForeignResult> {
    // Older files have the metrics under `records`.
    let metrics = value.get("records").unwrap_or(value);
    metrics.get("request_latency")?.get("avg")?;
    let statistics = |name: &str| {
        let mut statistics = Statistics::new();
        let Some(metric) = metrics.get(name).and_then(Value::as_object) else {
            return statistics;
        };
        let Some(scale) = to_ms(metric.get("unit").and_then(Value::as_str)) else {
            return statistics;
        };
        for (key, value) in metric {
            if let Some(value) = value.as_f64() {
                let key = if key == "avg" { "mean" } else { key };
                statistics.insert(key.to_owned(), value * scale);
            }
        }
        statistics
    };
    let average = |name: &str| metrics.get(name)?.get("avg")?.as_f64();
    let count = |name: &str| average(name).map(|count| count.round() as u64);
    Some(ForeignResult {
        tool: "aiperf".to_owned(),
        model: model_name(value),
        request_rate: None,
        burstiness: None,
        max_concurrency: None,
        duration_s: average("benchmark_duration"),
        completed: count("request_count"),
        failed: count("error_request_count"),
        total_input_tokens: count("total_isl").or_else(|| count("total_input_sequence_length")),
        total_output_tokens: count("total_osl").or_else(|| count("total_output_tokens")),
        request_throughput: average("request_throughput"),
        output_throughput: average("output_token_throughput"),
        goodput: average("goodput"),
        ttft_ms: statistics("time_to_first_token"),
        // AIPerf's inter-token latency is one value a request: what is called TPOT here.
        tpot_ms: statistics("inter_token_latency"),
        itl_ms: statistics("inter_chunk_latency"),
        e2e_ms: statistics("request_latency"),
        requests: Vec::new(),
    })
}

fn model_name(value: &Value) -> Option<String> {
    let config = value.get("input_config")?;
    let names = config.pointer("/endpoint/model_names")?;
    names.get(0)?.as_str().map(str::to_owned)
}

fn to_ms(unit: Option<&str>) -> Option<f64> {
    Some(match unit? {
        "ms" | "milliseconds" => 1.0,
        "s" | "sec" | "seconds" => 1e3,
        "us" | "microseconds" => 1e-3,
        "ns" | "nanoseconds" => 1e-6,
        _ => return None,
    })
}

/// The records of single requests, with the statistics they add up to.
pub(super) fn read_records(lines: &[Value]) -> Option<ForeignResult> {
    let is_record = |line: &Value| line.get("metrics").is_some() && line.get("metadata").is_some();
    if lines.is_empty() || !lines.iter().all(is_record) {
        return None;
    }
    let requests: Vec<ForeignRequest> = lines.iter().map(read_record).collect();
    let of = |value: &dyn Fn(&ForeignRequest) -> Option<f64>| {
        let values: Vec<f64> = requests
            .iter()
            .filter(|request| request.error.is_none())
            .filter_map(value)
            .collect();
        let mut statistics = Statistics::new();
        if let Some(d) = Distribution::of_values(&values) {
            for (name, value) in [
                ("mean", d.mean),
                ("std", d.std),
                ("p50", d.p50),
                ("p90", d.p90),
                ("p99", d.p99),
            ] {
                statistics.insert(name.to_owned(), value);
            }
        }
        statistics
    };
    let failed = requests.iter().filter(|r| r.error.is_some()).count() as u64;
    let tokens = |value: &dyn Fn(&ForeignRequest) -> Option<u64>| {
        // A sum that no counter holds is damage, and not known.
        let mut values = requests.iter().map(value);
        values.try_fold(0_u64, |sum, value| sum.checked_add(value?))
    };
    Some(ForeignResult {
        tool: "aiperf".to_owned(),
        completed: Some(requests.len() as u64 - failed),
        failed: Some(failed),
        total_input_tokens: tokens(&|r| r.input_tokens),
        total_output_tokens: tokens(&|r| r.output_tokens),
        ttft_ms: of(&|r| r.ttft_ms),
        e2e_ms: of(&|r| r.e2e_ms),
        requests,
        ..ForeignResult::default()
    })
}

fn read_record(line: &Value) -> ForeignRequest {
    let metric = |name: &str| {
        let metric = line.get("metrics")?.get(name)?;
        let unit = metric.get("unit").and_then(Value::as_str);
        Some((metric.get("value")?, unit))
    };
    let ms = |name: &str| {
        let (value, unit) = metric(name)?;
        Some(value.as_f64()? * to_ms(unit)?)
    };
    let count = |name: &str| metric(name)?.0.as_f64().map(|count| count as u64);
    let error = line.get("error").filter(|error| !error.is_null());
    ForeignRequest {
        start_s: line
            .pointer("/metadata/request_start_ns")
            .and_then(Value::as_f64)
            .map(|ns| ns / 1e9),
        input_tokens: count("input_sequence_length"),
        output_tokens: count("output_sequence_length").or_else(|| count("output_token_count")),
        ttft_ms: ms("time_to_first_token"),
        e2e_ms: ms("request_latency"),
        gaps_ms: metric("inter_chunk_latency")
            .and_then(|(value, unit)| {
                let scale = to_ms(unit)?;
                let gaps = value.as_array()?;
                Some(
                    gaps.iter()
                        .filter_map(|gap| Some(gap.as_f64()? * scale))
                        .collect(),
                )
            })
            .unwrap_or_default(),
        error: error.map(|error| {
            let message = error.get("message").and_then(Value::as_str);
            message.map_or_else(|| error.to_string(), str::to_owned)
        }),
    }
}
