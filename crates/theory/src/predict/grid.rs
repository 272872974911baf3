//! Predictions over every combination of models, devices, formats, batches, prompts and answers.

use super::{EfficiencyProfile, PredictError, Prediction, Predictor};
use crate::{Model, Precision, Workload, device::Device};

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
    /// Sequences that run together.
    pub batches: Vec<u64>,
    pub prompts: Vec<u64>,
    /// Tokens to generate.
    pub new_tokens: Vec<u64>,
    /// Everything that no axis sets.
    pub base: Workload,
}

/// One point of a grid.
#[derive(Clone, Debug)]
pub struct GridPoint<'g> {
    /// Name of the model.
    pub model: &'g str,
    pub device: &'g Device,
    pub workload: Workload,
    /// What it is predicted to take, or why that cannot be said.
    pub outcome: Result<Prediction, PredictError>,
}

impl Grid {
    pub fn len(&self) -> usize {
        self.models.len()
            * self.devices.len()
            * self.precisions.len().max(1)
            * self.batches.len().max(1)
            * self.prompts.len().max(1)
            * self.new_tokens.len().max(1)
    }

    /// Whether there is no model or no device.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends every point to `each`: models outermost, generated tokens innermost.
    pub fn run<'g>(&'g self, profile: &EfficiencyProfile, mut each: impl FnMut(GridPoint<'g>)) {
        let base = &self.base;
        let or_base = |axis: &[u64], value: u64| {
            if axis.is_empty() {
                vec![value]
            } else {
                axis.to_vec()
            }
        };
        let batches = or_base(&self.batches, base.batch);
        let prompts = or_base(&self.prompts, base.prompt);
        let new_tokens = or_base(&self.new_tokens, base.new_tokens);
        let precisions = if self.precisions.is_empty() {
            vec![base.precision]
        } else {
            self.precisions.clone()
        };
        for GridModel { name, model } in &self.models {
            for device in &self.devices {
                let predictor = Predictor::new(model, device, profile);
                for &precision in &precisions {
                    for &batch in &batches {
                        for &prompt in &prompts {
                            for &new_tokens in &new_tokens {
                                let workload = Workload {
                                    batch,
                                    prompt,
                                    new_tokens,
                                    precision,
                                    ..*base
                                };
                                each(GridPoint {
                                    model: name,
                                    device,
                                    workload,
                                    outcome: predictor.predict(&workload),
                                });
                            }
                        }
                    }
                }
            }
        }
    }
}
