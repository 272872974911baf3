//! The error of a prediction where the truth is known.

use llmprof_units::{Nanos, stats::upper_median};
use serde::{Deserialize, Serialize};

use llmprof_predict::{EfficiencyProfile, Predictor};
use llmprof_theory::{Model, Workload, device::Catalog};

/// Device times on an H200: sums over the kernels of one prefill or decode step, for three models, batches of 1 to 32 and
/// prompts of 128 to 4096 tokens (torch 2.11, transformers 5.17, eager, SDPA, bf16, random weights).
const TIMES: &str = include_str!("../../fixtures/h200/device_times.json");

/// The designs of the models in it.
const DESIGNS: &[(&str, &str)] = &[
    (
        "qwen2_5_0_5b",
        include_str!("../../crates/theory/tests/data/models/qwen2_5_0_5b.json"),
    ),
    (
        "qwen2_5_7b",
        include_str!("../../crates/theory/tests/data/models/qwen2_5_7b.json"),
    ),
    (
        "llama3_1_8b",
        include_str!("../../crates/theory/tests/data/models/llama3_1_8b.json"),
    ),
];

/// The point whose two times `hf_eager` was fitted to: an error there says nothing about other points.
const FITTED: (&str, u64, u64) = ("qwen2_5_0_5b", 1, 128);

#[derive(Deserialize)]
struct MeasuredRows {
    rows: Vec<MeasuredRow>,
}

#[derive(Deserialize)]
struct MeasuredRow {
    model: String,
    batch: u64,
    prompt: u64,
    prefill_ns: Nanos,
    /// Times of three successive decode steps, the first right after the prompt.
    decode_step_ns: Vec<Nanos>,
}

/// A predicted time and the measured one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeComparison {
    pub what: String,
    /// Whether the efficiencies were fitted to this very figure.
    pub fitted: bool,
    /// The least time that any software needs.
    pub roofline_ns: Nanos,
    /// What the profile predicts for the device.
    pub predicted_ns: Nanos,
    pub measured_ns: Nanos,
    /// Predicted ÷ measured − 1.
    pub error: f64,
}

/// The errors of some comparisons together, fitted ones left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorSummary {
    pub figures: usize,
    pub mean: f64,
    /// The largest error, with its sign.
    pub worst: f64,
    pub worst_at: String,
}

/// What `profile` predicts for what was measured. Only a profile of eager mode describes what ran there; for others the
/// difference is a statement about fusion, not an error.
pub fn fixture_comparison(profile: &EfficiencyProfile) -> Vec<TimeComparison> {
    let Ok(device) = Catalog::embedded().by_name("h200") else {
        return Vec::new();
    };
    let times: MeasuredRows =
        serde_json::from_str(TIMES).unwrap_or(MeasuredRows { rows: Vec::new() });
    let mut comparisons = Vec::new();
    for (name, design) in DESIGNS {
        let design = serde_json::from_str(design).unwrap_or_default();
        let Ok(model) = Model::from_config(&design, None) else {
            continue;
        };
        let predictor = Predictor::new(&model, &device, profile);
        for row in times.rows.iter().filter(|row| row.model == *name) {
            let workload = Workload {
                batch: row.batch,
                prompt: row.prompt,
                new_tokens: 2,
                ..Workload::default()
            };
            let Ok(prediction) = predictor.predict(&workload) else {
                continue;
            };
            let mut steps = row.decode_step_ns.clone();
            let median = upper_median(&mut steps).unwrap_or_default();
            for (phase, predicted, measured_ns) in [
                ("prefill", prediction.prefill, row.prefill_ns),
                ("decode step", prediction.decode_step, median),
            ] {
                comparisons.push(TimeComparison {
                    what: format!(
                        "{phase}, {name}, batch {}, prompt {}, H200",
                        row.batch, row.prompt
                    ),
                    fitted: (*name, row.batch, row.prompt) == FITTED,
                    roofline_ns: predicted.roofline_ns,
                    predicted_ns: predicted.device_ns,
                    measured_ns,
                    error: predicted.device_ns.seconds() / measured_ns.seconds() - 1.0,
                });
            }
        }
    }
    comparisons
}

/// The errors of `comparisons` together; `None` where there are none that were not fitted.
pub fn error_summary(comparisons: &[TimeComparison]) -> Option<ErrorSummary> {
    let honest: Vec<_> = comparisons.iter().filter(|known| !known.fitted).collect();
    let worst = honest
        .iter()
        .max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()))?;
    let total: f64 = honest.iter().map(|known| known.error.abs()).sum();
    Some(ErrorSummary {
        figures: honest.len(),
        mean: total / honest.len() as f64,
        worst: worst.error,
        worst_at: worst.what.clone(),
    })
}
