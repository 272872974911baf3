//! Predictions beside measured GPU times of many models, split beforehand into those that curves may be fitted to and those
//! that only grade them.

use llmprof_units::{Nanos, stats::percentile};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use llmprof_predict::{EfficiencyProfile, Predictor};
use llmprof_theory::{
    COMMON_KEYS, Model, Phase, Routing, Workload,
    device::{Catalog, Device},
};

use crate::alike::random_routing;

/// GPU times of prefill and decode steps on an H200: sums over kernels, bf16, random weights, real widths with fewer layers.
const TIMES: &str = include_str!("../../fixtures/h200/kernels/times.json");

/// The same of other models, which were chosen before anything was predicted of them and measured later.
const BLIND: &str = include_str!("../../fixtures/h200/kernels/blind.json");

/// What a model's measurements may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataSplit {
    /// Curves and spreads may be fitted to it.
    Calibration,
    /// Nothing is fitted to it.
    Grading,
}

impl DataSplit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Calibration => "calibration",
            Self::Grading => "grading",
        }
    }
}

#[derive(Deserialize)]
struct MeasuredModels {
    /// Token ids that prompts were drawn from; absent where from the whole vocabulary.
    token_kinds: Option<u64>,
    models: Vec<MeasuredModel>,
}

#[derive(Deserialize)]
struct MeasuredModel {
    model: String,
    split: DataSplit,
    /// Which list of blind models it is in.
    list: Option<String>,
    model_type: String,
    /// Attention code that was chosen in place of the default; no family knows its kernels.
    attn_implementation: Option<String>,
    config: Map<String, Value>,
    cells: Vec<GradedCell>,
}

#[derive(Deserialize)]
struct GradedCell {
    batch: u64,
    prompt: u64,
    prefill_ns: Nanos,
    prefill_kernels: u64,
    /// Of these, clears of workspaces, split-K reductions and the inner passes of sorts, which come with other kernels.
    prefill_helpers: u64,
    /// The first step after the prompt, and the second.
    decode_step_ns: Vec<Nanos>,
    decode_kernels: u64,
    decode_helpers: u64,
}

/// A predicted time and the measured one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grade {
    pub model: String,
    /// The `model_type` of its config.
    pub family: String,
    /// Whether only the common keys of its config were read.
    pub by_common_keys: bool,
    pub split: DataSplit,
    /// Which list of blind models it is in.
    pub list: Option<String>,
    pub phase: Phase,
    pub batch: u64,
    pub prompt: u64,
    pub measured_ns: Nanos,
    pub predicted_ns: Nanos,
    pub low_ns: Nanos,
    pub high_ns: Nanos,
    /// Without clears of workspaces, split-K reductions and inner passes of sorts.
    pub measured_kernels: u64,
    pub predicted_kernels: u64,
    /// The least time that any software needs.
    pub roofline_ns: Nanos,
}

impl Grade {
    /// Predicted ÷ measured − 1.
    pub fn error(&self) -> f64 {
        self.predicted_ns.seconds() / self.measured_ns.seconds() - 1.0
    }

    /// Whether the interval holds what was measured.
    pub fn covered(&self) -> bool {
        (self.low_ns..=self.high_ns).contains(&self.measured_ns)
    }
}

/// Errors of some grades together; shares, not percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GradeSummary {
    pub times: usize,
    /// Median of the absolute errors.
    pub median: f64,
    pub p90: f64,
    /// The error furthest from zero, with its sign.
    pub worst: f64,
    /// Median error with its sign.
    pub bias: f64,
    /// Share of measured times inside their interval.
    pub coverage: f64,
    /// Median half-width of intervals ÷ predicted time.
    pub half_width: f64,
    /// 5th and 95th percentile of measured ÷ predicted.
    pub low: f64,
    pub high: f64,
}

pub(crate) struct Design {
    pub(crate) name: String,
    pub(crate) split: DataSplit,
    pub(crate) token_kinds: Option<u64>,
    pub(crate) model: Model,
}

impl Design {
    /// Experts that its random weights reach.
    pub(crate) fn routing(&self, batch: u64, prompt: u64) -> Routing {
        random_routing(&self.model, self.token_kinds, batch, prompt)
    }
}

/// The measured models, by family where one reads the config, else by its common keys.
pub(crate) fn designs() -> Result<Vec<Design>, serde_json::Error> {
    let times: MeasuredModels = serde_json::from_str(TIMES)?;
    let token_kinds = times.token_kinds;
    let design = |measured: MeasuredModel| {
        Some(Design {
            model: model(measured.config, &measured.model_type)?,
            name: measured.model,
            split: measured.split,
            token_kinds,
        })
    };
    Ok(times.models.into_iter().filter_map(design).collect())
}

