//! Everything that follows from a served load.

use llmprof_record::serving::ServerWindow;
use llmprof_traffic::{
    figures::LoadSummary,
    slo::{Latencies, Slo, TooFewValues},
    sweep::Sweep,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gpus::GpuUse;
use super::mean_parts::MeanParts;
use super::self_check::SelfCheck;
use super::steps::StepsUse;

/// A served load in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ServingAnalysis {
    #[serde(flatten)]
    pub summary: LoadSummary,
    /// Objectives and whether they are met.
    pub slos: Vec<SloOutcome>,
    /// Whether the client kept up.
    pub self_check: SelfCheck,
    /// Where the mean request's time went, of the requests that latencies are of.
    pub parts: Option<MeanParts>,
    /// The same of requests that the server's profiler recorded and slowed, split by its steps.
    pub profiled_parts: Option<MeanParts>,
    /// What the server's metrics say of the time of the load.
    pub server: Option<ServerUse>,
    /// Engine steps of the server's trace or recording.
    pub steps: Option<StepsUse>,
    /// GPUs of the client's machine.
    pub gpus: Vec<GpuUse>,
    /// The rates that were tried, where this load is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep<LoadSummary>>,
}

/// An objective, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SloOutcome {
    /// The objective as it was given.
    pub slo: String,
    /// The measured value of the objective, milliseconds; absent where nothing was measured.
    pub value_ms: Option<f64>,
    /// Whether the load meets the objective.
    pub is_met: bool,
    /// Where `value_ms` is absent, for a percentile of too few values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_few: Option<TooFewValues>,
}

impl SloOutcome {
    pub fn new(slo: &Slo, load: &impl Latencies) -> Self {
        Self {
            slo: slo.to_string(),
            value_ms: slo.value_of(load),
            is_met: slo.is_met(load),
            too_few: slo.too_few_values(load),
        }
    }
}

/// The server's own metrics over the time of the load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ServerUse {
    /// Name of the serving engine, as vLLM.
    pub family: String,
    #[serde(flatten)]
    pub window: ServerWindow,
    /// Largest share of the KV cache in use.
    pub kv_usage_max: Option<f64>,
    /// Most requests that ran at once.
    pub running_max: Option<f64>,
    /// Most requests that waited at once.
    pub waiting_max: Option<f64>,
}
