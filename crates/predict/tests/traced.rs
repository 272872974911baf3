//! Models that no family knows, predicted from their traced kernels, beside GPU times on an H200 (fixtures/h200/kernels/traced.json).
//! No curve was fitted to any of them but Falcon, whose kernels are left out of the fit.

use std::collections::BTreeMap;

use llmprof_predict::{EfficiencyProfile, PredictError, predict_traced};
use llmprof_theory::{Workload, kernels::TracedModel};
use llmprof_units::stats::percentile;
use serde::Deserialize;

use crate::support::embedded_device;

#[derive(Deserialize)]
struct Row {
    model: String,
    batch: u64,
    prompt: u64,
    prefill_ns: f64,
    decode_step_ns: f64,
    traced: TracedModel,
}

fn rows() -> Vec<Row> {
    let text = include_str!("../../../fixtures/h200/kernels/traced.json");
    serde_json::from_str(text).expect("the fixture has this form")
}

fn workload(row: &Row) -> Workload {
    Workload {
        batch: row.batch,
        prompt: row.prompt,
        new_tokens: 2,
        ..Workload::default()
    }
}

#[test]
fn traced_kernels_predict_times_of_unknown_models() {
    let device = embedded_device("h200");
    let profile = EfficiencyProfile::embedded("hf_eager").expect("it is embedded");
    let mut errors: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let rows = rows();
    for row in &rows {
        let prediction = predict_traced(&row.traced, &device, &profile, &workload(row))
            .expect("a GPU with its curves");
        let errors = errors.entry(&row.model).or_default();
        for (phase, predicted, measured) in [
            ("prefill", prediction.prefill_gpu_ns, row.prefill_ns),
            ("decode", prediction.decode_step_gpu_ns, row.decode_step_ns),
        ] {
            let error = predicted.0 as f64 / measured - 1.0;
            println!(
                "{} {phase} batch {} prompt {}: {:+.1} %",
                row.model,
                row.batch,
                row.prompt,
                error * 100.0
            );
            errors.push(error.abs());
        }
        assert!(prediction.memory.weights_bytes.0 > 0);
        assert!(prediction.prefill.roofline_ns <= prediction.prefill.device_ns);
    }
    let mut all: Vec<f64> = errors.values().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let (median, p90) = (percentile(&all, 0.5), percentile(&all, 0.9));
    println!("{} times: median {median:.3}, p90 {p90:.3}", all.len());
    assert!(median < 0.06 && p90 < 0.17, "{median} {p90}");
}

#[test]
fn traced_models_need_a_gpu_and_eager_mode() {
    let rows = rows();
    let row = &rows[0];
    let eager = EfficiencyProfile::embedded("hf_eager").expect("it is embedded");
    let fused = EfficiencyProfile::embedded("fused").expect("it is embedded");
    for (device, profile) in [("xeon_8480", &eager), ("h200", &fused)] {
        let device = embedded_device(device);
        let error = predict_traced(&row.traced, &device, profile, &workload(row)).unwrap_err();
        assert_eq!(error, PredictError::NeedsKernels);
    }
}
