//! Predictions that start from a measured run: its times ÷ what is predicted of it correct every other prediction.
//!
//! Kernels are corrected in two groups, GEMMs and attention, and all others: libraries are tuned in the one, launches and memory
//! decide in the other. Prefill and decode have factors of their own. Where kernels are not costed one by one, and where a
//! run tells no groups apart, one factor corrects a whole phase.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{EfficiencyProfile, PredictError, Predictor, Split, Spread, grade::Design};
use llmprof_theory::{
    Routing, Workload,
    device::{Catalog, Device},
    kernels::{Kernel, KernelClass},
};

/// Factors beyond this are no correction: the run did something else.
const MOST: f64 = 10.0;

/// Times of one step, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredStep {
    /// Of all kernels.
    pub device_ns: f64,
    /// Of those beside GEMMs and attention, where the run tells them apart.
    pub other_ns: Option<f64>,
    /// Until the step was done, without a profiler.
    pub wall_ns: Option<f64>,
}

/// What was measured of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredRun {
    pub workload: Workload,
    pub prefill: Option<MeasuredStep>,
    /// The mean of its decode steps.
    pub decode_step: Option<MeasuredStep>,
}

/// Measured ÷ predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Factors {
    /// GEMMs and attention.
    pub matrix: f64,
    pub other: f64,
    /// Host time, where the host decided.
    pub host: f64,
}

impl Factors {
    const NONE: Self = Self {
        matrix: 1.0,
        other: 1.0,
        host: 1.0,
    };

    pub(super) fn of(&self, kernel: &Kernel) -> f64 {
        if is_matrix(kernel) {
            self.matrix
        } else {
            self.other
        }
    }
}

/// How a run corrects predictions of the same model, or of one like it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Corrections {
    pub prefill: Factors,
    pub decode: Factors,
    /// Measured ÷ predicted of other cells of calibration models on the H200, 5th and 95th percentile.
    pub(super) spread: Spread,
}

fn is_matrix(kernel: &Kernel) -> bool {
    matches!(
        kernel.class(),
        KernelClass::Gemm | KernelClass::GroupedGemm | KernelClass::Attention
    )
}

impl Predictor<'_> {
    /// What a run says of this model on this device.
    pub fn corrections(&self, run: &MeasuredRun) -> Result<Corrections, PredictError> {
        let predicted = self.predict(&run.workload)?;
        let steps = run.workload.decode_steps().max(1) as f64;
        let (device, host) = match predicted.decode {
            Some(decode) => (decode.device_ns, decode.host_ns),
            None => (
                predicted.decode_step.device_ns,
                predicted.decode_step.host_ns,
            ),
        };
        let decode_pass = {
            let mut pass = self.model.decode_step(&run.workload);
            pass.past += (steps as u64 - 1) / 2;
            pass
        };
        let prefill = self
            .model
            .prefill_passes(&run.workload)
            .map(|pass| self.groups(&run.workload, &pass))
            .fold([0.0; 2], |sum, part| [sum[0] + part[0], sum[1] + part[1]]);
        let ns = |seconds: f64| seconds * 1e9;
        let prefill = run.prefill.map_or(Factors::NONE, |measured| {
            let phase = &predicted.prefill;
            let host = phase.host_ns.map(|host| ns(host.seconds()));
            factors(&measured, ns(phase.device_ns.seconds()), prefill, host)
        });
        let decode = run.decode_step.map_or(Factors::NONE, |measured| {
            let groups = self.groups(&run.workload, &decode_pass);
            let host = host.map(|host| ns(host.seconds()) / steps);
            factors(&measured, ns(device.seconds()) / steps, groups, host)
        });
        Ok(Corrections {
            prefill,
            decode,
            spread: SPREAD,
        })
    }

    /// Predictions with these corrections.
    #[must_use]
    pub fn corrected(mut self, corrections: Corrections) -> Self {
        self.steps.get_mut().clear();
        self.before.set(None);
        self.corrections = Some(corrections);
        self
    }

    /// Predicted ns of GEMMs and attention, and of all other kernels.
    fn groups(&self, workload: &Workload, pass: &llmprof_theory::Pass) -> [f64; 2] {
        let mut groups = [0.0; 2];
        for (kernel, launches, time) in self.kernels(workload, pass) {
            groups[usize::from(!is_matrix(&kernel))] += time.seconds() * launches * 1e9;
        }
        groups
    }
}

