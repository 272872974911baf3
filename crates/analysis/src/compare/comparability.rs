//! What differs between two runs beside what is measured, and what cannot be compared for it.

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
const ORDER: [&str; 23] = [
    "measured_in",
    "model",
    "family",
    "parameters",
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
    "prompt_tokens",
    "new_tokens",
    "load",
    "torch",
    "transformers",
    "cuda",
    "profiler",
];

/// Profiling overhead that differs by more than this factor is named.
const OVERHEAD_FACTOR: f64 = 1.1;

/// Everything that differs, the most important first. What only one side knows is not a difference.
pub(super) fn differences(a: &RunFacts, b: &RunFacts) -> Vec<Difference> {
    let mut found = Vec::new();
    if a.measured_in != b.measured_in {
        found.push(difference("measured_in", &a.measured_in, &b.measured_in));
    }
    let keys = a.traits.keys();
    let mut keys: Vec<&String> = keys.filter(|key| b.traits.contains_key(*key)).collect();
    let place = |key: &str| ORDER.iter().position(|known| *known == key);
    keys.sort_by_key(|key| place(key).unwrap_or(ORDER.len()));
    for key in keys {
        if a.traits[key] != b.traits[key] {
            found.push(difference(key, &a.traits[key], &b.traits[key]));
        }
    }
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
    use llmprof_record::run::RunPhase;

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
    }
}
