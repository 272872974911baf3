//! What a workload would take on a device, run in a stated way.
//!
//! The time of an operator is its work at the device's limits, divided by the efficiency of its kind, plus a fixed time
//! for each kernel it takes. Bytes include activations, as often as the kernels of that way of running move them. The
//! efficiencies are data ([`EfficiencyProfile`]) with a basis each; the result is a prediction, says what it rests on, and
//! comes with its error where one is known ([`Comparison`]).

mod check;
mod efficiency;
mod fit;
mod grid;
mod phase;
mod target;

use std::cell::Cell;

use llmprof_units::{Basis, Nanos};
use serde::Serialize;
use thiserror::Error;

pub use check::{Comparison, ErrorSummary, error_summary, fixture_comparison};
pub use efficiency::{EfficiencyProfile, KindEfficiency, ProfileError, ProfileFigure};
pub use fit::MemoryFit;
pub use grid::{Grid, GridModel, GridPoint};
pub use phase::PhasePrediction;
pub use target::{Need, Target};

use crate::{
    Model, Precision, Workload, WorkloadError,
    device::{Device, MissingPeak},
    roofline::Roof,
};
use phase::{Clock, Timing, width};

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PredictError {
    /// The device states no rate in a format that the workload computes in.
    #[error(transparent)]
    MissingPeak(#[from] MissingPeak),
    /// The workload cannot be run on the model.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// What a workload is predicted to take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Always `predicted`.
    pub basis: Basis,
    /// Image towers; absent without images.
    pub vision: Option<PhasePrediction>,
    /// All passes over the prompt.
    pub prefill: PhasePrediction,
    /// The first decode step.
    pub decode_step: PhasePrediction,
    /// All decode steps; absent where prefill gives the only token.
    pub decode: Option<PhasePrediction>,
    /// Time to the first token: vision and prefill, with the host's time where that is longer than the device's.
    pub ttft_ns: Nanos,
    /// Time per output token after the first: decode ÷ its steps. Absent without decode steps.
    pub tpot_ns: Option<Nanos>,
    /// Vision, prefill and decode.
    pub total_ns: Nanos,
    /// Generated tokens of all sequences ÷ total time.
    pub tokens_per_s: f64,
    /// Generated tokens of all sequences ÷ decode time, first tokens not counted. Absent without decode steps.
    pub decode_tokens_per_s: Option<f64>,
    /// Whether weights and KV cache fit.
    pub memory: MemoryFit,
}

/// Predicts workloads of one model on one device in one way of running.
#[derive(Clone, Debug)]
pub struct Predictor<'a> {
    model: &'a Model,
    clock: Clock<'a>,
    /// Bytes of the weights in the formats last asked for: summing them takes longer than a prediction.
    weights: Cell<Option<(Precision, u64)>>,
}

impl<'a> Predictor<'a> {
    pub fn new(model: &'a Model, device: &'a Device, profile: &EfficiencyProfile) -> Self {
        Self {
            model,
            clock: Clock::new(Roof::new(device), profile),
            weights: Cell::new(None),
        }
    }

    pub fn device(&self) -> &'a Device {
        self.clock.roof.device()
    }

    /// What `workload` takes.
    pub fn predict(&self, workload: &Workload) -> Result<Prediction, PredictError> {
        self.model.validate(workload)?;
        let vision = (workload.images.count > 0)
            .then(|| self.vision(workload))
            .transpose()?
            .flatten();
        let prefill = self.phase(workload, self.model.prefill_passes(workload))?;
        let decode_step = self.phase(workload, [self.model.decode_step(workload)])?;
        let decode = self
            .model
            .decode_pass(workload)
            .map(|pass| self.phase(workload, [pass]))
            .transpose()?;
        let decode_time = decode.map_or(Nanos(0), |phase| phase.time_ns);
        let ttft_ns = prefill.time_ns + vision.map_or(Nanos(0), |phase| phase.time_ns);
        let total_ns = ttft_ns + decode_time;
        let steps = workload.decode_steps();
        let rate = |tokens: u64, time: Nanos| {
            tokens as f64 * workload.batch as f64 / time.seconds().max(1e-9)
        };
        Ok(Prediction {
            basis: Basis::Predicted,
            vision,
            prefill,
            decode_step,
            decode,
            ttft_ns,
            tpot_ns: (steps > 0).then(|| Nanos::from_seconds(decode_time.seconds() / steps as f64)),
            total_ns,
            tokens_per_s: rate(workload.new_tokens, total_ns),
            decode_tokens_per_s: (steps > 0).then(|| rate(steps, decode_time)),
            memory: MemoryFit::of(self.model, workload, self.device(), self.weights(workload)),
        })
    }

    fn phase(
        &self,
        workload: &Workload,
        passes: impl IntoIterator<Item = crate::Pass>,
    ) -> Result<PhasePrediction, MissingPeak> {
        let mut timing = Timing::default();
        for pass in passes {
            let width = width(pass.rows());
            self.model.lower(workload, &pass, &mut |operator| {
                timing.add(&self.clock, operator, width);
            });
            timing.add_steps(&self.clock, pass.steps);
        }
        timing.finish(&self.clock)
    }

    /// The image towers; `None` for a model without any.
    fn vision(&self, workload: &Workload) -> Result<Option<PhasePrediction>, MissingPeak> {
        let mut timing = Timing::default();
        let mut any = false;
        self.model.lower_vision(workload, &mut |operator| {
            any = true;
            // Towers work on hundreds of patches at once.
            timing.add(&self.clock, operator, 1.0);
        });
        any.then(|| timing.finish(&self.clock)).transpose()
    }

    fn weights(&self, workload: &Workload) -> u64 {
        match self.weights.get() {
            Some((precision, bytes)) if precision == workload.precision => bytes,
            _ => {
                let bytes = self.model.parameter_bytes(&workload.precision);
                self.weights.set(Some((workload.precision, bytes)));
                bytes
            }
        }
    }
}
