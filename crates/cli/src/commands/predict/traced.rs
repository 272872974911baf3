//! Models that no family knows: their kernels are traced on torch's meta device, by the PyTorch worker.

use std::collections::HashMap;

use llmprof_capture::{process::Interrupt, pytorch::KernelWorker, runner::protocol::Trace};
use llmprof_theory::{
    Workload,
    device::Device,
    kernels::TracedModel,
    predict::{EfficiencyProfile, PredictError, Prediction, predict_traced, traced_contexts},
};
use llmprof_units::DType;

use super::axes::{Axes, GridModel, Point, Unknown};
use crate::failure::Failure;

/// What stands in the place of a family.
pub(super) const TRACED: &str = "traced";

/// A trace takes a second or so; more than these are no grid for tracing.
const MOST_TRACES: usize = 256;

/// Model, batch, prompt, new tokens and number format.
type Key = (usize, u64, u64, u64, Option<DType>);

#[derive(Default)]
pub(super) struct Traces {
    found: HashMap<Key, TracedModel>,
    /// Models that were traced, with the version of transformers.
    traced: Vec<(String, String)>,
    /// Models that could not be, with the reason; they are read by common keys.
    refused: Vec<(String, String)>,
}

impl Traces {
    /// Traces every point of every model that no family knows. Where that cannot be done, a model is read by the keys that most
    /// configs share, and one that these do not describe is an error.
    pub(super) fn of(axes: &Axes) -> Result<Self, Failure> {
        let mut traces = Self::default();
        for (index, model) in axes.models.iter().enumerate() {
            let Some(unknown) = &model.unknown else {
                continue;
            };
            let mut wanted: Vec<(Key, Workload)> = Vec::new();
            for number in 0..axes.len() {
                let point = axes.point(number);
                let key = key(&point);
                if point.model == index && !wanted.iter().any(|(known, _)| *known == key) {
                    wanted.push((key, point.workload));
                }
                if wanted.len() > MOST_TRACES {
                    break;
                }
            }
            let outcome = if wanted.len() > MOST_TRACES {
                Err(format!("more than {MOST_TRACES} shapes are not traced"))
            } else {
                traces.trace(unknown, &wanted)
            };
            match outcome {
                Ok(version) => traces.traced.push((model.name.clone(), version)),
                Err(reason) => traces.refuse(model, unknown, reason)?,
            }
        }
        Ok(traces)
    }

    fn refuse(
        &mut self,
        model: &GridModel,
        unknown: &Unknown,
        reason: String,
    ) -> Result<(), Failure> {
        if model.model.is_none() {
            return Err(
                Failure::new(format!("model {}: {}", model.name, unknown.reason)).hint(format!(
                    "it could not be traced either: {reason}; runtime.python=PATH names a Python with torch and a transformers that knows it"
                )),
            );
        }
        self.refused.push((model.name.clone(), reason));
        Ok(())
    }

    fn trace(&mut self, unknown: &Unknown, wanted: &[(Key, Workload)]) -> Result<String, String> {
        let mut interrupt = Interrupt::install().map_err(|error| error.to_string())?;
        let failed = |error: llmprof_capture::runner::WorkerError| error.problem.to_string();
        let mut worker = KernelWorker::start(&unknown.python, &mut interrupt).map_err(failed)?;
        let mut version = String::new();
        for (key, workload) in wanted {
            let request = Trace {
                config: unknown.design.clone(),
                dtype: workload.precision.activations,
                batch: workload.batch,
                prompt: workload.cached + workload.prompt,
                contexts: traced_contexts(workload),
            };
            let traced = worker.trace(&request, &mut interrupt).map_err(failed)?;
            version.clone_from(&traced.transformers);
            self.found.insert(*key, traced);
        }
        worker.finish(&mut interrupt).map_err(failed)?;
        Ok(version)
    }

    /// The prediction of a traced point; `None` for a model that was not traced.
    pub(super) fn predict(
        &self,
        point: &Point,
        device: &Device,
        profile: &EfficiencyProfile,
    ) -> Option<Result<Prediction, PredictError>> {
        let traced = self.found.get(&key(point))?;
        Some(predict_traced(traced, device, profile, &point.workload))
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let traced = self.traced.iter().map(|(model, version)| {
            format!("{model}: no family knows it; kernels traced on torch's meta device with transformers {version}")
        });
        let refused = self.refused.iter().map(|(model, reason)| {
            format!("{model}: no family knows it; predicted by the keys that most configs share, since it was not traced: {reason}")
        });
        traced.chain(refused).collect()
    }
}

fn key(point: &Point) -> Key {
    let workload = &point.workload;
    (
        point.model,
        workload.batch,
        workload.cached + workload.prompt,
        workload.new_tokens,
        workload.precision.activations,
    )
}
