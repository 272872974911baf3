//! Predictions over several devices.

use std::{collections::HashMap, sync::OnceLock};

use llmprof_predict::{
    EfficiencyProfile, PredictError, Prediction, Predictor, parallel::ParallelModel,
};
use llmprof_theory::{Model, Workload, WorkloadError, parallel::Parallel};

use super::axes::SweepAxes;

/// Model, device, and how the one is spread over several of the other.
type Key = (usize, usize, Parallel);

/// The spread models of a grid, each made when a point first asks for it.
pub(super) struct ParallelModels(HashMap<Key, OnceLock<Result<ParallelModel, WorkloadError>>>);

impl ParallelModels {
    pub(super) fn for_axes(axes: &SweepAxes) -> Self {
        let mut spreads = HashMap::new();
        for parallel in axes.parallels() {
            for model in 0..axes.models.len() {
                for device in 0..axes.devices.len() {
                    spreads.insert((model, device, parallel), OnceLock::new());
                }
            }
        }
        Self(spreads)
    }

    /// `None` for a single device.
    pub(super) fn get(
        &self,
        axes: &SweepAxes,
        key: Key,
    ) -> Option<Result<&ParallelModel, WorkloadError>> {
        let (model, device, parallel) = key;
        let (model, device) = (axes.models[model].model.as_ref()?, &axes.devices[device]);
        let spread = self
            .0
            .get(&key)?
            .get_or_init(|| ParallelModel::new(model, device, parallel));
        Some(spread.as_ref().map_err(Clone::clone))
    }
}

/// What `workload` takes on its devices: one, or as many as `parallel` says.
pub(super) fn predict(
    predictor: &Predictor<'_>,
    model: &Model,
    profile: &EfficiencyProfile,
    workload: &Workload,
) -> Result<Prediction, PredictError> {
    if workload.parallel.is_single() {
        return predictor.predict(workload);
    }
    let device = predictor.device();
    let spread = ParallelModel::new(model, device, workload.parallel)?;
    let predicted = spread.predict(&spread.rank_predictor(device, profile), workload)?;
    Ok(predicted.prediction)
}
