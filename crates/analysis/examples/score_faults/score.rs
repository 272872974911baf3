//! Findings of a trace against the measured cost of a planted fault.

use std::error::Error;
use std::path::Path;

use llmprof_analysis::causes::{Cause, PhaseGain, PhaseReplay};
use llmprof_analysis::findings::{Conclusion, Finding};
use llmprof_analysis::{Analysis, analyze};
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::{RecordedModel, RecordedTrace, RunPhase, RunRecord};
use llmprof_record::trace::Trace;
use llmprof_theory::{Model, Workload};
use llmprof_units::Nanos;
use serde_json::Value;

/// True of transformers run operator by operator, with or without a fault.
const GENERAL: &[&str] = &["launch_bound", "unfused_elementwise", "kv_copies"];
/// Findings that are looked at.
const FIRST: usize = 3;
const ALARM_MIN_SHARE: f64 = 0.05;
const SCORED_MIN_SHARE: f64 = 0.15;
const GAIN_ERROR_MAX: f64 = 0.25;
const PHASE_ERROR_MAX: f64 = 0.07;
/// What the replay of a phase may differ from its recording for gains to be stated.
const REPLAY_ERROR_MAX: f64 = 0.03;
/// Label of phases of which one repetition is a step.
const REPETITION: &str = "repetition";

pub(crate) struct Score {
    pub(crate) name: String,
    /// `None` where there is nothing to name or nobody knows what would name it.
    pub(crate) named: Option<bool>,
    pub(crate) alarms: Vec<String>,
    pub(crate) gains: Vec<ScoredGain>,
    pub(crate) findings: Vec<String>,
    /// Their codes.
    pub(crate) codes: Vec<String>,
    /// How phases were replayed.
    pub(crate) replays: Vec<String>,
}

/// The gain of a phase that is scored, ms a step.
pub(crate) struct ScoredGain {
    /// `prefill` or `decode_step`.
    pub(crate) phase: String,
    pub(crate) stated: f64,
    pub(crate) measured: f64,
    pub(crate) verdict: Verdict,
    /// Range of the stated gain.
    pub(crate) range: [f64; 2],
    /// Time of the phase without the profiler, by the replay and as measured.
    pub(crate) plain: [f64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    Wrong,
    /// The finding names the cause and says that its gain is not known: no more than an upper bound or a range, which holds, or nothing
    /// because the replay differs from the recording.
    Withheld,
}

impl Verdict {
    fn as_word(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Withheld => "withheld",
        }
    }
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
    score_changed(folder, names, |trace| trace)
}

/// Scores of the traces of a folder after a change of each.
pub(crate) fn score_changed(
    folder: &Path,
    names: &[String],
    change: impl Fn(Trace) -> Trace,
) -> Result<Vec<Score>, Box<dyn Error>> {
    let truth: Value = serde_json::from_slice(&std::fs::read(folder.join("truth.json"))?)?;
    let entries = truth.as_object().ok_or("truth.json is not an object")?;
    let mut scores = Vec::new();
    for (name, entry) in entries {
        let file = folder.join(format!("{name}.json.gz"));
        let is_asked = names.is_empty() || names.contains(name);
        if is_asked && file.exists() {
            let analysis = analysis(folder, &file, entry, &change)?;
            scores.push(score(name, entry, &analysis));
        }
    }
    Ok(scores)
}

/// As `llmprof import TRACE --config CONFIG` analyzes it: the device is the one that the trace names, the workload a default one.
pub(crate) fn analysis(
    folder: &Path,
    file: &Path,
    entry: &Value,
    change: &dyn Fn(Trace) -> Trace,
) -> Result<Analysis, Box<dyn Error>> {
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
        workload: model.as_ref().map(|_| Workload::default()),
        model,
        traces: vec![RecordedTrace {
            pass: None,
            trace: change(*trace),
        }],
        ..RunRecord::default()
    };
    Ok(analyze(&record, None)?)
}

pub(crate) fn cause_of(finding: &Finding) -> Option<&Cause> {
    match &finding.conclusion {
        Some(Conclusion::Cause { cause }) => Some(cause),
        _ => None,
    }
}

/// What a cause states, ms.
#[derive(Clone, Copy, Default)]
struct Stated {
    saved: f64,
    low: f64,
    high: f64,
    /// Time of the phase without the profiler.
    now: f64,
}

/// What a cause states over all phases and steps.
fn stated_in_all(cause: &Cause) -> Stated {
    let total = |time: fn(&PhaseGain) -> Nanos| {
        let gains = cause.gains.iter();
        let times = gains.map(|gain| time(gain).0.saturating_mul(gain.steps as i64));
        times.sum::<i64>() as f64 / 1e6
    };
    Stated {
        saved: total(|gain| gain.saved_ns),
        low: total(|gain| gain.low_ns),
        high: total(|gain| gain.high_ns),
        now: total(|gain| gain.now_ns),
    }
}

/// What a cause states for a phase, of a step.
fn stated(cause: &Cause, key: &str, entry: &Value) -> Option<Stated> {
    let gain = gain_of(cause, key, entry)?;
    let steps = entry["steps_in_trace"]
        .as_u64()
        .filter(|_| key != "prefill");
    // A phase that is not known as one of steps holds all of them.
    let is_whole = gain.phase == RunPhase::Other && gain.label.as_deref() != Some(REPETITION);
    let parts = if is_whole {
        steps.unwrap_or(1).max(1) as f64 / gain.steps as f64
    } else {
        1.0
    };
    let a_step = |time: Nanos| time.0 as f64 / 1e6 / parts;
    Some(Stated {
        saved: a_step(gain.saved_ns),
        low: a_step(gain.low_ns),
        high: a_step(gain.high_ns),
        now: a_step(gain.now_ns),
    })
}

