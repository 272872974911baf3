//! `llmprof runs export`: one CSV of all runs, a line per run.

use std::collections::BTreeSet;

use llmprof_record::store::{Liveness, StoredRun};
use serde_json::Value;

use llmprof_report::csv_field;

/// Numbers of `metrics.json`, by the path of their keys.
const METRICS: [(&str, &[&str]); 14] = [
    ("ttft_ms", &["aggregates", "ttft_ms", "mean"]),
    (
        "ttft_ms_ci95",
        &["aggregates", "ttft_ms", "ci95_half_width"],
    ),
    ("tpot_ms", &["aggregates", "tpot_ms", "mean"]),
    (
        "tpot_ms_ci95",
        &["aggregates", "tpot_ms", "ci95_half_width"],
    ),
    ("tokens_per_s", &["aggregates", "tokens_per_s", "mean"]),
    ("prefill_ms", &["aggregates", "prefill_ms", "mean"]),
    ("decode_ms", &["aggregates", "decode_ms", "mean"]),
    ("passes", &["aggregates", "tpot_ms", "count"]),
    ("mfu", &["mfu_model_level"]),
    ("prefill_mfu", &["mfu_per_stage", "prefill"]),
    ("decode_mfu", &["mfu_per_stage", "decode"]),
    ("prefill_mbu", &["mbu_per_stage", "prefill"]),
    ("decode_mbu", &["mbu_per_stage", "decode"]),
    ("parameters", &["model", "parameters"]),
];

/// Numbers of `bench.json` that have a column of their own.
const BENCH: [(&str, &[&str]); 5] = [
    ("bench_ttft_p50_ms", &["ttft_ms", "p50"]),
    ("bench_ttft_p99_ms", &["ttft_ms", "p99"]),
    ("bench_tpot_p50_ms", &["tpot_ms", "p50"]),
    ("bench_tpot_p99_ms", &["tpot_ms", "p99"]),
    ("bench_tokens_per_s", &["output_throughput"]),
];

/// The table. Every key that some run was started with is a column: `override.runtime.batch_size`.
pub(super) fn csv(runs: &[StoredRun]) -> String {
    let keys: BTreeSet<String> = runs.iter().flat_map(override_keys).collect();
    let mut header: Vec<String> = [
        "path",
        "created",
        "finished",
        "status",
        "experiment",
        "model",
        "device",
        "issues",
    ]
    .map(str::to_owned)
    .into();
    header.extend(
        METRICS
            .iter()
            .chain(&BENCH)
            .map(|(name, _)| (*name).to_owned()),
    );
    header.extend(keys.iter().map(|key| csv_field(&format!("override.{key}"))));
    let mut text = header.join(",") + "\n";
    for run in runs {
        text += &line(run, &keys);
    }
    text
}

fn override_keys(run: &StoredRun) -> Vec<String> {
    let lines = run.manifest.overrides.iter();
    let pairs = lines.filter_map(|line| split(line));
    pairs.map(|(key, _)| key.to_owned()).collect()
}

fn split(line: &str) -> Option<(&str, &str)> {
    line.trim_start_matches('+').split_once('=')
}

fn line(run: &StoredRun, keys: &BTreeSet<String>) -> String {
    let manifest = &run.manifest;
    let status = match run.liveness() {
        Liveness::Dead => "dead".to_owned(),
        _ => manifest.status.to_string(),
    };
    let metrics = json(run, "metrics.json");
    let bench = json(run, "bench.json");
    let device = metrics["device"].as_str().unwrap_or_default();
    let mut cells = vec![
        run.path.display().to_string(),
        manifest.created.clone(),
        manifest.finished.clone().unwrap_or_default(),
        status,
        manifest.experiment.clone(),
        manifest.model.clone(),
        device.to_owned(),
        manifest.issues.len().to_string(),
    ];
    cells.extend(METRICS.iter().map(|(_, path)| number(&metrics, path)));
    cells.extend(BENCH.iter().map(|(_, path)| number(&bench, path)));
    for key in keys {
        let pairs = manifest.overrides.iter().filter_map(|line| split(line));
        // The last one holds, as in a config.
        let value = pairs.rev().find(|(found, _)| found == key);
        cells.push(value.map_or_else(String::new, |(_, value)| value.to_owned()));
    }
    let cells: Vec<String> = cells.iter().map(|cell| csv_field(cell)).collect();
    cells.join(",") + "\n"
}

/// A file that is absent or damaged leaves its columns empty: the run is listed whatever became of it.
fn json(run: &StoredRun, file: &str) -> Value {
    run.json(file).ok().flatten().unwrap_or_default()
}

fn number(value: &Value, path: &[&str]) -> String {
    let found = path.iter().fold(value, |value, key| &value[*key]);
    match found {
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}
