//! What a run measured, whatever ran it: the input of [`analyze_run`](super::analyze_run).
//!
//! All times are nanoseconds on one clock, the run's.

use llmprof_record::issue::Issue;
use llmprof_theory::{Kind, Pass, Phase, Shape};
use llmprof_units::DType;
use serde::{Deserialize, Serialize};

use super::telemetry::HostTelemetry;

/// The facts of one run. Nothing in it is derived.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuredRun {
    /// Name of the model, for people.
    pub model: String,
    /// The operators that events name by their index here.
    pub operators: Vec<OperatorIdentity>,
    /// The passes in the order in which they ran, warm-up included.
    pub passes: Vec<MeasuredPass>,
    /// Whether the KV cache had its full size from the start, so that no step met a length that was new.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fixed_cache: bool,
    /// What the machine did meanwhile, where that was sampled.
    pub telemetry: Option<HostTelemetry>,
    /// What was lost or is doubtful.
    pub issues: Vec<Issue>,
}

/// What an operator of the loaded model is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorIdentity {
    /// Its path as theory prints it: `model.layers.3.self_attn.q_proj`.
    pub path: String,
    /// What it does.
    pub kind: Kind,
    /// The format that it multiplies.
    pub dtype: DType,
}

/// Why a pass was run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PassKind {
    /// To warm up: in no statistics.
    WarmUp,
    /// To measure, with nothing attached: gives latencies and wall times.
    #[default]
    Plain,
    /// To see what ran: gives the waterfall.
    Captured,
}

/// One run of the whole workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuredPass {
    /// Why it was run.
    pub kind: PassKind,
    /// Its phases. Stretches do not overlap; a phase may have several.
    pub phases: Vec<PhaseSpan>,
    /// Calls of operators; none in a plain pass.
    pub operators: Vec<OperatorEvent>,
    /// What the engine did between operators (`sampling`, `tokenizer`), where that was recorded.
    pub host: Vec<HostInterval>,
    /// The requests that it served.
    pub requests: Vec<RequestFacts>,
    /// Calls of operators that found no room in the recorder.
    pub lost_events: u64,
    /// Part of the time in which the device ran below its clock for heat or power, from 0 to 1, where telemetry tells.
    pub throttled_share: Option<f64>,
}

/// What happens in a stretch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// Weights are loaded.
    Load,
    /// Image towers.
    Vision,
    /// The decoder over the prompt.
    Prefill,
    /// The decoder over one token per sequence and step.
    Decode,
    /// Prefill of some requests during decode of others.
    Mixed,
    /// Something else; its name says what.
    Other,
}

impl RunPhase {
    /// The name used in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Vision => "vision",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
            Self::Other => "other",
        }
    }

    /// The phase of theory that counts its operators; none for those that theory does not count by themselves.
    pub fn counted(self) -> Option<Phase> {
        match self {
            Self::Vision => Some(Phase::Vision),
            Self::Prefill => Some(Phase::Prefill),
            Self::Decode => Some(Phase::Decode),
            Self::Load | Self::Mixed | Self::Other => None,
        }
    }
}

impl std::fmt::Display for RunPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A stretch of a pass that belongs to one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseSpan {
    /// The phase.
    pub phase: RunPhase,
    /// When it began.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// What the decoder did in it, in order. Empty is what the workload says for the phase: all of its prefill, or all of
    /// its decode steps. A generation that stopped early must say how many steps it took, or the others are missed.
    #[serde(default)]
    pub passes: Vec<PassShape>,
}

/// Equal steps of the decoder, as [`Pass`] without its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassShape {
    /// Sequences.
    pub batch: u64,
    /// New tokens per sequence and step.
    pub queries: u64,
    /// Tokens per sequence in the cache before the first step.
    pub past: u64,
    /// Number of steps.
    pub steps: u64,
    /// Positions per sequence and step whose logits are computed.
    pub logits: u64,
}

impl PassShape {
    /// The pass of theory.
    pub fn pass(self, phase: Phase) -> Pass {
        Pass {
            phase,
            batch: self.batch,
            queries: self.queries,
            past: self.past,
            steps: self.steps,
            logits: self.logits,
        }
    }
}

/// One call of an operator: an interval of the coordinating thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorEvent {
    /// Index in [`MeasuredRun::operators`].
    pub operator: u32,
    /// Size of the call, as theory states it.
    pub shape: Shape,
    /// For experts: how many distinct ones the tokens reached.
    #[serde(default)]
    pub touched: Option<u32>,
    /// When it began.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
}

/// Something with a name that the host did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInterval {
    /// What it did: `sampling`.
    pub name: String,
    /// When it began.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
}

/// When one request began and when its tokens came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFacts {
    /// Its name in per-request rows.
    pub id: String,
    /// When it was handed to the engine.
    pub start_ns: i64,
    /// When each of its tokens was there, in order. A server that sends several at once gives fewer times than tokens.
    pub token_ns: Vec<i64>,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub output_tokens: u64,
    /// Sequences that ran together with it, itself included.
    pub batch: u64,
}
