//! Findings of a trace against the measured cost of a planted fault.

use std::error::Error;
use std::path::Path;

use llmprof_analysis::analyze;
use llmprof_analysis::causes::{Cause, PhaseGain};
use llmprof_analysis::findings::{Conclusion, Finding};
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::{RecordedModel, RecordedTrace, RunPhase, RunRecord};
use llmprof_theory::Model;
use serde_json::Value;

/// True of transformers run operator by operator, with or without a fault.
const GENERAL: &[&str] = &["launch_bound", "unfused_elementwise", "kv_copies"];
/// Findings that are looked at.
const FIRST: usize = 3;
const ALARM_MIN_SHARE: f64 = 0.05;
const SCORED_MIN_SHARE: f64 = 0.15;
const GAIN_ERROR_MAX: f64 = 0.25;
const PHASE_ERROR_MAX: f64 = 0.07;

pub(crate) struct Score {
    pub(crate) name: String,
    /// `None` where there is nothing to name or nobody knows what would name it.
    pub(crate) named: Option<bool>,
    pub(crate) alarms: Vec<String>,
    /// For each phase that is scored: stated and measured saving, ms a step, and whether they agree.
    pub(crate) gains: Vec<(String, f64, f64, bool)>,
    pub(crate) findings: Vec<String>,
    /// Their codes.
    pub(crate) codes: Vec<String>,
}

/// Codes that name a cause.
pub(crate) fn accepted(cause: &str) -> &'static [&'static str] {
    match cause {
        "sync_each_layer"
        | "synchronize-each-step"
        | "nan-check-each-layer"
        | "masked-indexing"
        | "tensor-printed"
        | "item-each-layer"
        | "item-each-sequence"
        | "expert-loop" => &["synchronization"],
        "pageable_copy_each_step"
        | "weights-copied-each-step"
        | "many-small-copies"
        | "embedding-copied-each-step"
        | "kv-cache-to-host" => &["host_copies"],
        "launch-blocking" => &["blocking_launches"],
        "vocabulary-sort" => &["vocabulary_sort"],
        "logits_to_cpu" | "sampling-on-host" => &["host_copies", "host_code", "host_operators"],
        "float32_weights" | "lm-head-float32" | "tf32-off" => &["gemm_format"],
        "eager_attention"
        | "attention-math-fallback"
        | "attention-float32"
        | "attentions-returned" => &["unfused_attention"],
        "no_kv_cache" => &["recomputed_tokens"],
        "gc_each_step"
        | "sleep"
        | "host-detokenization"
        | "host-work-between-graphs"
        | "host-logging"
        | "python-hooks" => &["host_code"],
        "other_stream_load" | "second-model-thread" => &["other_work"],
        "logits-all-positions" => &["unused_logits"],
        "weights-cast-each-step"
        | "weights-dequantized-each-step"
        | "weights-transposed-each-step"
        | "lora-merged-each-step" => &["weight_casts"],
        "float64" => &["wide_operators"],
        "deterministic-fill" => &["fills"],
        "prefill-chunks-too-small" => &["small_chunks"],
        "all-experts-computed" => &["all_experts"],
        "no-caching-allocator" => &["allocation"],
        "cpu-contention" => &["cpu_contention"],
        "kv-cache-cloned"
        | "kv-cache-reordered"
        | "kv-cache-concatenated"
        | "kv-heads-repeated" => &["kv_copies"],
        "unfused-norms" => &["unfused_elementwise"],
        "recompiled-each-step" | "mask-on-host" => &["host_operators"],
        "host-memory-pinned" => &["pinned_memory"],
        "train-mode" => &["dropout"],
        "attention-over-unused-span" => &["unused_span"],
        "python-loop-of-small-kernels" => &["operator_loop"],
        "second-forward" | "batch-one-by-one" => &["repeated_passes"],
        "autograd" | "autograd-anomaly" => &["autograd"],
        "graph-captured-each-step" => &["graph_captures"],
        // No cause names these: counted as missed.
        "padding"
        | "finished-sequences-kept"
        | "other-process"
        | "requests-one-by-one"
        | "prompts-recomputed" => &["not_named"],
        _ => &[],
    }
}

pub(crate) fn score_folder(folder: &Path, names: &[String]) -> Result<Vec<Score>, Box<dyn Error>> {
    let truth: Value = serde_json::from_slice(&std::fs::read(folder.join("truth.json"))?)?;
    let entries = truth.as_object().ok_or("truth.json is not an object")?;
    let mut scores = Vec::new();
    for (name, entry) in entries {
        let file = folder.join(format!("{name}.json.gz"));
        let is_asked = names.is_empty() || names.contains(name);
        if is_asked && file.exists() {
            scores.push(score(folder, name, entry, &findings(folder, &file, entry)?));
        }
    }
    Ok(scores)
}

