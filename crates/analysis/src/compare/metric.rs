//! What is compared, by stable keys.

use llmprof_record::run::RunPhase;

/// A number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The key in JSON, gates and baselines.
    pub key: &'static str,
    pub unit: Unit,
    pub higher_is_better: bool,
    /// Whether a difference is a matter of speed: `faster` rather than `lower`.
    pub is_speed: bool,
    /// Traits that must be equal for the metric to be of the same work.
    pub same_work: &'static [&'static str],
    /// Whether it is a time of a profiled pass on every side, whatever else a side has.
    pub(super) is_of_profiled_pass: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Ns,
    PerSecond,
    Joules,
    Bytes,
}

const fn time(key: &'static str, same_work: &'static [&'static str]) -> Metric {
    Metric {
        key,
        unit: Unit::Ns,
        higher_is_better: false,
        is_speed: true,
        same_work,
        is_of_profiled_pass: false,
    }
}

const fn profiled(key: &'static str, same_work: &'static [&'static str]) -> Metric {
    Metric {
        is_of_profiled_pass: true,
        ..time(key, same_work)
    }
}

const LENGTHS: &[&str] = &["batch", "prompt_tokens", "new_tokens", "load"];

/// Of a profiled prefill. Shapes of another model are other work; the name of a model is not, since one model has many.
const PREFILL_WORK: &[&str] = &[
    "embedding_table",
    "attention_calls",
    "parameters",
    "batch",
    "prefill_batch",
    "prompt_tokens",
    "load",
];
/// Of a profiled decode step: how many steps were recorded does not matter.
const DECODE_WORK: &[&str] = &[
    "embedding_table",
    "attention_calls",
    "parameters",
    "batch",
    "decode_batch",
    "prompt_tokens",
    "decode_context",
    "load",
];
/// Of all decode steps together.
const DECODE_RANGE_WORK: &[&str] = &[
    "embedding_table",
    "attention_calls",
    "parameters",
    "batch",
    "decode_batch",
    "prompt_tokens",
    "decode_context",
    "new_tokens",
    "load",
];

impl Metric {
    /// In the order of reports; the first that both sides have is the headline.
    pub const ALL: [Self; 10] = [
        time("tpot", LENGTHS),
        time("ttft", &["batch", "prompt_tokens", "load"]),
        time("itl", LENGTHS),
        time("e2e", LENGTHS),
        Self {
            key: "tokens_per_s",
            unit: Unit::PerSecond,
            higher_is_better: true,
            is_speed: true,
            // Throughput at other batch sizes is what a sweep of them asks about.
            same_work: &["prompt_tokens", "new_tokens", "load"],
            is_of_profiled_pass: false,
        },
        profiled("decode_step", DECODE_WORK),
        // Whole ranges of decode, where nothing shows their steps.
        profiled("decode_phase", DECODE_RANGE_WORK),
        profiled("prefill_step", PREFILL_WORK),
        Self {
            key: "energy_per_token",
            unit: Unit::Joules,
            higher_is_better: false,
            is_speed: false,
            same_work: LENGTHS,
            is_of_profiled_pass: false,
        },
        Self {
            key: "peak_memory",
            unit: Unit::Bytes,
            higher_is_better: false,
            is_speed: false,
            same_work: LENGTHS,
            is_of_profiled_pass: false,
        },
    ];

    /// The metric of a profiled phase.
    pub(super) fn of_phase(phase: RunPhase, has_steps: bool) -> Option<Self> {
        match phase {
            RunPhase::Decode if has_steps => Self::by_key("decode_step"),
            RunPhase::Decode => Self::by_key("decode_phase"),
            RunPhase::Prefill => Self::by_key("prefill_step"),
            _ => None,
        }
    }

    pub fn by_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.key == key)
    }
}
