//! Advice: what `llmprof predict --advise` prints.

mod sentences;

use llmprof_predict::{PhasePrediction, Prediction, PredictionInterval, PredictionTarget};
use llmprof_theory::{Workload, roofline::Resource};
use llmprof_units::{Bytes, Nanos, format_significant};
use schemars::JsonSchema;
use serde::Serialize;

use self::sentences as text;
use crate::{Document, Table};

/// What a request is predicted to take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictedFigures {
    /// Time to first token.
    pub ttft_ns: Nanos,
    /// Time per output token after the first.
    pub tpot_ns: Option<Nanos>,
    /// Output tokens per second.
    pub tokens_per_s: f64,
    /// Ends of the 90 % interval of the tokens per second; absent where the prediction has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s_low: Option<f64>,
    /// Upper end of the 90 % interval of `tokens_per_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s_high: Option<f64>,
    /// Weights and KV cache, of one device where several share the model.
    pub memory_bytes: u64,
    /// Whether weights and KV cache fit into memory; null where its size is not known.
    pub fits: Option<bool>,
    /// Parameters of the model.
    pub parameters: u64,
    /// Devices that share the model.
    pub devices: u64,
    /// Whether the host decides the time of prefill and decode.
    #[serde(skip)]
    pub is_host_bound: bool,
    /// Sequences that run at once.
    #[serde(skip)]
    pub batch: u64,
}

impl PredictedFigures {
    pub fn from_prediction(prediction: &Prediction, workload: &Workload, parameters: u64) -> Self {
        let by_host = |phase: PhasePrediction| phase.binds == Resource::Host;
        // The interval of the whole: prefill and all decode steps at their ends.
        let steps = workload.new_tokens.saturating_sub(1) as f64;
        let whole = |end: fn(&PredictionInterval) -> Nanos| {
            let first = end(&prediction.ttft_interval?).seconds();
            let decode = match prediction.tpot_interval {
                Some(interval) => end(&interval).seconds() * steps,
                None if steps > 0.0 => return None,
                None => 0.0,
            };
            Some(
                prediction.tokens_per_s * prediction.total_ns.seconds()
                    / (first + decode).max(1e-12),
            )
        };
        Self {
            tokens_per_s_low: whole(|interval| interval.high_ns),
            tokens_per_s_high: whole(|interval| interval.low_ns),
            ttft_ns: prediction.ttft_ns,
            tpot_ns: prediction.tpot_ns,
            tokens_per_s: prediction.tokens_per_s,
            memory_bytes: prediction.memory.needed_bytes.0,
            fits: prediction.memory.fits,
            parameters,
            devices: workload.parallel.rank_count(),
            is_host_bound: by_host(prediction.prefill) && prediction.decode.is_none_or(by_host),
            batch: workload.batch,
        }
    }

    /// The 90 % interval of the speedup over `before`.
    ///
    /// Independent errors add in quadrature, in logarithms. On the same host with the same software, `is_same_host`, the error of the
    /// host's time is that of both and cancels. More sequences take no less time: a larger batch gains at most its factor.
    pub fn speedup_interval(
        &self,
        before: &Self,
        speedup: f64,
        is_same_host: bool,
    ) -> Option<[f64; 2]> {
        let widths = |figures: &Self| {
            let middle = figures.tokens_per_s;
            let low = (middle / figures.tokens_per_s_low?).ln();
            let high = (figures.tokens_per_s_high? / middle).ln();
            Some([low, high])
        };
        let ([low, high], [new_low, new_high]) = (widths(before)?, widths(self)?);
        if is_same_host && before.is_host_bound && self.is_host_bound {
            let ends = [low - new_low, new_high - high, 0.0];
            let least = ends.into_iter().fold(0.0, f64::min);
            let most = ends.into_iter().fold(0.0, f64::max);
            return Some([
                speedup * least.exp(),
                self.bounded(before, speedup * most.exp()),
            ]);
        }
        Some([
            speedup * (-high.hypot(new_low)).exp(),
            self.bounded(before, speedup * low.hypot(new_high).exp()),
        ])
    }

    /// A speedup that a larger batch alone can bring.
    fn bounded(&self, before: &Self, speedup: f64) -> f64 {
        if self.batch > before.batch {
            speedup.min(self.batch as f64 / before.batch.max(1) as f64)
        } else {
            speedup
        }
    }

    /// Whether times are within those that the user wants; `None` without any.
    pub fn meets_target(&self, target: &PredictionTarget) -> Option<bool> {
        let ttft = target.ttft_ns.map(|most| self.ttft_ns <= most);
        let tpot = target.tpot_ns.zip(self.tpot_ns);
        let tpot = tpot.map(|(most, time)| time <= most);
        match (ttft, tpot) {
            (None, None) => None,
            _ => Some(ttft != Some(false) && tpot != Some(false)),
        }
    }
}

/// What an advised change alters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdvisedChange {
    CudaGraph,
    Fusion,
    AttentionBackend,
    Batch,
    KvDtype,
    Weights,
    TensorParallel,
    Device,
    KvHeads,
    HeadSize,
    Widths,
    Experts,
}