fn model(mut config: Map<String, Value>, model_type: &str) -> Option<Model> {
    config.insert("model_type".to_owned(), model_type.into());
    config.insert("dtype".to_owned(), "bfloat16".into());
    let config = Value::Object(config);
    let known = Model::from_config(&config, None);
    known.or_else(|_| Model::from_common_keys(&config)).ok()
}

/// Predicts every measured time, by family where one reads the config, else by its common keys.
pub fn grades(profile: &EfficiencyProfile) -> Result<Vec<Grade>, serde_json::Error> {
    let Ok(device) = Catalog::embedded().by_name("h200") else {
        return Ok(Vec::new());
    };
    grades_on(&device, profile)
}

/// The same with another description of the H200.
pub fn grades_on(
    device: &Device,
    profile: &EfficiencyProfile,
) -> Result<Vec<Grade>, serde_json::Error> {
    let times = serde_json::from_str(TIMES)?;
    Ok(graded(times, device, profile))
}

/// Predicts what was measured of the blind models, with tokens as a user's: routing is uniform.
pub fn blind_grades(profile: &EfficiencyProfile) -> Result<Vec<Grade>, serde_json::Error> {
    let Ok(device) = Catalog::embedded().by_name("h200") else {
        return Ok(Vec::new());
    };
    let times = serde_json::from_str(BLIND)?;
    Ok(graded(times, &device, profile))
}

fn graded(times: MeasuredModels, device: &Device, profile: &EfficiencyProfile) -> Vec<Grade> {
    let token_kinds = times.token_kinds;
    let mut grades = Vec::new();
    let known = |measured: &MeasuredModel| measured.attn_implementation.is_none();
    for measured in times.models.into_iter().filter(known) {
        let Some(model) = model(measured.config, &measured.model_type) else {
            continue;
        };
        let predictor = Predictor::new(&model, device, profile);
        for cell in &measured.cells {
            let workload = Workload {
                batch: cell.batch,
                prompt: cell.prompt,
                new_tokens: 2,
                routing: random_routing(&model, token_kinds, cell.batch, cell.prompt),
                ..Workload::default()
            };
            let Ok(prediction) = predictor.predict(&workload) else {
                continue;
            };
            let decode_ns = cell.decode_step_ns.first().copied().unwrap_or_default();
            for (phase, measured_ns, measured_kernels, predicted, interval) in [
                (
                    Phase::Prefill,
                    cell.prefill_ns,
                    cell.prefill_kernels.saturating_sub(cell.prefill_helpers),
                    prediction.prefill,
                    prediction.prefill_gpu_interval,
                ),
                (
                    Phase::Decode,
                    decode_ns,
                    cell.decode_kernels.saturating_sub(cell.decode_helpers),
                    prediction.decode_step,
                    prediction.decode_step_gpu_interval,
                ),
            ] {
                grades.push(Grade {
                    model: measured.model.clone(),
                    family: measured.model_type.clone(),
                    by_common_keys: model.family == COMMON_KEYS,
                    split: measured.split,
                    list: measured.list.clone(),
                    phase,
                    batch: cell.batch,
                    prompt: cell.prompt,
                    measured_ns,
                    predicted_ns: predicted.device_ns,
                    low_ns: interval.map_or(Nanos(0), |interval| interval.low_ns),
                    high_ns: interval.map_or(Nanos(0), |interval| interval.high_ns),
                    measured_kernels,
                    predicted_kernels: predicted.kernels,
                    roofline_ns: predicted.roofline_ns,
                });
            }
        }
    }
    grades
}

/// The errors of `grades` together; `None` where there are none.
pub fn summarize(grades: &[&Grade]) -> Option<GradeSummary> {
    let mut signed: Vec<f64> = grades.iter().map(|grade| grade.error()).collect();
    signed.sort_by(f64::total_cmp);
    let mut absolute: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
    absolute.sort_by(f64::total_cmp);
    let mut ratios: Vec<f64> = signed.iter().map(|error| 1.0 / (1.0 + error)).collect();
    ratios.sort_by(f64::total_cmp);
    let mut widths: Vec<f64> = grades
        .iter()
        .map(|grade| {
            (grade.high_ns.seconds() - grade.low_ns.seconds()) / 2.0 / grade.predicted_ns.seconds()
        })
        .collect();
    widths.sort_by(f64::total_cmp);
    let worst = grades
        .iter()
        .map(|grade| grade.error())
        .max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    let covered = grades.iter().filter(|grade| grade.covered()).count();
    Some(GradeSummary {
        times: grades.len(),
        median: percentile(&absolute, 0.5),
        p90: percentile(&absolute, 0.9),
        worst,
        bias: percentile(&signed, 0.5),
        coverage: covered as f64 / grades.len() as f64,
        half_width: percentile(&widths, 0.5),
        low: percentile(&ratios, 0.05),
        high: percentile(&ratios, 0.95),
    })
}
