use llmprof_theory::{
    Kind,
    block::{Norm, NormKind},
};

use super::{Binder, resized_slice};
use crate::{error::EngineError, kernel::normalize_rows, recorder::Recorder};

/// A normalization with its weights.
#[derive(Clone, Debug)]
pub(crate) struct BoundNorm {
    operator: u32,
    kind: NormKind,
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
    epsilon: f32,
}

impl BoundNorm {
    pub(crate) fn bind(norm: &Norm, binder: &mut Binder<'_>) -> Result<Self, EngineError> {
        let mut weight = binder
            .weights
            .read_vector(&binder.tensor_name(norm.name, "weight"))?;
        if norm.kind == NormKind::RmsUnitOffset {
            for weight in &mut weight {
                *weight += 1.0;
            }
        }
        let bias = if norm.bias {
            Some(
                binder
                    .weights
                    .read_vector(&binder.tensor_name(norm.name, "bias"))?,
            )
        } else {
            None
        };
        Ok(Self {
            operator: binder.add_weighted_operator(Kind::Norm, norm.name),
            kind: norm.kind,
            weight,
            bias,
            epsilon: norm.epsilon as f32,
        })
    }

    /// Normalizes every row of `from`.
    pub(crate) fn run<'o>(
        &self,
        from: &[f32],
        to: &'o mut Vec<f32>,
        recorder: &mut Recorder,
    ) -> &'o mut [f32] {
        let start = recorder.start_operator();
        let to = resized_slice(to, from.len());
        let bias = self.bias.as_deref();
        normalize_rows(self.kind, &self.weight, bias, self.epsilon, from, to);
        let width = self.weight.len();
        recorder.end_operator(self.operator, start, [1, from.len() / width, width, 0]);
        to
    }
}