fn findings(folder: &Path, file: &Path, entry: &Value) -> Result<Vec<Finding>, Box<dyn Error>> {
    let (_, profile) = import(file, &Limits::default())?;
    let Profile::Trace(trace) = profile else {
        return Err("not a trace".into());
    };
    let config = entry["config"].as_str().unwrap_or("config.json");
    let design: Option<Value> = match std::fs::read(folder.join(config)) {
        Ok(text) => Some(serde_json::from_slice(&text)?),
        Err(_) => None,
    };
    let model = design.and_then(|design| {
        Some(RecordedModel {
            model: Model::from_config(&design, None).ok(),
            design: design.as_object()?.clone(),
        })
    });
    let record = RunRecord {
        model,
        traces: vec![RecordedTrace {
            pass: None,
            trace: *trace,
        }],
        ..RunRecord::default()
    };
    Ok(analyze(&record, None)?.findings)
}

fn cause_of(finding: &Finding) -> Option<&Cause> {
    match &finding.conclusion {
        Some(Conclusion::Cause { cause }) => Some(cause),
        _ => None,
    }
}

/// The saving that a cause states over all phases and steps, ms.
fn stated_in_all(cause: &Cause) -> f64 {
    let saved = cause.gains.iter().map(PhaseGain::total_saved);
    saved.sum::<i64>() as f64 / 1e6
}

/// The saving that a cause states for a phase, ms a step. A phase that is not known as one of text generation has the name of the
/// program's range.
fn stated(cause: &Cause, key: &str, entry: &Value) -> Option<f64> {
    let range = entry["ranges"][usize::from(key != "prefill")].as_str();
    let of_range = |gain: &&PhaseGain| range.is_some() && gain.label.as_deref() == range;
    if let Some(gain) = cause.gains.iter().find(of_range) {
        let steps = entry["steps_in_trace"]
            .as_u64()
            .filter(|_| key != "prefill");
        return Some(gain.total_saved() as f64 / 1e6 / steps.unwrap_or(1).max(1) as f64);
    }
    let phase = if key == "prefill" {
        RunPhase::Prefill
    } else {
        RunPhase::Decode
    };
    let of_phase = cause.gains.iter().find(|gain| gain.phase == phase);
    // Without ranges and operators nothing but the step repeats.
    let repeated = || {
        let mut gains = cause.gains.iter();
        gains.find(|gain| phase == RunPhase::Decode && gain.phase == RunPhase::Other)
    };
    let gain = of_phase.or_else(repeated)?;
    Some(gain.saved_ns.0 as f64 / 1e6)
}

fn score(_folder: &Path, name: &str, entry: &Value, findings: &[Finding]) -> Score {
    let concluded: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.abstains.is_none())
        .collect();
    let cause = entry["cause"].as_str().unwrap_or(name);
    let is_fault = cause != "none" && !name.starts_with("control") && name != "sdpa_reference";
    let costs_nothing = entry["costs_nothing"].as_bool() == Some(true);
    let mut codes: Vec<String> = accepted(cause).iter().map(ToString::to_string).collect();
    codes.extend(codes_in(entry, "accept"));
    let also_true = codes_in(entry, "also_true");
    let is_named = |finding: &&&Finding| codes.contains(&finding.code);
    let named = (is_fault && !costs_nothing && !codes.is_empty()).then(|| {
        concluded
            .iter()
            .take(FIRST)
            .any(|finding| is_named(&finding))
    });
    let own = concluded.iter().find(|finding| is_named(finding)).copied();
    let mut alarms = Vec::new();
    for finding in &concluded {
        let Some(cause) = cause_of(finding) else {
            continue;
        };
        let is_expected = GENERAL.contains(&finding.code.as_str())
            || also_true.contains(&finding.code)
            || (codes.contains(&finding.code) && !costs_nothing)
            || !cause.same_time_as.is_empty();
        for gain in cause
            .gains
            .iter()
            .filter(|gain| gain.share() >= ALARM_MIN_SHARE)
        {
            if !is_expected {
                let saved = gain.saved_ns.0 as f64 / 1e6;
                let phase = gain.phase.name();
                let share = 100.0 * gain.share();
                alarms.push(format!(
                    "{} {saved:.2} ms of {phase} ({share:.0} %)",
                    finding.code
                ));
            }
        }
    }
    let noisy: Vec<&str> = entry["noisy"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut gains = Vec::new();
    for key in ["prefill", "decode_step"] {
        let time = |which: &str| entry[key][which].as_f64();
        let (Some(base), Some(fault)) = (time("base_ms"), time("fault_ms")) else {
            continue;
        };
        let saved = fault - base;
        if !is_fault || costs_nothing || noisy.contains(&key) || saved < SCORED_MIN_SHARE * fault {
            continue;
        }
        let cause = own.and_then(cause_of);
        // Without steps of decode the time is that of all that was recorded.
        let stated = if entry["decode_step"].is_null() {
            cause.map_or(0.0, stated_in_all)
        } else {
            cause
                .and_then(|cause| stated(cause, key, entry))
                .unwrap_or(0.0)
        };
        let most = (GAIN_ERROR_MAX * saved).max(PHASE_ERROR_MAX * fault);
        gains.push((
            key.to_owned(),
            stated,
            saved,
            (stated - saved).abs() <= most,
        ));
    }
    Score {
        name: name.to_owned(),
        named,
        alarms,
        gains,
        findings: concluded.iter().map(|finding| line(finding)).collect(),
        codes: concluded
            .iter()
            .map(|finding| finding.code.clone())
            .collect(),
    }
}

