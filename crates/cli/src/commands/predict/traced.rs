//! Models whose kernels in transformers are not known: they are traced on torch's meta device, by the PyTorch worker.

use std::collections::{HashMap, HashSet};

use llmprof_capture::{process::Interrupt, pytorch::KernelWorker, runner::protocol::Trace};
use llmprof_predict::{Implementation, PredictError, Prediction, predict_traced, traced_contexts};
use llmprof_report::compose::predict::sentences;
use llmprof_theory::{Workload, device::DeviceKind, kernels::TracedModel};
use llmprof_units::DType;

use super::axes::{AxisModel, AxisPoint, SweepAxes, TracingPlan};
use crate::failure::Failure;

/// What stands in the place of a family.
pub(super) const TRACED: &str = "traced";

/// A trace takes a second or so; more than these are no grid for tracing.
const TRACES_MAX: usize = 256;

/// Model, batch, prompt, new tokens and number format.
type Key = (usize, u64, u64, u64, Option<DType>);

#[derive(Default)]
pub(super) struct Traces {
    traced_models: HashMap<Key, TracedModel>,
    /// Models that a family reads: only what transformers runs in eager mode is traced.
    read: HashSet<usize>,
    /// What was done for each model that is traced or could not be.
    notes: Vec<String>,
}

impl Traces {
    /// Traces every point of every model that no family knows, and eager points of those whose eager kernels are not known. Where that cannot be done, a model that
    /// no family knows is read by the keys that most configs share, and one that these do not describe is an error.
    pub(super) fn trace_axes(axes: &SweepAxes) -> Result<Self, Failure> {
        let mut traces = Self::default();
        for (index, model) in axes.models.iter().enumerate() {
            let Some(tracing) = &model.tracing else {
                continue;
            };
            if tracing.unread.is_none() {
                traces.read.insert(index);
            }
            let mut wanted: Vec<(Key, Workload)> = Vec::new();
            for number in 0..axes.len() {
                let point = axes.point(number);
                let key = key(&point);
                let asks = point.model == index && traces.asks(&point, axes);
                if asks && !wanted.iter().any(|(known, _)| *known == key) {
                    wanted.push((key, point.workload));
                }
                if wanted.len() > TRACES_MAX {
                    break;
                }
            }
            if wanted.is_empty() {
                continue;
            }
            let outcome = if wanted.len() > TRACES_MAX {
                Err(format!("more than {TRACES_MAX} shapes are not traced"))
            } else {
                traces.trace(tracing, &wanted)
            };
            let note = match outcome {
                Ok(version) => sentences::traced(
                    &model.name,
                    tracing.unread.is_some(),
                    tracing.attention.as_deref(),
                    &version,
                ),
                Err(reason) => refused_note(model, tracing, &reason)?,
            };
            traces.notes.push(note);
        }
        Ok(traces)
    }

    /// Whether a point of a model that can be traced is predicted from a trace.
    fn asks(&self, point: &AxisPoint, axes: &SweepAxes) -> bool {
        let workload = &point.workload;
        let eager = axes.profiles[point.profile].implementation == Some(Implementation::HfEager);
        let on_gpu = axes.devices[point.device].kind == DeviceKind::Gpu;
        let alone = workload.parallel.rank_count() == 1 && workload.images.count == 0;
        !self.read.contains(&point.model) || eager && on_gpu && alone
    }

    fn trace(
        &mut self,
        tracing: &TracingPlan,
        wanted: &[(Key, Workload)],
    ) -> Result<String, String> {
        let mut interrupt = Interrupt::install().map_err(|error| error.to_string())?;
        let failed = |error: llmprof_capture::runner::WorkerError| error.problem.to_string();
        let mut worker = KernelWorker::start(&tracing.python, &mut interrupt).map_err(failed)?;
        let mut version = String::new();
        for (key, workload) in wanted {
            let request = Trace {
                config: tracing.design.clone(),
                dtype: workload.precision.activations,
                attn_implementation: tracing.attention.clone(),
                batch: workload.batch,
                prompt: workload.cached + workload.prompt,
                contexts: traced_contexts(workload),
            };
            let traced = worker
                .trace_model(&request, &mut interrupt)
                .map_err(failed)?;
            version.clone_from(&traced.transformers);
            self.traced_models.insert(*key, traced);
        }
        worker.finish(&mut interrupt).map_err(failed)?;
        Ok(version)
    }

    /// The prediction of a traced point; `None` for one that was not traced.
    pub(super) fn predict(
        &self,
        point: &AxisPoint,
        axes: &SweepAxes,
    ) -> Option<Result<Prediction, PredictError>> {
        let traced = self
            .traced_models
            .get(&key(point))
            .filter(|_| self.asks(point, axes))?;
        let (device, profile) = (&axes.devices[point.device], &axes.profiles[point.profile]);
        Some(predict_traced(traced, device, profile, &point.workload))
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// What stands in for a trace; an error where nothing does.
fn refused_note(model: &AxisModel, tracing: &TracingPlan, reason: &str) -> Result<String, Failure> {
    let name = &model.name;
    if let (Some(unread), None) = (&tracing.unread, &model.model) {
        return Err(Failure::new(format!("model {name}: {unread}")).hint(format!(
            "it could not be traced either: {reason}; runtime.python=PATH names a Python with torch and a transformers that knows it"
        )));
    }
    let is_unread = tracing.unread.is_some();
    Ok(sentences::not_traced(
        name,
        is_unread,
        tracing.attention.as_deref(),
        reason,
    ))
}

fn key(point: &AxisPoint) -> Key {
    let workload = &point.workload;
    (
        point.model,
        workload.batch,
        workload.cached + workload.prompt,
        workload.new_tokens,
        workload.precision.activations,
    )
}
