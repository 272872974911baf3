//! `vllm bench serve` and SGLang's `bench_serving`, which writes nearly the same keys, a line a run.

use serde_json::Value;

use super::{ForeignRequest, ForeignResult, Statistics, number_at, text_at, whole_at};

pub(super) fn read_result(value: &Value) -> Option<ForeignResult> {
    value.get("request_throughput")?;
    let is_sglang = value.get("mean_e2e_latency_ms").is_some();
    if !is_sglang && value.get("mean_ttft_ms").is_none() {
        return None;
    }
    let statistics = |names: &[&str]| {
        names
            .iter()
            .fold(Statistics::new(), |mut statistics, name| {
                let ending = format!("_{name}_ms");
                for (key, value) in value.as_object().into_iter().flatten() {
                    if let (Some(statistic), Some(ms)) = (key.strip_suffix(&ending), value.as_f64())
                    {
                        let statistic = if statistic == "median" {
                            "p50"
                        } else {
                            statistic
                        };
                        statistics.insert(statistic.to_owned(), ms);
                    }
                }
                statistics
            })
    };
    Some(ForeignResult {
        tool: if is_sglang {
            "sglang"
        } else {
            "vllm bench serve"
        }
        .to_owned(),
        model: text_at(value, "model_id").or_else(|| text_at(value, "model")),
        request_rate: number_at(value, "request_rate"),
        burstiness: number_at(value, "burstiness"),
        max_concurrency: whole_at(value, "max_concurrency").filter(|limit| *limit > 0),
        duration_s: number_at(value, "duration"),
        completed: whole_at(value, "completed"),
        failed: whole_at(value, "failed"),
        total_input_tokens: whole_at(value, "total_input_tokens"),
        total_output_tokens: whole_at(value, "total_output_tokens"),
        request_throughput: number_at(value, "request_throughput"),
        output_throughput: number_at(value, "output_throughput"),
        goodput: number_at(value, "request_goodput"),
        ttft_ms: statistics(&["ttft"]),
        tpot_ms: statistics(&["tpot"]),
        itl_ms: statistics(&["itl"]),
        e2e_ms: statistics(&["e2el", "e2e_latency"]),
        requests: read_requests(value),
    })
}

/// The lists of a detailed result, one entry a request. The tool leaves `0` where a request failed.
fn read_requests(value: &Value) -> Vec<ForeignRequest> {
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