/// A phase that is not known as one of text generation has the name of the program's range.
fn gain_of<'c>(cause: &'c Cause, key: &str, entry: &Value) -> Option<&'c PhaseGain> {
    let range = entry["ranges"][usize::from(key != "prefill")].as_str();
    let of_range = |gain: &&PhaseGain| range.is_some() && gain.label.as_deref() == range;
    if let Some(gain) = cause.gains.iter().find(of_range) {
        return Some(gain);
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
    of_phase.or_else(repeated)
}

/// Whether the phase was replayed, and too far from the recording for a gain.
fn is_unexplained(replays: &[PhaseReplay], key: &str, entry: &Value) -> bool {
    let range = entry["ranges"][usize::from(key != "prefill")].as_str();
    let phase = if key == "prefill" {
        RunPhase::Prefill
    } else {
        RunPhase::Decode
    };
    let mut replays = replays.iter();
    replays.any(|replay| {
        // Without steps of decode the time is that of all that was recorded.
        let is_phase = entry["decode_step"].is_null()
            || replay.phase == phase
            || range.is_some() && replay.label.as_deref() == range;
        is_phase && replay.error.abs() > REPLAY_ERROR_MAX
    })
}

pub(crate) fn score(name: &str, entry: &Value, analysis: &Analysis) -> Score {
    let concluded: Vec<&Finding> = analysis
        .findings
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
    // What is true of most programs names a fault, but its gain is not that of the fault alone.
    let named_by = |is_general: bool| {
        let mut findings = concluded.iter().filter(is_named);
        findings.find(|finding| (finding.code == "launch_bound") == is_general)
    };
    let own = named_by(false).or_else(|| named_by(true)).copied();
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
            cause.map(stated_in_all)
        } else {
            cause.and_then(|cause| stated(cause, key, entry))
        };
        let all = stated.unwrap_or_default();
        let (stated, most) = (all.saved, all.high);
        let tolerance = (GAIN_ERROR_MAX * saved).max(PHASE_ERROR_MAX * fault);
        let is_bound = stated == 0.0 && most > 0.0 && saved <= most + tolerance;
        let value_error = (GAIN_ERROR_MAX * stated).max(PHASE_ERROR_MAX * all.now);
        let is_range = stated > 0.0 && (all.high - all.low) / 2.0 > value_error;
        let is_in_range = is_range && (all.low..=all.high).contains(&saved);
        let verdict = if (stated - saved).abs() <= tolerance {
            Verdict::Right
        } else if named == Some(true)
            && (is_bound
                || is_in_range
                || most == 0.0 && is_unexplained(&analysis.replays, key, entry))
        {
            Verdict::Withheld
        } else {
            Verdict::Wrong
        };
        gains.push(ScoredGain {
            phase: key.trim_end_matches("_step").to_owned(),
            stated,
            measured: saved,
            verdict,
            range: [all.low, all.high],
            plain: [all.now, fault],
        });
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
        replays: analysis.replays.iter().map(replay_line).collect(),
    }
}

fn replay_line(replay: &PhaseReplay) -> String {
    format!(
        "{}: {} × {:.2} ms, without the profiler {:.2} ms, replay off by {:+.1} %",
        replay.label.as_deref().unwrap_or(replay.phase.name()),
        replay.steps,
        replay.recorded_ns.0 as f64 / 1e6,
        replay.plain_ns.0 as f64 / 1e6,
        100.0 * replay.error
    )
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

impl ScoredGain {
    fn in_words(&self) -> String {
        let Self {
            phase,
            stated,
            measured,
            verdict,
            ..
        } = self;
        format!(
            "{phase} {stated:.2} of {measured:.2} ms: {}",
            verdict.as_word()
        )
    }
}

impl Score {
    /// Gains with a verdict.
    pub(crate) fn gains_judged(&self, verdict: Verdict) -> usize {
        let gains = self.gains.iter();
        gains.filter(|gain| gain.verdict == verdict).count()
    }

    /// Each gain with its range and the time that it is a part of, and how phases were replayed.
    pub(crate) fn gain_rows(&self) -> Vec<String> {
        let rows = self.gains.iter().map(|gain| {
            let [low, high] = gain.range;
            let [replayed, measured] = gain.plain;
            let is_inside = (low..=high).contains(&gain.measured);
            format!(
                "{} {} range {low:.2}–{high:.2} ({}); plain {replayed:.2}, measured {measured:.2} ms",
                self.name,
                gain.in_words(),
                if is_inside { "holds it" } else { "misses it" },
            )
        });
        let replays = self.replays.iter();
        let replays = replays.map(|replay| format!("{} {replay}", self.name));
        rows.chain(replays).collect()
    }

    pub(crate) fn row(&self) -> String {
        let named = match self.named {
            Some(true) => "named",
            Some(false) => "MISSED",
            None => "-",
        };
        let gains: Vec<String> = self.gains.iter().map(ScoredGain::in_words).collect();
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
        let gains: Vec<String> = score.gains.iter().map(ScoredGain::in_words).collect();
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
    let judged = |verdict| -> usize {
        let counts = scores.iter().map(|score| score.gains_judged(verdict));
        counts.sum()
    };
    let (agree, wrong) = (judged(Verdict::Right), judged(Verdict::Wrong));
    let alarms: usize = scores.iter().map(|score| score.alarms.len()).sum();
    format!(
        "{} programs: named {right} of {}, false alarms {alarms}, gains right {agree} of {}, {} withheld.",
        scores.len(),
        named.len(),
        agree + wrong,
        judged(Verdict::Withheld)
    )
}
