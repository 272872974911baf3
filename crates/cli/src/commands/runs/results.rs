//! What a run found, in a few lines, from the files that it left.

use llmprof_analysis::findings::Finding;
use llmprof_record::store::StoredRun;
use llmprof_report::text;
use llmprof_units::{Nanos, format_significant};
use serde_json::Value;

/// Findings that are shown; the report has all.
const MOST_FINDINGS: usize = 5;

/// Name and value of each result; nothing where the run left none.
pub(super) fn results(run: &StoredRun) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(metrics) = json(run, "metrics.json") {
        latency(&metrics["aggregates"], &mut lines);
        for phase in metrics["phases"].as_array().into_iter().flatten() {
            lines.extend(phase_line(phase).map(|line| ("phase", line)));
        }
    }
    if let Some(bench) = json(run, "bench.json") {
        load(&bench, &mut lines);
    }
    if let Some(analysis) = json(run, "analysis.json") {
        let is_measured = !analysis["latency"]["measured_in"].is_null();
        let whole = if is_measured { "run" } else { "all phases" };
        let findings = analysis["findings"].as_array();
        // One that abstains concludes nothing.
        let concluded = findings
            .into_iter()
            .flatten()
            .filter_map(|finding| serde_json::from_value::<Finding>(finding.clone()).ok())
            .filter(|finding| finding.abstains.is_none());
        lines.extend(
            concluded
                .take(MOST_FINDINGS)
                .map(|finding| ("finding", finding_line(&finding, whole))),
        );
    }
    lines
}

/// A file that is absent or cannot be read shows nothing: `runs show` is of any run, whatever became of it.
fn json(run: &StoredRun, file: &str) -> Option<Value> {
    run.json(file).ok()?
}

fn latency(aggregates: &Value, lines: &mut Vec<(&'static str, String)>) {
    let times = [("TTFT", "ttft_ms"), ("TPOT", "tpot_ms")];
    for (name, key) in times {
        if let Some(mean) = aggregates[key]["mean"].as_f64() {
            lines.push((name, millis(mean)));
        }
    }
    if let Some(rate) = aggregates["tokens_per_s"]["mean"].as_f64() {
        lines.push(("tokens/s", format_significant(rate)));
    }
}

/// A served load: medians, and what it served.
fn load(bench: &Value, lines: &mut Vec<(&'static str, String)>) {
    for (name, key) in [("TTFT p50", "ttft_ms"), ("TPOT p50", "tpot_ms")] {
        if let Some(median) = bench[key]["p50"].as_f64() {
            lines.push((name, millis(median)));
        }
    }
    for (name, key) in [
        ("requests/s", "request_throughput"),
        ("tokens/s", "output_throughput"),
    ] {
        if let Some(rate) = bench[key].as_f64() {
            lines.push((name, format_significant(rate)));
        }
    }
    if let Some(failed) = bench["failed"].as_u64().filter(|failed| *failed > 0) {
        lines.push(("failed", failed.to_string()));
    }
}

/// `decode: 25.3 ms, memory-bound`: the time of the whole phase, sampled or not.
fn phase_line(phase: &Value) -> Option<String> {
    let name = phase["phase"].as_str()?;
    let walls = [
        &phase["whole_wall_ns"],
        &phase["plain_wall_ns"],
        &phase["waterfall"]["wall_ns"],
    ];
    let wall = walls.into_iter().find_map(Value::as_i64)?;
    let class = match phase["class"].as_str() {
        Some(class) => format!(", {}", class.replace('_', "-")),
        None => String::new(),
    };
    let recorded = &phase["recorded"];
    let sampled = match (recorded["steps"].as_u64(), recorded["of_steps"].as_u64()) {
        (Some(steps), Some(all)) => format!(" ({steps} of {all} steps sampled)"),
        _ => String::new(),
    };
    Some(format!("{name}: {}{sampled}{class}", Nanos(wall)))
}

fn finding_line(finding: &Finding, whole: &str) -> String {
    let title = text::finding(finding);
    match text::gain(finding, whole) {
        Some(gain) => format!("{title}. {gain}"),
        None => title,
    }
}

fn millis(mean: f64) -> String {
    Nanos((mean * 1e6).round() as i64).to_string()
}

#[cfg(test)]
mod tests {
    use llmprof_record::store::RunDir;

    use super::*;

    #[test]
    fn results_come_from_metrics_and_analysis() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path(), "2026-01-01T00:00:00Z".into(), "0.0.0").unwrap();
        let stored = StoredRun::open(folder.path()).unwrap();
        assert_eq!(results(&stored), []);
        let metrics = r#"{"aggregates": {"ttft_ms": {"mean": 12.5}, "tpot_ms": null, "tokens_per_s": {"mean": 40.0}},
            "phases": [{"phase": "decode", "class": "memory_bound", "whole_wall_ns": 9154000000, "plain_wall_ns": 489800000, "waterfall": {"wall_ns": 2000000},
                "recorded": {"steps": 3, "of_steps": 9}}]}"#;
        let analysis = r#"{"findings": [
            {"code": "copies", "phase": "decode", "conclusion": {"kind": "copies", "share": 0.5, "is_on_device": false}, "evidence": [], "confidence": "high",
             "gain": {"of": "run", "factor": 2.0, "derivation": {"formula": "without_part", "wall_ns": 2, "part_ns": 1}}},
            {"code": "idle", "phase": "decode", "evidence": [], "confidence": "abstains", "abstains": {"reason": "no_phases"}}]}"#;
        std::fs::write(run.path().join("metrics.json"), metrics).unwrap();
        std::fs::write(run.path().join("analysis.json"), analysis).unwrap();
        let shown = results(&stored);
        let names: Vec<&str> = shown.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["TTFT", "tokens/s", "phase", "finding"]);
        assert_eq!(
            shown[2].1,
            "decode: 9.154 s (3 of 9 steps sampled), memory-bound"
        );
        assert!(
            shown[3]
                .1
                .starts_with("decode: exposed copies and memsets take 50.0 %"),
            "{shown:?}"
        );
        // As the run itself called it.
        assert!(
            shown[3]
                .1
                .ends_with(". Expected speedup: all phases 2.00×."),
            "{shown:?}"
        );
    }
}
