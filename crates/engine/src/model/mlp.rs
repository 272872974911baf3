use llmprof_theory::{
    Kind,
    block::{ActivationKind, Mlp, MlpInput},
};
use rayon::prelude::*;

use super::{BatchRows, Binder, Workspace, linear::BoundLinear, resized_slice};
use crate::{
    error::EngineError,
    kernel::{activate_gated, apply_activation},
    recorder::Recorder,
};

/// Elements of an activation that one task takes.
const TASK_ELEMENTS: usize = 1 << 14;

enum BoundInput {
    Plain(BoundLinear),
    Gated(BoundLinear, BoundLinear),
    Fused(BoundLinear),
}

/// A feed-forward network with its weights.
pub(crate) struct BoundMlp {
    input: BoundInput,
    activation_operator: u32,
    activation: ActivationKind,
    down: BoundLinear,
}

/// Refuses the one nonlinearity that is not a function of one number.
pub(crate) fn check_supported(activation: ActivationKind) -> Result<ActivationKind, EngineError> {
    if activation == ActivationKind::ClampedSwiglu {
        return Err(EngineError::UnsupportedBlock {
            block: "clamped SwiGLU",
        });
    }
    Ok(activation)
}

impl BoundMlp {
    pub(crate) fn bind(mlp: &Mlp, binder: &mut Binder<'_>) -> Result<Self, EngineError> {
        let input = match &mlp.input {
            MlpInput::Plain(up) => BoundInput::Plain(binder.bind_linear(up)?),
            MlpInput::Gated { gate, up } => {
                BoundInput::Gated(binder.bind_linear(gate)?, binder.bind_linear(up)?)
            }
            MlpInput::Fused(both) => BoundInput::Fused(binder.bind_linear(both)?),
        };
        Ok(Self {
            input,
            activation_operator: binder.add_operator(Kind::Activation, mlp.activation_name),
            activation: check_supported(mlp.activation)?,
            down: binder.bind_linear(&mlp.down)?,
        })
    }

    /// Reads `space.normed` and leaves its output in `space.result`.
    pub(crate) fn run(&self, rows: BatchRows<'_>, space: &mut Workspace, recorder: &mut Recorder) {
        let inner = self.down.matrix.inputs;
        let kind = self.activation;
        let x = |linear: &BoundLinear| 0..rows.total * linear.matrix.inputs;
        let start = match &self.input {
            BoundInput::Plain(up) => {
                let values = up.run(rows.total, &space.normed[x(up)], &mut space.gate, recorder);
                let start = recorder.start_operator();
                values
                    .par_chunks_mut(TASK_ELEMENTS)
                    .for_each(|values| apply_activation(kind, values));
                std::mem::swap(&mut space.gate, &mut space.mixed);
                start
            }
            BoundInput::Gated(gate, up) => {
                let gate = gate.run(
                    rows.total,
                    &space.normed[x(gate)],
                    &mut space.gate,
                    recorder,
                );
                let up = up.run(rows.total, &space.normed[x(up)], &mut space.up, recorder);
                let start = recorder.start_operator();
                resized_slice(&mut space.mixed, rows.total * inner)
                    .par_chunks_mut(TASK_ELEMENTS)
                    .zip(gate.par_chunks(TASK_ELEMENTS))
                    .zip(up.par_chunks(TASK_ELEMENTS))
                    .for_each(|((to, gate), up)| activate_gated(kind, gate, up, to));
                start
            }
            BoundInput::Fused(both) => {
                let both = both.run(
                    rows.total,
                    &space.normed[x(both)],
                    &mut space.gate,
                    recorder,
                );
                let start = recorder.start_operator();
                resized_slice(&mut space.mixed, rows.total * inner)
                    .par_chunks_mut(inner)
                    .with_min_len(TASK_ELEMENTS.div_ceil(inner))
                    .zip(both.par_chunks(2 * inner))
                    .for_each(|(to, both)| {
                        let (gate, up) = both.split_at(inner);
                        activate_gated(kind, gate, up, to);
                    });
                start
            }
        };
        recorder.end_operator(self.activation_operator, start, [1, rows.total, inner, 0]);
        let x = &space.mixed[..rows.total * inner];
        self.down.run(rows.total, x, &mut space.result, recorder);
    }
}
