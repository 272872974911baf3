//! Numbers of runs as rows: a line of the CSV of `runs export`, one flat object for `export --to flat-json`.

use std::collections::BTreeSet;

use llmprof_record::store::Manifest;
use serde_json::{Map, Value};

use super::{ListedRun, RunFiles};
use crate::csv::{csv_lines, json_cell};

/// Numbers of `metrics.json`, by their place in it.
const METRICS: [(&str, &str); 14] = [
    ("ttft_ms", "/aggregates/ttft_ms/mean"),
    ("ttft_ms_ci95", "/aggregates/ttft_ms/ci95_half_width"),
    ("tpot_ms", "/aggregates/tpot_ms/mean"),
    ("tpot_ms_ci95", "/aggregates/tpot_ms/ci95_half_width"),
    ("tokens_per_s", "/aggregates/tokens_per_s/mean"),
    ("prefill_ms", "/aggregates/prefill_ms/mean"),
    ("decode_ms", "/aggregates/decode_ms/mean"),
    ("passes", "/aggregates/tpot_ms/count"),
    ("mfu", "/mfu_model_level"),
    ("prefill_mfu", "/mfu_per_stage/prefill"),
    ("decode_mfu", "/mfu_per_stage/decode"),
    ("prefill_mbu", "/mbu_per_stage/prefill"),
    ("decode_mbu", "/mbu_per_stage/decode"),
    ("parameters", "/model/parameters"),
];

/// Numbers of `bench.json` that have a column of their own.
const BENCH: [(&str, &str); 5] = [
    ("bench_ttft_p50_ms", "/ttft_ms/p50"),
    ("bench_ttft_p99_ms", "/ttft_ms/p99"),
    ("bench_tpot_p50_ms", "/tpot_ms/p50"),
    ("bench_tpot_p99_ms", "/tpot_ms/p99"),
    ("bench_tokens_per_s", "/output_throughput"),
];

/// A run and the files that it left.
pub type RunRow<'a> = (ListedRun<'a>, RunFiles);

