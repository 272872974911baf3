//! Predictions that start from a measured run: its times ÷ what is predicted of it correct every other prediction.
//!
//! Kernels are corrected in two groups, GEMMs and attention, and all others: libraries are tuned in the one, launches and memory
//! decide in the other. Prefill and decode have factors of their own. Where kernels are not costed one by one, and where a
//! run tells no groups apart, one factor corrects a whole phase.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use llmprof_theory::{
    Workload,
    kernels::{Kernel, KernelClass},
};

/// Factors beyond this are no correction: the run did something else.
const FACTOR_MAX: f64 = 10.0;

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

/// `predicted`: ns of the whole step, of its two groups, and of the host.
pub(super) fn fit_factors(
    measured: &MeasuredStep,
    predicted: f64,
    [matrix, other]: [f64; 2],
    host: Option<f64>,
) -> Factors {
    let ratio = |measured: f64, predicted: f64| {
        let ratio = measured / predicted;
        if ratio.is_finite() && ratio > 0.0 {
            ratio.clamp(1.0 / FACTOR_MAX, FACTOR_MAX)
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
