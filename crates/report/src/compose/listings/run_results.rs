//! What a run found, in a few lines, from the files that it left.

use llmprof_analysis::findings::Finding;
use llmprof_units::{Nanos, format_significant};
use serde_json::Value;

use crate::text::{self, time};

/// Findings that are shown; the report has all.
const FINDINGS_SHOWN: usize = 5;

/// Files that a run left; null where one is absent or damaged: a run is shown whatever became of it.
#[derive(Default)]
pub struct RunFiles {
    pub metrics: Value,
    pub bench: Value,
    pub analysis: Value,
}

/// Name and value of each result; nothing where the run left none.
pub(super) fn results(files: &RunFiles) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let RunFiles {
        metrics,
        bench,
        analysis,
    } = files;
    let figures = [
        ("TTFT", metrics, "/aggregates/ttft_ms/mean"),
        ("TPOT", metrics, "/aggregates/tpot_ms/mean"),
        ("tokens/s", metrics, "/aggregates/tokens_per_s/mean"),
        ("TTFT p50", bench, "/ttft_ms/p50"),
        ("TPOT p50", bench, "/tpot_ms/p50"),
        ("requests/s", bench, "/request_throughput"),
        ("tokens/s", bench, "/output_throughput"),
        ("failed", bench, "/failed"),
    ];
    for (name, file, path) in figures {
        let number = file.pointer(path).and_then(Value::as_f64);
        lines.extend(match number {
            Some(ms) if path.contains("_ms/") => Some((name, time(ms * 1e6))),
            Some(count) if name == "failed" => (count > 0.0).then(|| (name, count.to_string())),
            number => number.map(|number| (name, format_significant(number))),
        });
    }
    for phase in metrics["phases"].as_array().into_iter().flatten() {
        lines.extend(phase_line(phase).map(|line| ("phase", line)));
    }
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
            .take(FINDINGS_SHOWN)
            .map(|finding| ("finding", finding_line(&finding, whole))),
    );
    lines
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

#[cfg(test)]
mod tests {
    use serde_json::from_str;

    use super::*;

    #[test]
    fn results_come_from_metrics_and_analysis() {
        assert_eq!(results(&RunFiles::default()), []);
        let metrics = r#"{"aggregates": {"ttft_ms": {"mean": 12.5}, "tpot_ms": null, "tokens_per_s": {"mean": 40.0}},
            "phases": [{"phase": "decode", "class": "memory_bound", "whole_wall_ns": 9154000000, "plain_wall_ns": 489800000, "waterfall": {"wall_ns": 2000000},
                "recorded": {"steps": 3, "of_steps": 9}}]}"#;
        let analysis = r#"{"findings": [
            {"code": "copies", "phase": "decode", "conclusion": {"kind": "copies", "share": 0.5, "is_on_device": false}, "evidence": [], "confidence": "high",
             "gain": {"of": "run", "factor": 2.0, "derivation": {"formula": "without_part", "wall_ns": 2, "part_ns": 1}}},
            {"code": "idle", "phase": "decode", "evidence": [], "confidence": "abstains", "abstains": {"reason": "no_phases"}}]}"#;
        let shown = results(&RunFiles {
            metrics: from_str(metrics).unwrap(),
            analysis: from_str(analysis).unwrap(),
            ..RunFiles::default()
        });
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
