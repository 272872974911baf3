//! Predictions over several devices.

use llmprof_theory::{
    Model, Workload,
    parallel::Spread,
    predict::{EfficiencyProfile, PredictError, Prediction, Predictor},
};

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
    let spread = Spread::new(model, device, workload.parallel)?;
    let found = spread.predict(&spread.predictor(device, profile), workload)?;
    Ok(found.prediction)
}
