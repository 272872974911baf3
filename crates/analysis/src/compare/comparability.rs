//! What differs between two runs beside what is measured, and what cannot be compared for it.

use llmprof_record::run::RunPhase;
use llmprof_units::format_significant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::RunFacts;
use super::metric::Metric;

/// A trait that differs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[schemars(rename = "TraitDifference")]
pub struct Difference {
    /// `model`, `device`, `driver`, `dtype`, `batch`, …
    pub what: String,
    /// Value of side A.
    pub a: String,
    /// Value of side B.
    pub b: String,
}

/// In the order in which they matter.
const ORDER: [&str; 28] = [
    "measured_in",
    "model",
    "family",
    "parameters",
    "embedding_table",
    "attention_calls",
    "device",
    "gpu",
    "cpu",
    "driver",
    "power_limit",
    "runtime",
    "server",
    "threads",
    "dtype",
    "weights",
    "kv_dtype",
    "batch",
    "prefill_batch",
    "decode_batch",
    "prompt_tokens",
    "decode_context",
    "new_tokens",
    "load",
    "torch",
    "transformers",
    "cuda",
    "profiler",
];

/// Profiling overhead that differs by more than this factor is named.
const OVERHEAD_FACTOR: f64 = 1.1;

/// Passes whose sequences, or tokens of a prompt, differ by more than this factor do other work.
const OTHER_PASS_FACTOR: f64 = 1.02;
/// A longer context costs a decode step less than proportionally, and two recordings of one program rarely cover the same steps.
const OTHER_CONTEXT_FACTOR: f64 = 1.1;

/// Everything that differs, the most important first. What only one side knows is not a difference.
pub(super) fn differences(a: &RunFacts, b: &RunFacts) -> Vec<Difference> {
    let mut found = Vec::new();
    if a.measured_in != b.measured_in {
        found.push(difference("measured_in", &a.measured_in, &b.measured_in));
    }
    for (key, left) in &a.traits {
        if let Some(right) = b.traits.get(key).filter(|right| *right != left) {
            found.push(difference(key, left, right));
        }
    }
    add_other_passes(&mut found, a, b);
    let place = |key: &str| ORDER.iter().position(|known| *known == key);
    found.sort_by_key(|one| place(&one.what).unwrap_or(ORDER.len()));
    for phase in &a.phases {
        let other = b.phase_like(phase);
        let ratios = phase
            .overhead_ratio
            .zip(other.and_then(|other| other.overhead_ratio));
        let Some((left, right)) = ratios else {
            continue;
        };
        let factor = (left / right).max(right / left);
        if factor > OVERHEAD_FACTOR {
            let text = |ratio: f64| format!("{} {ratio:.2}×", phase.name);
            found.push(difference("profiling_overhead", &text(left), &text(right)));
        }
    }
    found
}

/// What the passes of both sides show, where nothing that is stated of the runs says it already.
fn add_other_passes(found: &mut Vec<Difference>, a: &RunFacts, b: &RunFacts) {
    let shapes = |phase: RunPhase| {
        let left = a.phase(phase)?.pass_shape?;
        Some((left, b.phase(phase)?.pass_shape?))
    };
    let is_other = |a: f64, b: f64, factor: f64| (a / b).max(b / a) > factor;
    for (phase, batch, tokens, factor) in [
        (
            RunPhase::Prefill,
            "prefill_batch",
            "prompt_tokens",
            OTHER_PASS_FACTOR,
        ),
        (
            RunPhase::Decode,
            "decode_batch",
            "decode_context",
            OTHER_CONTEXT_FACTOR,
        ),
    ] {
        let Some((left, right)) = shapes(phase) else {
            continue;
        };
        let is_stated = |found: &[Difference], what: &str| found.iter().any(|one| one.what == what);
        if !is_stated(found, "batch")
            && is_other(left.sequences, right.sequences, OTHER_PASS_FACTOR)
        {
            let [a, b] = [left.sequences, right.sequences].map(format_significant);
            let mut known = found.iter_mut();
            match known.find(|one| one.what == "prefill_batch" && one.a == a && one.b == b) {
                Some(of_prefill) => "batch".clone_into(&mut of_prefill.what),
                None => found.push(difference(batch, &a, &b)),
            }
        }
        if let Some((a, b)) = left.tokens.zip(right.tokens)
            && !is_stated(found, "prompt_tokens")
            && is_other(a, b, factor)
        {
            found.push(difference(
                tokens,
                &format_significant(a),
                &format_significant(b),
            ));
        }
    }
}