fn codes_in(entry: &Value, key: &str) -> Vec<String> {
    let listed = entry[key].as_array().into_iter().flatten();
    listed
        .filter_map(|code| Some(code.as_str()?.to_owned()))
        .collect()
}

fn line(finding: &Finding) -> String {
    let gains = cause_of(finding).map(|cause| {
        let gains = cause.gains.iter().map(|gain| {
            let saved = gain.saved_ns.0 as f64 / 1e6;
            format!("{} {saved:.2} ms", gain.phase.name())
        });
        gains.collect::<Vec<_>>().join(", ")
    });
    format!("{} ({})", finding.code, gains.unwrap_or_default())
}

impl Score {
    pub(crate) fn row(&self) -> String {
        let named = match self.named {
            Some(true) => "named",
            Some(false) => "MISSED",
            None => "-",
        };
        let gains: Vec<String> = self
            .gains
            .iter()
            .map(|(phase, stated, saved, is_right)| {
                let verdict = if *is_right { "ok" } else { "WRONG" };
                format!("{phase} {stated:.2} of {saved:.2} ms {verdict}")
            })
            .collect();
        let first: Vec<&str> = self.findings.iter().take(4).map(String::as_str).collect();
        format!(
            "| {} | {named} | {} | {} | {} |",
            self.name,
            self.alarms.join("; "),
            gains.join("; "),
            first.join("; ")
        )
    }
}

/// The table of docs/diagnosis.md.
pub(crate) fn table(scores: &[Score]) -> String {
    let mut text = "| program | named | false alarms | gain stated of measured | first findings |\n|---|---|---|---|---|\n".to_owned();
    for score in scores {
        let named = match score.named {
            Some(true) => "named",
            Some(false) => "MISSED",
            None => "–",
        };
        let gains: Vec<String> = score
            .gains
            .iter()
            .map(|(phase, stated, saved, is_right)| {
                let phase = phase.trim_end_matches("_step");
                let verdict = if *is_right { "right" } else { "wrong" };
                format!("{phase} {stated:.2} of {saved:.2} ms: {verdict}")
            })
            .collect();
        let or_dash = |cell: String| {
            if cell.is_empty() {
                "–".to_owned()
            } else {
                cell
            }
        };
        let first = score.codes.iter().take(FIRST).cloned().collect::<Vec<_>>();
        text += &format!(
            "| {} | {named} | {} | {} | {} |\n",
            score.name,
            or_dash(score.alarms.join("; ")),
            or_dash(gains.join("; ")),
            or_dash(first.join(", ")),
        );
    }
    text
}

pub(crate) fn summary(scores: &[Score]) -> String {
    let named: Vec<bool> = scores.iter().filter_map(|score| score.named).collect();
    let right = named.iter().filter(|named| **named).count();
    let gains: Vec<bool> = scores
        .iter()
        .flat_map(|score| score.gains.iter().map(|gain| gain.3))
        .collect();
    let agree = gains.iter().filter(|right| **right).count();
    let alarms: usize = scores.iter().map(|score| score.alarms.len()).sum();
    format!(
        "{} programs: named {right} of {}, false alarms {alarms}, gains right {agree} of {}.",
        scores.len(),
        named.len(),
        gains.len()
    )
}