impl AdvisedChange {
    /// As it is serialized.
    pub fn name(self) -> &'static str {
        match self {
            Self::CudaGraph => "cuda_graph",
            Self::Fusion => "fusion",
            Self::AttentionBackend => "attention_backend",
            Self::Batch => "batch",
            Self::KvDtype => "kv_dtype",
            Self::Weights => "weights",
            Self::TensorParallel => "tensor_parallel",
            Self::Device => "device",
            Self::KvHeads => "kv_heads",
            Self::HeadSize => "head_size",
            Self::Widths => "widths",
            Self::Experts => "experts",
        }
    }

    /// Whether it edits the model.
    pub fn is_design(self) -> bool {
        matches!(
            self,
            Self::KvHeads | Self::HeadSize | Self::Widths | Self::Experts
        )
    }
}

/// A change with its prediction.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChangeAdvice {
    /// Kind of the change.
    pub code: AdvisedChange,
    /// In the order they are given after the request's own.
    pub overrides: Vec<String>,
    /// Tokens per second ÷ those of the request.
    pub speedup: f64,
    /// Ends of its 90 % interval, where both predictions have one and their errors are independent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup_low: Option<f64>,
    /// Upper end of the 90 % interval of `speedup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup_high: Option<f64>,
    /// What is predicted with the change.
    pub figures: PredictedFigures,
    /// Overrides of other changes of the kind with the same prediction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<Vec<String>>,
    /// Whether `--ttft` and `--tpot` are met; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meets_target: Option<bool>,
    /// Whether `llmprof run` accepts the request with these overrides.
    pub runs: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct Advised {
    /// Always `predicted`.
    pub basis: &'static str,
    /// Name of the model.
    pub model: String,
    /// Name of the device.
    pub device: String,
    /// Profile of efficiencies that was used.
    pub efficiencies: String,
    /// What is predicted for the request as it is.
    pub request: PredictedFigures,
    /// Changes, the largest speedup first.
    pub advice: Vec<ChangeAdvice>,
    /// Changes that compose and gain too little.
    pub left_out: usize,
    /// Measured outcome of the best change, with `--try`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
}

/// What was predicted of a change beside what was measured.
#[derive(Serialize, JsonSchema)]
pub struct Tried {
    /// Overrides of the change.
    pub overrides: Vec<String>,
    /// Predicted speedup of the change.
    pub predicted_speedup: f64,
    /// Tokens per second of the change ÷ those of the request; absent where a run has none.
    pub measured_speedup: Option<f64>,
    /// Of its 95 % interval, where both sides did the same work.
    pub ci_low: Option<f64>,
    /// Upper end of the 95 % confidence interval of the measured speedup.
    pub ci_high: Option<f64>,
    /// Tokens per second as measured.
    pub request_tokens_per_s: Option<f64>,
    /// Measured output tokens per second with the change.
    pub change_tokens_per_s: Option<f64>,
    /// Directory of the comparison.
    pub comparison: String,
}

pub fn document(advised: &Advised) -> Document {
    let mut document = Document::new(text::TITLE);
    document.subtitle = text::subtitle(&advised.model, &advised.device, &advised.efficiencies);
    document.summary = summary(advised);
    let mut table = Table::new(&text::COLUMNS, 3);
    for advice in &advised.advice {
        table.row(cells(advice, &advised.request));
    }
    let section = document.section("advice", "Changes");
    // Without rows nothing is known of any column.
    section.table(if advised.advice.is_empty() {
        table
    } else {
        table.without_empty_columns()
    });
    section.list(notes(advised));
    document
}

fn cells(advice: &ChangeAdvice, before: &PredictedFigures) -> [String; 11] {
    let figures = &advice.figures;
    let interval = advice.speedup_low.zip(advice.speedup_high);
    [
        text::speedup(advice.speedup, interval.map(<[f64; 2]>::from)),
        text::change(advice.code.name()).to_owned(),
        text::overrides(&advice.overrides, &advice.alike),
        text::with_cost(figures.ttft_ns, before.ttft_ns),
        match figures.tpot_ns.zip(before.tpot_ns) {
            Some((after, before)) => text::with_cost(after, before),
            None => "–".to_owned(),
        },
        format_significant(figures.tokens_per_s),
        figures.devices.to_string(),
        Bytes(figures.memory_bytes).to_string(),
        text::fits(figures.fits),
        text::meets(advice.meets_target).to_owned(),
        text::runs(advice.runs).to_owned(),
    ]
}

fn summary(advised: &Advised) -> Vec<String> {
    let base = &advised.request;
    let best = advised.advice.first();
    let best = best.map(|best| (best.code.name(), best.overrides.as_slice(), best.speedup));
    let mut lines = vec![
        text::now(
            base.ttft_ns,
            base.tpot_ns,
            base.tokens_per_s,
            Bytes(base.memory_bytes),
            base.fits,
        ),
        text::best(best),
    ];
    lines.extend(advised.tried.as_ref().map(tried));
    lines
}

fn tried(tried: &Tried) -> String {
    let interval = tried.ci_low.zip(tried.ci_high);
    text::tried(
        &tried.overrides,
        tried.predicted_speedup,
        tried.measured_speedup,
        interval.map(<[f64; 2]>::from),
        &tried.comparison,
    )
}

fn notes(advised: &Advised) -> Vec<String> {
    let has_designs = advised.advice.iter().any(|advice| advice.code.is_design());
    // One reason stands for all changes that are refused for it.
    let mut refused: Vec<(String, &str)> = Vec::new();
    for advice in &advised.advice {
        let Some(why) = advice.refused.as_deref() else {
            continue;
        };
        if !refused.iter().any(|(_, known)| *known == why) {
            refused.push((advice.overrides.join(" "), why));
        }
    }
    text::notes(has_designs, &refused, advised.left_out)
}
