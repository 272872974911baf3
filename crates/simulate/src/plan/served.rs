//! A server that was measured, simulated as it was run.

use llmprof_predict::{EfficiencyProfile, EngineLimits, PredictError, parallel::ParallelModel};
use llmprof_theory::{Model, Step, Workload, device::Device};
use llmprof_units::Nanos;
use thiserror::Error;

use super::bounds::{ENGINE_LIMITS, engine_settings};
use crate::{
    engine::simulate_load,
    predicted::Predicted,
    request::{RequestLoad, SimulatedRequest},
    shift::{Bench, Medians, Shift, ShiftError, ShiftFit, fit_shift},
    simulated_load::SimulatedLoad,
};

/// The server that ran the benches.
#[derive(Clone, Copy)]
pub struct BenchedServer<'a> {
    pub model: &'a Model,
    pub device: &'a Device,
    pub profile: &'a EfficiencyProfile,
    /// Layout over devices, formats and routing.
    pub workload: Workload,
    pub gpu_memory_utilization: f64,
    pub block_size: u64,
}

#[derive(Debug, Error)]
pub enum ServerError {
    #[error(transparent)]
    Predict(#[from] PredictError),
    #[error("{0}")]
    Layout(String),
    #[error("no room for a KV cache, or no memory size in the device file")]
    NoKvCache,
    #[error("a request of the bench is longer than the server's KV cache")]
    TooLong,
    #[error("the bench has no request that a simulation completes")]
    Empty,
}

impl BenchedServer<'_> {
    /// Fits a shift of predicted step times to benches of this server.
    pub fn shift_by(&self, benches: &[Bench]) -> Result<ShiftFit, ShiftError<ServerError>> {
        let spread = ParallelModel::new(self.model, self.device, self.workload.parallel)
            .map_err(|error| ServerError::Layout(error.to_string()))?;
        let [max_num_batched_tokens, max_num_seqs] = ENGINE_LIMITS[0];
        let limits = EngineLimits {
            gpu_memory_utilization: self.gpu_memory_utilization,
            max_num_batched_tokens,
            max_num_seqs,
        };
        let engine = (&spread, self.device);
        let settings = engine_settings(engine, &self.workload, &limits, self.block_size)
            .map_err(|_| ServerError::NoKvCache)?;
        let predictor = spread.rank_predictor(self.device, self.profile);
        let predict = |step: &Step| spread.predict_step(&predictor, &self.workload, step);
        fit_shift(benches, &|load: &RequestLoad, shift: Shift| {
            let time = Predicted::new(&predict, Nanos(0))?.with_shift(shift);
            let served =
                |request: &SimulatedRequest| settings.can_serve(request.prompt, request.output);
            if !load.requests.iter().all(served) {
                return Err(ServerError::TooLong);
            }
            let outcome =
                simulate_load(load, &settings, &time).expect("`engine_settings` checks them");
            if let Some(error) = time.first_failure() {
                return Err(error.into());
            }
            let summary = SimulatedLoad::of_outcomes(&[outcome], settings.kv_blocks, &[]);
            Ok(Medians {
                ttft_ms: summary.figures.ttft_ms.ok_or(ServerError::Empty)?.p50,
                tpot_ms: summary.figures.tpot_ms.map(|tpot| tpot.p50),
            })
        })
    }
}
