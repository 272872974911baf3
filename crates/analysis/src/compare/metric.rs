//! What is compared, by stable keys.

use llmprof_record::run::RunPhase;

/// A number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparedMetric {
    /// The key in JSON, gates and baselines.
    pub key: &'static str,
    pub unit: MetricUnit,
    pub higher_is_better: bool,
    /// Whether a difference is a matter of speed: `faster` rather than `lower`.
    pub is_speed: bool,
    /// Traits that must be equal for the metric to be of the same work.
    pub same_work: &'static [&'static str],
    /// Whether it is always a time of the profiled pass, even on sides that were measured without a profiler.
    pub(super) is_of_profiled_pass: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricUnit {
    Ns,
    PerSecond,
    Joules,
    Bytes,
}

const fn time_metric(key: &'static str, same_work: &'static [&'static str]) -> ComparedMetric {
    ComparedMetric {
        key,
        unit: MetricUnit::Ns,
        higher_is_better: false,
        is_speed: true,
        same_work,
        is_of_profiled_pass: false,
    }
}

const fn profiled_metric(key: &'static str, same_work: &'static [&'static str]) -> ComparedMetric {
    ComparedMetric {
        is_of_profiled_pass: true,
        ..time_metric(key, same_work)
    }
}

const LENGTH_TRAITS: &[&str] = &["batch", "prompt_tokens", "new_tokens", "load"];

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

impl ComparedMetric {
    /// In the order of reports; the first that both sides have is the headline.
    pub const ALL: [Self; 10] = [
        time_metric("tpot", LENGTH_TRAITS),
        time_metric("ttft", &["batch", "prompt_tokens", "load"]),
        time_metric("itl", LENGTH_TRAITS),
        time_metric("e2e", LENGTH_TRAITS),
        Self {
            key: "tokens_per_s",
            unit: MetricUnit::PerSecond,
            higher_is_better: true,
            is_speed: true,
            // Throughput at other batch sizes is what a sweep of them asks about.
            same_work: &["prompt_tokens", "new_tokens", "load"],
            is_of_profiled_pass: false,
        },
        profiled_metric("decode_step", DECODE_WORK),
        // Whole ranges of decode, where nothing shows their steps.
        profiled_metric("decode_phase", DECODE_RANGE_WORK),
        profiled_metric("prefill_step", PREFILL_WORK),
        Self {
            key: "energy_per_token",
            unit: MetricUnit::Joules,
            higher_is_better: false,
            is_speed: false,
            same_work: LENGTH_TRAITS,
            is_of_profiled_pass: false,
        },
        Self {
            key: "peak_memory",
            unit: MetricUnit::Bytes,
            higher_is_better: false,
            is_speed: false,
            same_work: LENGTH_TRAITS,
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