fn difference(what: &str, a: &str, b: &str) -> Difference {
    Difference {
        what: what.to_owned(),
        a: a.to_owned(),
        b: b.to_owned(),
    }
}

/// The trait for which a metric is not of the same work on both sides; nothing where it is.
pub(super) fn other_work(metric: Metric, found: &[Difference]) -> Option<String> {
    let differs = |what: &str| found.iter().any(|difference| difference.what == what);
    // A profiler's overhead is in one of them.
    if metric.is_speed && !metric.is_of_profiled_pass && differs("measured_in") {
        return Some("measured_in".to_owned());
    }
    let work = metric.same_work.iter().find(|what| differs(what));
    work.map(|what| (*what).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::facts::PhaseFacts;
    use crate::compare::mean_pass::MeanPass;

    fn run(traits: &[(&str, &str)], measured_in: &str, overhead: f64) -> RunFacts {
        let traits = traits.iter();
        RunFacts {
            traits: traits
                .map(|&(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            measured_in: measured_in.to_owned(),
            phases: vec![PhaseFacts {
                name: "decode".to_owned(),
                phase: RunPhase::Decode,
                on_device: true,
                steps: 1,
                has_steps: true,
                wall_ns: 1.0,
                plain_wall_ns: None,
                busy_ns: 1.0,
                idle_ns: 0.0,
                overlap_ns: 0.0,
                parts: Vec::new(),
                idle_causes: Vec::new(),
                overhead_ratio: Some(overhead),
                work: Vec::new(),
                operators: Vec::new(),
                sequence: Vec::new(),
                step_ns: Vec::new(),
                pass_shape: None,
            }],
            ..RunFacts::default()
        }
    }

    const ALL: [&str; 6] = [
        "model",
        "device",
        "driver",
        "dtype",
        "batch",
        "prompt_tokens",
    ];

    #[test]
    fn everything_that_differs_is_named_the_most_important_first() {
        let with = |value: &str| ALL.map(|key| (key.to_owned(), value.to_owned()));
        let of = |value: &str, overhead| {
            let traits = with(value);
            let traits: Vec<(&str, &str)> = traits
                .iter()
                .map(|(a, b)| (a.as_str(), b.as_str()))
                .collect();
            run(&traits, "plain", overhead)
        };
        let found = differences(&of("x", 1.0), &of("y", 1.5));
        let names: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(names, [&ALL[..], &["profiling_overhead"]].concat());
        assert_eq!((found[0].a.as_str(), found[0].b.as_str()), ("x", "y"));
        assert_eq!(differences(&of("x", 1.0), &of("x", 1.05)), []);
        // What one side does not know is no difference.
        assert_eq!(
            differences(&run(&[("driver", "580")], "plain", 1.0), &of("x", 1.0))[0].what,
            "driver"
        );
        assert_eq!(differences(&run(&[], "plain", 1.0), &of("x", 1.0)), []);
    }

    #[test]
    fn metrics_of_other_work_are_left_out() {
        let base = [
            ("batch", "1"),
            ("prompt_tokens", "8"),
            ("new_tokens", "4"),
            ("device", "h200"),
        ];
        let excluded = |key: &str, a: &RunFacts, b: &RunFacts| {
            other_work(Metric::by_key(key).unwrap(), &differences(a, b))
        };
        let one = run(&base, "plain", 1.0);
        let changed = |key: &str| {
            let traits =
                base.map(|(name, value)| (name, if name == key { "other" } else { value }));
            run(&traits, "plain", 1.0)
        };
        for (key, metric, is_left_out) in [
            ("batch", "tpot", true),
            ("batch", "peak_memory", true),
            // Jobs of a sweep over batch sizes have throughputs to compare.
            ("batch", "tokens_per_s", false),
            ("new_tokens", "tokens_per_s", true),
            ("prompt_tokens", "ttft", true),
            ("new_tokens", "ttft", false),
            ("new_tokens", "tpot", true),
            // Another device is what a comparison may be about: it is named, and the metric stands.
            ("device", "tpot", false),
        ] {
            let found = excluded(metric, &one, &changed(key));
            assert_eq!(found.is_some(), is_left_out, "{key} {metric}: {found:?}");
        }
        let traced = run(&base, "trace", 1.0);
        assert_eq!(
            excluded("tpot", &one, &traced).as_deref(),
            Some("measured_in")
        );
        for metric in ["decode_step", "decode_phase", "prefill_step", "peak_memory"] {
            assert_eq!(excluded(metric, &one, &traced), None, "{metric}");
        }
        for (key, metric, is_left_out) in [
            ("batch", "decode_step", true),
            ("batch", "prefill_step", true),
            ("prompt_tokens", "decode_step", true),
            ("prompt_tokens", "prefill_step", true),
            // A step takes as long however many were recorded.
            ("new_tokens", "decode_step", false),
            ("new_tokens", "decode_phase", true),
            ("new_tokens", "prefill_step", false),
        ] {
            let found = excluded(metric, &one, &changed(key));
            assert_eq!(found.is_some(), is_left_out, "{key} {metric}: {found:?}");
        }
    }

    /// Nobody states the work of an imported trace: its passes do.
    #[test]
    fn passes_show_other_work_where_nothing_is_stated() {
        let shaped = |phase: RunPhase, sequences: f64, tokens: Option<f64>| {
            let mut facts = run(&[], "", 1.0);
            facts.phases[0].phase = phase;
            facts.phases[0].pass_shape = Some(MeanPass { sequences, tokens });
            facts
        };
        let named = |phase, (a, b): (f64, f64), tokens: Option<(f64, f64)>| -> Vec<String> {
            let one = shaped(phase, a, tokens.map(|(a, _)| a));
            let other = shaped(phase, b, tokens.map(|(_, b)| b));
            let found = differences(&one, &other).into_iter();
            found.map(|one| one.what).collect()
        };
        let (prefill, decode) = (RunPhase::Prefill, RunPhase::Decode);
        let lengths = Some((512.0, 3072.0));
        assert_eq!(named(prefill, (4.0, 4.0), lengths), ["prompt_tokens"]);
        assert_eq!(named(decode, (4.0, 4.0), lengths), ["decode_context"]);
        assert_eq!(named(prefill, (4.0, 32.0), None), ["prefill_batch"]);
        assert_eq!(named(decode, (4.0, 32.0), None), ["decode_batch"]);
        // Six and forty steps after one prompt.
        let steps = Some((515.5, 532.5));
        assert!(named(decode, (4.0, 4.0), steps).is_empty());
        assert_eq!(named(prefill, (4.0, 4.0), steps), ["prompt_tokens"]);
        // One batch in both phases is one difference.
        let both = |sequences: f64| {
            let mut facts = shaped(prefill, sequences, None);
            let decoded = shaped(decode, sequences, None);
            facts.phases.extend(decoded.phases);
            facts
        };
        let found = differences(&both(4.0), &both(32.0));
        assert_eq!(found, [difference("batch", "4", "32")]);
        // What is stated is not said twice.
        let mut one = shaped(prefill, 4.0, Some(512.0));
        let mut other = shaped(prefill, 32.0, Some(3072.0));
        for (facts, batch, prompt) in [(&mut one, "4", "512"), (&mut other, "32", "3072")] {
            let stated = [("batch", batch), ("prompt_tokens", prompt)];
            let stated = stated.map(|(key, value)| (key.to_owned(), value.to_owned()));
            facts.traits.extend(stated);
        }
        let found = differences(&one, &other).into_iter();
        let found: Vec<String> = found.map(|one| one.what).collect();
        assert_eq!(found, ["batch", "prompt_tokens"]);
    }
}
