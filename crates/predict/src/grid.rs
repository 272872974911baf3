//! Predictions over every combination of models, devices, formats, batches, prompts and answers.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use super::{EfficiencyProfile, PredictError, Prediction, Predictor};
use llmprof_theory::{Model, Precision, Workload, device::Device};

/// A model with the name that its rows show; a design edit is one more of these.
#[derive(Clone, Debug)]
pub struct GridModel {
    pub name: String,
    pub model: Model,
}

/// The axes of a grid. An empty axis takes the value of `base`.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Models and their design edits.
    pub models: Vec<GridModel>,
    pub devices: Vec<Device>,
    pub precisions: Vec<Precision>,
    pub batches: Vec<u64>,
    pub prompts: Vec<u64>,
    pub new_tokens: Vec<u64>,
    /// Everything that no axis sets.
    pub base: Workload,
}

/// One point of a grid.
#[derive(Clone, Debug)]
pub struct GridPoint<'g> {
    pub model: &'g str,
    pub device: &'g Device,
    pub workload: Workload,
    /// What it is predicted to take, or why that cannot be said.
    pub outcome: Result<Prediction, PredictError>,
}

impl Grid {
    pub fn point_count(&self) -> usize {
        self.models.len()
            * self.devices.len()
            * self.precisions.len().max(1)
            * self.batches.len().max(1)
            * self.prompts.len().max(1)
            * self.new_tokens.len().max(1)
    }

    /// Returns true if the grid has no model or no device.
    pub fn is_empty(&self) -> bool {
        self.point_count() == 0
    }

    /// Sends every point to `each`: models outermost, generated tokens innermost.
    pub fn visit_points<'g>(
        &'g self,
        profile: &EfficiencyProfile,
        mut each: impl FnMut(GridPoint<'g>),
    ) {
        let axes = self.collect_axes();
        let mut predictor = None;
        for line in 0..axes.lines {
            self.visit_line(&axes, line, profile, &mut predictor, &mut each);
        }
    }

    /// The same by several threads at once, in no order.
    pub fn run_on<'g>(
        &'g self,
        threads: usize,
        profile: &EfficiencyProfile,
        each: impl Fn(GridPoint<'g>) + Sync,
    ) {
        let axes = self.collect_axes();
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    let mut predictor = None;
                    loop {
                        let line = next.fetch_add(1, Ordering::Relaxed);
                        if line >= axes.lines {
                            break;
                        }
                        self.visit_line(&axes, line, profile, &mut predictor, &mut |point| {
                            each(point);
                        });
                    }
                });
            }
        });
    }

    fn collect_axes(&self) -> GridAxes {
        let base = &self.base;
        let or_base = |axis: &[u64], value: u64| {
            if axis.is_empty() {
                vec![value]
            } else {
                axis.to_vec()
            }
        };
        let precisions = if self.precisions.is_empty() {
            vec![base.precision]
        } else {
            self.precisions.clone()
        };
        let batches = or_base(&self.batches, base.batch);
        GridAxes {
            lines: self.models.len() * self.devices.len() * precisions.len() * batches.len(),
            precisions,
            batches,
            prompts: or_base(&self.prompts, base.prompt),
            new_tokens: or_base(&self.new_tokens, base.new_tokens),
        }
    }

    /// All prompts and answers of one model, device, format and batch. `known` is the predictor of the line before, by the places of its
    /// model and device.
    fn visit_line<'g>(
        &'g self,
        axes: &GridAxes,
        line: usize,
        profile: &EfficiencyProfile,
        known: &mut Option<([usize; 2], Predictor<'g>)>,
        each: &mut dyn FnMut(GridPoint<'g>),
    ) {
        let batch = axes.batches[line % axes.batches.len()];
        let rest = line / axes.batches.len();
        let precision = axes.precisions[rest % axes.precisions.len()];
        let rest = rest / axes.precisions.len();
        let place = [rest / self.devices.len(), rest % self.devices.len()];
        let (model, device) = (&self.models[place[0]], &self.devices[place[1]]);
        if known.as_ref().is_none_or(|(before, _)| *before != place) {
            *known = Some((place, Predictor::new(&model.model, device, profile)));
        }
        let Some((_, predictor)) = known else { return };
        for &prompt in &axes.prompts {
            for &new_tokens in &axes.new_tokens {
                let workload = Workload {
                    batch,
                    prompt,
                    new_tokens,
                    precision,
                    ..self.base
                };
                each(GridPoint {
                    model: &model.name,
                    device,
                    workload,
                    outcome: predictor.predict(&workload),
                });
            }
        }
    }
}

/// The values of each axis.
struct GridAxes {
    precisions: Vec<Precision>,
    batches: Vec<u64>,
    prompts: Vec<u64>,
    new_tokens: Vec<u64>,
    /// Combinations of model, device, format and batch.
    lines: usize,
}