/// `predicted`: ns of the whole step, of its two groups, and of the host.
fn factors(
    measured: &MeasuredStep,
    predicted: f64,
    [matrix, other]: [f64; 2],
    host: Option<f64>,
) -> Factors {
    let ratio = |measured: f64, predicted: f64| {
        let ratio = measured / predicted;
        if ratio.is_finite() && ratio > 0.0 {
            ratio.clamp(1.0 / MOST, MOST)
        } else {
            1.0
        }
    };
    let whole = ratio(measured.device_ns, predicted);
    let (by_matrix, by_other) = match measured.other_ns {
        Some(own) if matrix > 0.0 && other > 0.0 && own < measured.device_ns => {
            (ratio(measured.device_ns - own, matrix), ratio(own, other))
        }
        _ => (whole, whole),
    };
    // Where the device waits, the host set the time.
    let waited = measured
        .wall_ns
        .filter(|wall| *wall > measured.device_ns * 1.2);
    Factors {
        matrix: by_matrix,
        other: by_other,
        host: waited
            .zip(host)
            .map_or(1.0, |(wall, host)| ratio(wall, host)),
    }
}

/// 5th and 95th percentile of measured ÷ predicted over pairs of cells of the calibration models (0.942 and 1.063, `grade pairs` prints
/// them), to the power of 1.4 as for other intervals.
const SPREAD: Spread = Spread {
    low: 0.92,
    high: 1.09,
};

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

const PARTS: &str = include_str!("../../../fixtures/h200/kernels/parts.json");

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
    let known = known()?;
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
    let known = known()?;
    let mut found = Vec::new();
    for (from, to) in known
        .iter()
        .flat_map(|from| known.iter().map(move |to| (from, to)))
    {
        let family = from.0.model.family;
        if family == to.0.model.family
            && family != llmprof_theory::COMMON_KEYS
            && from.0.name != to.0.name
        {
            found.extend(compared(from, to, &device, profile));
        }
    }
    Ok(found)
}

/// The measured models with their cells.
fn known() -> Result<Vec<(Design, Vec<Cell>)>, serde_json::Error> {
    let mut parts: BTreeMap<String, Vec<Cell>> = serde_json::from_str(PARTS)?;
    let designs = super::grade::designs()?.into_iter();
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
    let mut found = Vec::new();
    let (of_run, plain) = (
        Predictor::new(&from.model, device, profile),
        Predictor::new(&to.model, device, profile),
    );
    for run in runs {
        let Ok(corrections) = of_run.corrections(&measured(run, from.routing)) else {
            continue;
        };
        let corrected = plain.clone().corrected(corrections);
        let is_other = |cell: &&Cell| from.name != to.name || cell.0 != run.0 || cell.1 != run.1;
        for cell in cells.iter().filter(is_other) {
            let workload = measured(cell, to.routing).workload;
            if let (Ok(plain), Ok(corrected)) =
                (plain.predict(&workload), corrected.predict(&workload))
            {
                found.extend([false, true].map(|decode| Pair {
                    from: [run.0, run.1],
                    ..pair(to, cell, decode, [&plain, &corrected])
                }));
            }
        }
    }
    found
}

fn pair(
    design: &Design,
    cell: &Cell,
    decode: bool,
    [plain, corrected]: [&super::Prediction; 2],
) -> Pair {
    let truth: f64 = if decode { cell.3 } else { cell.2 }.iter().sum();
    let time = |prediction: &super::Prediction| {
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
        calibration: design.split == Split::Calibration,
        by_common_keys: design.model.family == llmprof_theory::COMMON_KEYS,
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

fn measured(cell: &Cell, routing: Routing) -> MeasuredRun {
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
            routing,
            ..Workload::default()
        },
        prefill: Some(step(cell.2)),
        decode_step: Some(step(cell.3)),
    }
}
