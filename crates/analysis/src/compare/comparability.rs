//! What differs between two runs beside what is measured, and what cannot be compared for it.

use serde::{Deserialize, Serialize};

use super::facts::RunFacts;
use super::metric::Metric;

/// A trait that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// `model`, `device`, `driver`, `dtype`, `batch`, …
    pub what: String,
    pub a: String,
    pub b: String,
}

/// In the order in which they matter.
const ORDER: [&str; 21] = [
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
    "threads",
    "dtype",
    "weights",
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
    // A profiler's overhead is in one of them; times of steps are always those of a profiled pass.
    if metric.is_speed && !metric.key.ends_with("_step") && differs("measured_in") {
        return Some("measured_in".to_owned());
    }
    let work = metric.same_work.iter().find(|what| differs(what));
    work.map(|what| (*what).to_owned())
}