/// The table. Every key that some run was started with is a column: `override.runtime.batch_size`.
pub fn runs_csv(runs: &[RunRow<'_>]) -> String {
    let keys = runs.iter().flat_map(|(run, _)| overrides(run.manifest));
    let keys: BTreeSet<&str> = keys.map(|(key, _)| key).collect();
    let mut lines = Vec::new();
    for run in runs {
        let columns = columns(run);
        if lines.is_empty() {
            let names = columns.iter().map(|(name, _)| (*name).to_owned());
            let overrides = keys.iter().map(|key| format!("override.{key}"));
            lines.push(names.chain(overrides).collect());
        }
        let values = columns.iter().map(|(_, value)| json_cell(value));
        // The last one holds, as in a config.
        let value = |key: &str| {
            overrides(run.0.manifest)
                .filter(|(name, _)| *name == key)
                .last()
        };
        let overrides = keys
            .iter()
            .map(|key| value(key).map_or("", |(_, value)| value).to_owned());
        lines.push(values.chain(overrides).collect());
    }
    csv_lines(&lines)
}

/// One run as one flat object of numbers and texts, for MLflow, W&B and tables: the columns of [`runs_csv`] that it has, phases and gains.
pub fn flat_row(run: &RunRow<'_>) -> Map<String, Value> {
    let columns = columns(run).into_iter();
    let columns = columns.filter(|(_, value)| !value.is_null() && *value != "");
    let mut row: Map<String, Value> = columns
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let (run, files) = run;
    for (key, value) in overrides(run.manifest) {
        row.insert(tracker_key(&["override", key]), Value::from(value));
    }
    for phase in list(&files.metrics, "phases") {
        let name = phase["phase"].as_str().unwrap_or_default();
        let times = [
            ("wall_ms", &phase["whole_wall_ns"]),
            ("plain_wall_ms", &phase["plain_wall_ns"]),
            ("idle_ms", &phase["waterfall"]["idle_ns"]),
            ("roofline_ms", &phase["waterfall"]["roofline_ns"]),
        ];
        for (key, time) in times {
            if let Some(time) = time.as_f64() {
                row.insert(tracker_key(&["phase", name, key]), (time / 1e6).into());
            }
        }
    }
    for finding in list(&files.analysis, "findings") {
        let code = finding["code"].as_str().unwrap_or_default();
        for gain in list(&finding["conclusion"], "gains") {
            let phase = gain["label"].as_str().or(gain["phase"].as_str());
            let key = tracker_key(&["finding", code, phase.unwrap_or_default(), "saved_ms"]);
            if let Some(saved) = gain["saved_ns"].as_f64() {
                // Two of one kind in one phase are worth at least the larger.
                let known = row.get(&key).and_then(Value::as_f64).unwrap_or(0.0);
                row.insert(key, known.max(saved / 1e6).into());
            }
        }
    }
    row
}

/// A key as trackers take it: letters, digits, `_`, `-`, `.`, spaces and `/`; at most 250 characters.
fn tracker_key(parts: &[&str]) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || "_-. /".contains(c);
    let kept = |c: char| if is_kept(c) { c } else { '_' };
    let key = parts.join(".");
    key.chars().take(250).map(kept).collect()
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

/// Keys and values that a run was started with.
fn overrides(manifest: &Manifest) -> impl Iterator<Item = (&str, &str)> {
    let lines = manifest.overrides.iter();
    lines.filter_map(|line| line.trim_start_matches('+').split_once('='))
}

/// What every run has, by the name of its column.
fn columns((run, files): &RunRow<'_>) -> Vec<(&'static str, Value)> {
    let manifest = run.manifest;
    let status = manifest.status.to_string();
    let RunFiles { metrics, bench, .. } = files;
    let device = metrics["device"].as_str().unwrap_or_default();
    let mut columns = vec![
        ("path", run.path.display().to_string().into()),
        ("created", manifest.created.as_str().into()),
        (
            "finished",
            manifest.finished.as_deref().unwrap_or_default().into(),
        ),
        ("status", status.into()),
        ("experiment", manifest.experiment.as_str().into()),
        ("model", manifest.model.as_str().into()),
        ("device", device.into()),
        ("issues", manifest.issues.len().into()),
    ];
    columns.extend(METRICS.map(|(name, path)| (name, number(metrics, path))));
    columns.extend(BENCH.map(|(name, path)| (name, number(bench, path))));
    columns
}

/// A number, or null.
fn number(value: &Value, path: &str) -> Value {
    let number = value.pointer(path).filter(|value| value.is_number());
    number.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use llmprof_record::store::{Liveness, RunDir};
    use serde_json::from_str;

    use super::*;

    #[test]
    fn a_flat_row_has_numbers_and_texts_alone() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path(), "2026-01-01T00:00:00Z".into(), "0.0.0").unwrap();
        let metrics = r#"{"aggregates": {"tpot_ms": {"mean": 2.5, "count": 3}}, "phases": [{"phase": "my: decode", "whole_wall_ns": 5000000}]}"#;
        let analysis = r#"{"findings": [{"code": "synchronization", "conclusion": {"gains": [{"phase": "decode", "saved_ns": 1500000}]}},
            {"code": "synchronization", "conclusion": {"gains": [{"phase": "decode", "saved_ns": 500000}]}}]}"#;
        let files = RunFiles {
            metrics: from_str(metrics).unwrap(),
            analysis: from_str(analysis).unwrap(),
            ..RunFiles::default()
        };
        let listed = ListedRun::new(run.path(), Liveness::Live, run.manifest());
        let row = flat_row(&(listed, files));
        assert!(
            row.values()
                .all(|value| value.is_number() || value.is_string())
        );
        assert_eq!(row["tpot_ms"], 2.5);
        assert_eq!(row["phase.my_ decode.wall_ms"], 5.0);
        assert_eq!(row["finding.synchronization.decode.saved_ms"], 1.5);
        assert!(!row.contains_key("ttft_ms") && !row.contains_key("device"));
    }
}
