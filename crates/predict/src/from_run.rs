//! Predictions that start from a measured run: its times ÷ what is predicted of it correct every other prediction.
//!
//! Kernels are corrected in two groups, GEMMs and attention, and all others: libraries are tuned in the one, launches and memory
//! decide in the other. Prefill and decode have factors of their own. Where kernels are not costed one by one, and where a
//! run tells no groups apart, one factor corrects a whole phase.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PredictError, Predictor};
use llmprof_theory::{
    Step, Workload,
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Factors {
    /// GEMMs and attention.
    pub matrix: f64,
    /// Measured ÷ predicted time of all other kernels.
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
        let workload = &run.workload;
        let middle = {
            let mut pass = self.model.decode_step(workload);
            pass.past += (steps as u64 - 1) / 2;
            Step::first_of(&pass)
        };
        let prefill = self
            .model
            .prefill_passes(&run.workload)
            .map(|pass| self.groups(workload, &Step::first_of(&pass)))
            .fold([0.0; 2], |sum, part| [sum[0] + part[0], sum[1] + part[1]]);
        let ns = |seconds: f64| seconds * 1e9;
        let prefill = run.prefill.map_or(Factors::NONE, |measured| {
            let phase = &predicted.prefill;
            let host = phase.host_ns.map(|host| ns(host.seconds()));
            factors(&measured, ns(phase.device_ns.seconds()), prefill, host)
        });
        let decode = run.decode_step.map_or(Factors::NONE, |measured| {
            let groups = self.groups(workload, &middle);
            let host = host.map(|host| ns(host.seconds()) / steps);
            factors(&measured, ns(device.seconds()) / steps, groups, host)
        });
        Ok(Corrections { prefill, decode })
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
    fn groups(&self, workload: &Workload, step: &Step) -> [f64; 2] {
        let mut groups = [0.0; 2];
        for (kernel, launches, time) in self.kernels(workload, step) {
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
