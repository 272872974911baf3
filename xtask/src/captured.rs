//! Predictions beside measured decode steps with a static KV cache: captured as CUDA graphs, or compiled by Inductor.

use llmprof_units::Nanos;
use serde::Deserialize;

use llmprof_predict::{
    EfficiencyProfile, Implementation, Prediction, PredictionInterval, Predictor,
};
use llmprof_theory::{
    COMMON_KEYS, Phase, Workload,
    device::{Catalog, Device},
};

use crate::grade::{Design, Grade, designs};

/// The designs of `times.json` again, on the same H200; TPOT without a profiler.
const CELLS: &str = include_str!("../../fixtures/h200/kernels/decode.json");

#[derive(Deserialize)]
struct CapturedCells {
    cells: Vec<CapturedCell>,
}

#[derive(Deserialize)]
struct CapturedCell {
    how: CaptureMode,
    model: String,
    batch: u64,
    prompt: u64,
    positions: u64,
    prefill_ns: Nanos,
    prefill_kernels: u64,
    decode_step_ns: Nanos,
    decode_kernels: u64,
    tpot_ns: Nanos,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum CaptureMode {
    Graph,
    Compile,
}

/// Predicted GPU times of prefill and decode steps, and TPOT, beside what was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapturedGrades {
    pub gpu: Vec<Grade>,
    pub tpot: Vec<Grade>,
}

/// The measured steps of `hf_graph` or `torch_compile`; empty for other profiles.
pub fn captured_grades(profile: &EfficiencyProfile) -> Result<CapturedGrades, serde_json::Error> {
    let how = match profile.implementation {
        Some(Implementation::HfGraph) => CaptureMode::Graph,
        Some(Implementation::TorchCompile) => CaptureMode::Compile,
        _ => return Ok(CapturedGrades::default()),
    };
    let Ok(device) = Catalog::embedded().by_name("h200") else {
        return Ok(CapturedGrades::default());
    };
    let measured: CapturedCells = serde_json::from_str(CELLS)?;
    let mut grades = CapturedGrades::default();
    for design in designs()? {
        let of = |cell: &&CapturedCell| cell.how == how && cell.model == design.name;
        for cell in measured.cells.iter().filter(of) {
            grade_cell(&mut grades, &design, cell, &device, profile);
        }
    }
    Ok(grades)
}

fn grade_cell(
    grades: &mut CapturedGrades,
    design: &Design,
    cell: &CapturedCell,
    device: &Device,
    profile: &EfficiencyProfile,
) {
    let workload = Workload {
        batch: cell.batch,
        prompt: cell.prompt,
        // The cache had room for this many tokens.
        new_tokens: cell.positions - cell.prompt,
        routing: design.routing(cell.batch, cell.prompt),
        ..Workload::default()
    };
    let Ok(prediction) = Predictor::new(&design.model, device, profile).predict(&workload) else {
        return;
    };
    let grade = |phase: Phase,
                 measured: Nanos,
                 predicted: Nanos,
                 interval: Option<PredictionInterval>| Grade {
        model: design.name.clone(),
        family: design.model.family.to_owned(),
        by_common_keys: design.model.family == COMMON_KEYS,
        split: design.split,
        list: None,
        phase,
        batch: cell.batch,
        prompt: cell.prompt,
        measured_ns: measured,
        predicted_ns: predicted,
        low_ns: interval.map_or(Nanos(0), |interval| interval.low_ns),
        high_ns: interval.map_or(Nanos(0), |interval| interval.high_ns),
        measured_kernels: kernels(cell, phase),
        predicted_kernels: predicted_kernels(&prediction, phase),
        roofline_ns: roofline(&prediction, phase),
    };
    grades.gpu.push(grade(
        Phase::Prefill,
        cell.prefill_ns,
        prediction.prefill_gpu_ns,
        prediction.prefill_gpu_interval,
    ));
    grades.gpu.push(grade(
        Phase::Decode,
        cell.decode_step_ns,
        prediction.decode_step_gpu_ns,
        prediction.decode_step_gpu_interval,
    ));
    if let Some(tpot) = prediction.tpot_ns {
        grades.tpot.push(grade(
            Phase::Decode,
            cell.tpot_ns,
            tpot,
            prediction.tpot_interval,
        ));
    }
}

fn kernels(cell: &CapturedCell, phase: Phase) -> u64 {
    match phase {
        Phase::Prefill => cell.prefill_kernels,
        _ => cell.decode_kernels,
    }
}

fn predicted_kernels(prediction: &Prediction, phase: Phase) -> u64 {
    match phase {
        Phase::Prefill => prediction.prefill.kernels,
        _ => prediction.decode_step.kernels,
    }
}

fn roofline(prediction: &Prediction, phase: Phase) -> Nanos {
    match phase {
        Phase::Prefill => prediction.prefill.roofline_ns,
        _ => prediction.decode_step.roofline_ns,
    }
}
