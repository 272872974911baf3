//! Predictions that start from a measured run: its times ÷ what is predicted of it correct every other prediction.
//!
//! Kernels are corrected in two groups, GEMMs and attention, and all others: libraries are tuned in the one, launches and memory
//! decide in the other. Prefill and decode have factors of their own. Where kernels are not costed one by one, and where a
//! run tells no groups apart, one factor corrects a whole phase.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::predict_error::PredictError;
use llmprof_theory::{
    Workload,
    kernels::{Kernel, KernelClass},
};

/// Factors beyond this are no correction: the run did something else than what is predicted.
const FACTOR_MAX: f64 = 10.0;

/// Times of one step, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredStep {
    /// Summed time of all kernels of the step, in ns.
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

/// Measured ÷ predicted time of a run, by which other predictions of its model are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Factors {
    /// Measured ÷ predicted time of GEMMs and attention.
    pub matrix: f64,
    /// Measured ÷ predicted time of all other kernels.
    pub other: f64,
    /// Host time, where the host decided.
    pub host: f64,
}

impl Factors {
    pub(super) const NONE: Self = Self {
        matrix: 1.0,
        other: 1.0,
        host: 1.0,
    };

    pub(super) fn factor_of(&self, kernel: &Kernel) -> f64 {
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

pub(super) fn is_matrix(kernel: &Kernel) -> bool {
    matches!(
        kernel.class(),
        KernelClass::Gemm | KernelClass::GroupedGemm | KernelClass::Attention
    )
}

/// What a step of the run is predicted to take, in ns.
pub(super) struct PredictedStep {
    pub(super) phase: &'static str,
    pub(super) device_ns: f64,
    /// GEMMs and attention, and all other kernels.
    pub(super) groups_ns: [f64; 2],
    pub(super) host_ns: Option<f64>,
}

/// Refuses factors that no correction has.
pub(super) fn fit_factors(
    measured: &MeasuredStep,
    predicted: &PredictedStep,
) -> Result<Factors, PredictError> {
    let ratio = |measured: f64, predicted_ns: f64| {
        let times = measured / predicted_ns;
        if (1.0 / FACTOR_MAX..=FACTOR_MAX).contains(&times) {
            Ok(times)
        } else {
            Err(PredictError::RunTooFar {
                times,
                phase: predicted.phase,
            })
        }
    };
    let whole = ratio(measured.device_ns, predicted.device_ns)?;
    let (matrix, other) = match (measured.other_ns, predicted.groups_ns) {
        (Some(other_ns), [matrix, other])
            if matrix > 0.0 && other > 0.0 && other_ns < measured.device_ns =>
        {
            (
                ratio(measured.device_ns - other_ns, matrix)?,
                ratio(other_ns, other)?,
            )
        }
        _ => (whole, whole),
    };
    // Where the device waits, the host set the time.
    let waited = measured
        .wall_ns
        .filter(|wall| *wall > measured.device_ns * 1.2);
    let host = match waited.zip(predicted.host_ns) {
        Some((wall, host)) => ratio(wall, host)?,
        None => 1.0,
    };
    Ok(Factors {
        matrix,
        other,
        host,
    })
}
