//! Engine steps of a served load: what their batches held, and how the GPU was used.

use llmprof_record::serving::EngineStep;
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Engine steps of the server's trace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct StepsUse {
    /// Number of engine steps during the load.
    pub count: u64,
    /// Number of steps that prefill at least one sequence.
    pub with_prefill: u64,
    /// Mean number of sequences of a step that decodes.
    pub mean_decode_batch: f64,
    /// Time in steps ÷ from the first to the last.
    pub busy_share: f64,
    /// By what their sequences do.
    pub kinds: Vec<StepKindUse>,
}

/// Engine steps of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct StepKindUse {
    /// What the sequences of these steps do.
    pub kind: EngineStepKind,
    /// Number of steps of this kind.
    pub count: u64,
    /// Mean time of a step.
    pub mean_ms: f64,
    /// Mean number of sequences in a step.
    pub mean_sequences: f64,
    /// Mean number of new tokens in a step.
    pub mean_new_tokens: f64,
    /// GPU busy ÷ time of the steps; absent where no GPU was recorded.
    pub gpu_busy_share: Option<f64>,
    /// Roofline time of a step's batch, mean; absent where the model or the device is not known.
    pub roofline_ms: Option<f64>,
    /// Roofline time ÷ time of the steps.
    pub roofline_share: Option<f64>,
}

/// What the sequences of a step do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineStepKind {
    Prefill,
    Decode,
    Mixed,
}

impl EngineStepKind {
    pub const ALL: [Self; 3] = [Self::Prefill, Self::Decode, Self::Mixed];

    fn of_step(step: &EngineStep) -> Self {
        match (step.prefill.sequences, step.decode.sequences) {
            (_, 0) => Self::Prefill,
            (0, _) => Self::Decode,
            _ => Self::Mixed,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
        }
    }
}

pub(super) fn summarize_steps(steps: &[EngineStep]) -> Option<StepsUse> {
    let (first, last) = (steps.first()?, steps.last()?);
    let busy: Nanos = steps
        .iter()
        .map(|step| step.end_unix_ns - step.start_unix_ns)
        .sum();
    let span = (last.end_unix_ns - first.start_unix_ns).max(Nanos(1));
    let decoding: Vec<u64> = steps
        .iter()
        .map(|step| step.decode.sequences)
        .filter(|n| *n > 0)
        .collect();
    Some(StepsUse {
        count: steps.len() as u64,
        with_prefill: steps
            .iter()
            .filter(|step| step.prefill.sequences > 0)
            .count() as u64,
        mean_decode_batch: decoding.iter().sum::<u64>() as f64 / decoding.len().max(1) as f64,
        busy_share: busy.0 as f64 / span.0 as f64,
        kinds: EngineStepKind::ALL
            .into_iter()
            .filter_map(|kind| summarize_kind(kind, steps))
            .collect(),
    })
}

fn summarize_kind(kind: EngineStepKind, steps: &[EngineStep]) -> Option<StepKindUse> {
    let own: Vec<&EngineStep> = steps
        .iter()
        .filter(|step| EngineStepKind::of_step(step) == kind)
        .collect();
    if own.is_empty() {
        return None;
    }
    let mean = |value: &dyn Fn(&EngineStep) -> f64| {
        own.iter().map(|step| value(step)).sum::<f64>() / own.len() as f64
    };
    let mean_ms = mean(&|step| (step.end_unix_ns - step.start_unix_ns).millis());
    let mean_of = |value: fn(&EngineStep) -> Option<Nanos>| {
        let all: Option<Vec<Nanos>> = own.iter().map(|step| value(step)).collect();
        all.map(|all| all.into_iter().sum::<Nanos>().millis() / own.len() as f64)
    };
    let busy_ms = mean_of(|step| step.busy_ns);
    let roofline_ms = mean_of(|step| step.roofline_ns);
    // A range of the host may end before the GPU is done with what it launched.
    let taken_ms = mean(&|step| step_time(step).millis());
    Some(StepKindUse {
        kind,
        count: own.len() as u64,
        mean_ms,
        mean_sequences: mean(&|step| (step.prefill.sequences + step.decode.sequences) as f64),
        mean_new_tokens: mean(&|step| (step.prefill.tokens + step.decode.tokens) as f64),
        gpu_busy_share: busy_ms
            .filter(|_| taken_ms > 0.0)
            .map(|busy| busy / taken_ms),
        roofline_ms,
        roofline_share: roofline_ms
            .filter(|_| taken_ms > 0.0)
            .map(|roofline| roofline / taken_ms),
    })
}

/// The time of a step: its range, or the work of the GPU where that is longer.
fn step_time(step: &EngineStep) -> Nanos {
    let range = step.end_unix_ns - step.start_unix_ns;
    range.max(step.busy_ns.unwrap_or(Nanos(0)))
}
