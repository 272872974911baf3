//! Measured cells predicted from other measured cells: what a run says of others.

use std::collections::BTreeMap;

use llmprof_predict::{EfficiencyProfile, MeasuredRun, MeasuredStep, Prediction, Predictor};
use llmprof_theory::{
    COMMON_KEYS, Workload,
    device::{Catalog, Device},
};
use serde::Serialize;

use crate::grade::{DataSplit, Design, designs};

/// One cell predicted from another of the same model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says another thing of a pair"
)]
pub struct Pair {
    pub model: String,
    /// Whether curves may be fitted to the model.
    pub calibration: bool,
    pub by_common_keys: bool,
    pub decode: bool,
    /// Batch and prompt of the run, and of what is predicted.
    pub from: [u64; 2],
    pub to: [u64; 2],
    /// Predicted ÷ measured − 1, without and with the run.
    pub plain_error: f64,
    pub error: f64,
    pub covered: bool,
}

const PARTS: &str = include_str!("../../fixtures/h200/kernels/parts.json");

/// Batch, prompt, and ns of GEMMs and attention and of all other kernels, in prefill and in the first decode step.
type Cell = (u64, u64, [f64; 2], [f64; 2]);

/// Every measured cell of the shipped models predicted from every other cell of the same model.
pub fn pairs(profile: &EfficiencyProfile) -> Result<Vec<Pair>, serde_json::Error> {
    let Ok(device) = Catalog::embedded().by_name("h200") else {
        return Ok(Vec::new());
    };
    pairs_on(&device, profile)
}

/// The same with another description of the H200.
pub fn pairs_on(
    device: &Device,
    profile: &EfficiencyProfile,
) -> Result<Vec<Pair>, serde_json::Error> {
    let known = measured_designs()?;
    let same = known.iter().map(|one| (one, one));
    Ok(same
        .flat_map(|(from, to)| compared(from, to, device, profile))
        .collect())
}

/// Every measured cell predicted from every cell of the other models of its family.
pub fn design_pairs(profile: &EfficiencyProfile) -> Result<Vec<Pair>, serde_json::Error> {
    let Ok(device) = Catalog::embedded().by_name("h200") else {
        return Ok(Vec::new());
    };
    let known = measured_designs()?;
    let mut all_pairs = Vec::new();
    for (from, to) in known
        .iter()
        .flat_map(|from| known.iter().map(move |to| (from, to)))
    {
        let family = from.0.model.family;
        if family == to.0.model.family && family != COMMON_KEYS && from.0.name != to.0.name {
            all_pairs.extend(compared(from, to, &device, profile));
        }
    }
    Ok(all_pairs)
}

/// The measured models with their cells.
fn measured_designs() -> Result<Vec<(Design, Vec<Cell>)>, serde_json::Error> {
    let mut parts: BTreeMap<String, Vec<Cell>> = serde_json::from_str(PARTS)?;
    let designs = designs()?.into_iter();
    Ok(designs
        .filter_map(|design| {
            let cells = parts.remove(&design.name)?;
            Some((design, cells))
        })
        .collect())
}

/// Cells of `to` predicted from cells of `from`, but for the cell itself.
fn compared(
    (from, runs): &(Design, Vec<Cell>),
    (to, cells): &(Design, Vec<Cell>),
    device: &Device,
    profile: &EfficiencyProfile,
) -> Vec<Pair> {
    let mut all_pairs = Vec::new();
    let (of_run, plain) = (
        Predictor::new(&from.model, device, profile),
        Predictor::new(&to.model, device, profile),
    );
    for run in runs {
        let Ok(corrections) = of_run.measure_corrections(&measured(run, from)) else {
            continue;
        };
        let corrected = plain.clone().with_corrections(corrections);
        let is_other = |cell: &&Cell| from.name != to.name || cell.0 != run.0 || cell.1 != run.1;
        for cell in cells.iter().filter(is_other) {
            let workload = measured(cell, to).workload;
            if let (Ok(plain), Ok(corrected)) =
                (plain.predict(&workload), corrected.predict(&workload))
            {
                all_pairs.extend([false, true].map(|decode| Pair {
                    from: [run.0, run.1],
                    ..pair(to, cell, decode, [&plain, &corrected])
                }));
            }
        }
    }
    all_pairs
}

fn pair(design: &Design, cell: &Cell, decode: bool, [plain, corrected]: [&Prediction; 2]) -> Pair {
    let truth: f64 = if decode { cell.3 } else { cell.2 }.iter().sum();
    let time = |prediction: &Prediction| {
        if decode {
            (
                prediction.decode_step_gpu_ns,
                prediction.decode_step_gpu_interval,
            )
        } else {
            (prediction.prefill_gpu_ns, prediction.prefill_gpu_interval)
        }
    };
    let (ns, interval) = time(corrected);
    Pair {
        model: design.name.clone(),
        calibration: design.split == DataSplit::Calibration,
        by_common_keys: design.model.family == COMMON_KEYS,
        decode,
        from: [cell.0, cell.1],
        to: [cell.0, cell.1],
        plain_error: time(plain).0.0 as f64 / truth - 1.0,
        error: ns.0 as f64 / truth - 1.0,
        covered: interval.is_some_and(|interval| {
            (interval.low_ns.0 as f64..=interval.high_ns.0 as f64).contains(&truth)
        }),
    }
}

fn measured(cell: &Cell, design: &Design) -> MeasuredRun {
    let step = |[matrix, other]: [f64; 2]| MeasuredStep {
        device_ns: matrix + other,
        other_ns: Some(other),
        wall_ns: None,
    };
    MeasuredRun {
        workload: Workload {
            batch: cell.0,
            prompt: cell.1,
            new_tokens: 2,
            routing: design.routing(cell.0, cell.1),
            ..Workload::default()
        },
        prefill: Some(step(cell.2)),
        decode_step: Some(step(cell.3)),
    }
}
