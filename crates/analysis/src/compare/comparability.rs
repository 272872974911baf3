//! Traits that differ between two runs, and the metrics that cannot be compared because of them.

use llmprof_record::run::RunPhase;
use llmprof_units::format_significant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::RunFacts;
use super::metric::ComparedMetric;
use crate::thresholds::{OVERHEAD_MAX_RATIO, SAME_CONTEXT_MAX_RATIO, SAME_PASS_MAX_RATIO};

/// A trait of the runs that differs between the sides.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct TraitDifference {
    /// `model`, `device`, `driver`, `dtype`, `batch`, …
    pub what: String,
    /// The trait on side A.
    pub a: String,
    /// The trait on side B.
    pub b: String,
}

/// Traits in the order in which they matter.
const TRAIT_ORDER: [&str; 28] = [
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

/// All traits that differ, the most important first. A trait that only one side states is not a difference.
pub(super) fn list_differences(a: &RunFacts, b: &RunFacts) -> Vec<TraitDifference> {
    let mut differences = Vec::new();
    if a.measured_in != b.measured_in {
        differences.push(trait_difference(
            "measured_in",
            &a.measured_in,
            &b.measured_in,
        ));
    }
    for (key, left) in &a.traits {
        if let Some(right) = b.traits.get(key).filter(|right| *right != left) {
            differences.push(trait_difference(key, left, right));
        }
    }
    add_other_passes(&mut differences, a, b);
    let place = |key: &str| TRAIT_ORDER.iter().position(|known| *known == key);
    differences.sort_by_key(|one| place(&one.what).unwrap_or(TRAIT_ORDER.len()));
    for phase in &a.phases {
        let other = b.phase_like(phase);
        let ratios = phase
            .overhead_ratio
            .zip(other.and_then(|other| other.overhead_ratio));
        let Some((left, right)) = ratios else {
            continue;
        };
        let factor = (left / right).max(right / left);
        if factor > OVERHEAD_MAX_RATIO {
            let text = |ratio: f64| format!("{} {ratio:.2}×", phase.name);
            differences.push(trait_difference(
                "profiling_overhead",
                &text(left),
                &text(right),
            ));
        }
    }
    differences
}

/// Adds differences of batch and tokens that the passes show and no stated trait covers.
fn add_other_passes(differences: &mut Vec<TraitDifference>, a: &RunFacts, b: &RunFacts) {
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
            SAME_PASS_MAX_RATIO,
        ),
        (
            RunPhase::Decode,
            "decode_batch",
            "decode_context",
            SAME_CONTEXT_MAX_RATIO,
        ),
    ] {
        let Some((left, right)) = shapes(phase) else {
            continue;
        };
        let is_stated = |differences: &[TraitDifference], what: &str| {
            differences.iter().any(|one| one.what == what)
        };
        if !is_stated(differences, "batch")
            && is_other(left.sequences, right.sequences, SAME_PASS_MAX_RATIO)
        {
            let [a, b] = [left.sequences, right.sequences].map(format_significant);
            let mut known = differences.iter_mut();
            match known.find(|one| one.what == "prefill_batch" && one.a == a && one.b == b) {
                Some(of_prefill) => "batch".clone_into(&mut of_prefill.what),
                None => differences.push(trait_difference(batch, &a, &b)),
            }
        }
        if let Some((a, b)) = left.tokens.zip(right.tokens)
            && !is_stated(differences, "prompt_tokens")
            && is_other(a, b, factor)
        {
            differences.push(trait_difference(
                tokens,
                &format_significant(a),
                &format_significant(b),
            ));
        }
    }
}

fn trait_difference(what: &str, a: &str, b: &str) -> TraitDifference {
    TraitDifference {
        what: what.to_owned(),
        a: a.to_owned(),
        b: b.to_owned(),
    }
}

/// The trait that makes a metric one of different work on the two sides; `None` if the work is the same.
pub(super) fn other_work(
    metric: ComparedMetric,
    differences: &[TraitDifference],
) -> Option<String> {
    let differs = |what: &str| differences.iter().any(|difference| difference.what == what);
    // One of the two contains the overhead of a profiler.
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
        let run_with = |value: &str, overhead| {
            let traits = with(value);
            let traits: Vec<(&str, &str)> = traits
                .iter()
                .map(|(a, b)| (a.as_str(), b.as_str()))
                .collect();
            run(&traits, "plain", overhead)
        };
        let differences = list_differences(&run_with("x", 1.0), &run_with("y", 1.5));
        let names: Vec<&str> = differences.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(names, [&ALL[..], &["profiling_overhead"]].concat());
        assert_eq!(
            (differences[0].a.as_str(), differences[0].b.as_str()),
            ("x", "y")
        );
        assert_eq!(
            list_differences(&run_with("x", 1.0), &run_with("x", 1.05)),
            []
        );
        // A trait that one side lacks is not a difference.
        assert_eq!(
            list_differences(
                &run(&[("driver", "580")], "plain", 1.0),
                &run_with("x", 1.0)
            )[0]
            .what,
            "driver"
        );
        assert_eq!(
            list_differences(&run(&[], "plain", 1.0), &run_with("x", 1.0)),
            []
        );
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
            other_work(
                ComparedMetric::by_key(key).unwrap(),
                &list_differences(a, b),
            )
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
            let other = excluded(metric, &one, &changed(key));
            assert_eq!(other.is_some(), is_left_out, "{key} {metric}: {other:?}");
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
            let other = excluded(metric, &one, &changed(key));
            assert_eq!(other.is_some(), is_left_out, "{key} {metric}: {other:?}");
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
            let differences = list_differences(&one, &other).into_iter();
            differences.map(|one| one.what).collect()
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
        let differences = list_differences(&both(4.0), &both(32.0));
        assert_eq!(differences, [trait_difference("batch", "4", "32")]);
        // A stated trait is not repeated for the passes.
        let mut one = shaped(prefill, 4.0, Some(512.0));
        let mut other = shaped(prefill, 32.0, Some(3072.0));
        for (facts, batch, prompt) in [(&mut one, "4", "512"), (&mut other, "32", "3072")] {
            let stated = [("batch", batch), ("prompt_tokens", prompt)];
            let stated = stated.map(|(key, value)| (key.to_owned(), value.to_owned()));
            facts.traits.extend(stated);
        }
        let differences = list_differences(&one, &other).into_iter();
        let differences: Vec<String> = differences.map(|one| one.what).collect();
        assert_eq!(differences, ["batch", "prompt_tokens"]);
    }
}
