use llmprof_theory::{
    Kind,
    block::{ActivationKind, ExpertWeights, Layout, Moe, Scoring},
};
use rayon::prelude::*;

use super::{
    BatchRows, Binder, Workspace,
    linear::{BoundLinear, Matrix},
    mlp::check_supported,
    resized_slice,
};
use crate::{
    error::EngineError,
    kernel::{activate_gated, softmax},
    recorder::Recorder,
};

struct ExpertMatrices {
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

/// A mixture of experts with its weights.
pub(crate) struct BoundMoe {
    gate: BoundLinear,
    normalize: bool,
    scaling: f32,
    top_k: usize,
    operator: u32,
    activation: ActivationKind,
    experts: Vec<ExpertMatrices>,
}

/// A token's use of an expert.
#[derive(Clone, Copy)]
struct ExpertChoice {
    expert: usize,
    row: usize,
    weight: f32,
}

impl BoundMoe {
    pub(crate) fn bind(moe: &Moe, binder: &mut Binder<'_>) -> Result<Self, EngineError> {
        let router = &moe.router;
        let plain = router.scoring == Scoring::Softmax
            && router.correction.is_none()
            && router.groups.is_none();
        if !plain {
            return Err(EngineError::UnsupportedBlock {
                block: "routing other than softmax and top-k",
            });
        }
        if moe.shared.is_some() {
            return Err(EngineError::UnsupportedBlock {
                block: "shared experts",
            });
        }
        let ExpertWeights::PerExpert {
            prefix,
            gate,
            up,
            down,
        } = moe.experts.weights
        else {
            return Err(EngineError::UnsupportedBlock {
                block: "experts packed into one tensor",
            });
        };
        let linear = &router.gate;
        let name = binder.tensor_name(linear.name, "weight");
        let matrix = binder.bind_matrix(&name, linear.outputs, linear.inputs, linear.layout)?;
        let gate_linear = binder.linear_with(linear, Kind::Route, matrix)?;
        let operator = binder.quantizable_operator(Kind::Experts, moe.experts.name);
        let (hidden, inner) = (moe.experts.hidden, moe.experts.intermediate);
        let experts = (0..moe.experts.count)
            .map(|expert| {
                let matrix = |leaf: &str, outputs, inputs| {
                    let name = binder.tensor_name(prefix, &format!("{expert}.{leaf}.weight"));
                    binder.bind_quantizable(&name, outputs, inputs, Layout::OutIn)
                };
                Ok(ExpertMatrices {
                    gate: matrix(gate, inner, hidden)?,
                    up: matrix(up, inner, hidden)?,
                    down: matrix(down, hidden, inner)?,
                })
            })
            .collect::<Result<_, EngineError>>()?;
        Ok(Self {
            gate: gate_linear,
            normalize: router.normalize,
            scaling: router.scaling as f32,
            top_k: moe.experts.top_k as usize,
            operator,
            activation: check_supported(moe.experts.activation)?,
            experts,
        })
    }

    /// Reads `space.normed` and leaves its output in `space.result`.
    pub(crate) fn run(&self, rows: BatchRows<'_>, space: &mut Workspace, recorder: &mut Recorder) {
        let hidden = self.gate.matrix.inputs;
        let inner = self.experts.first().map_or(0, |expert| expert.gate.outputs);
        let x = &space.normed[..rows.total * hidden];

        let start = recorder.start_operator();
        let choices = self.route_rows(rows.total, x, &mut space.gate);
        recorder.end_operator(self.gate.operator, start, self.gate.event_shape(rows.total));

        let start = recorder.start_operator();
        resized_slice(&mut space.result, rows.total * hidden).fill(0.0);
        let mut touched = 0;
        for choices in choices.chunk_by(|a, b| a.expert == b.expert) {
            touched += 1;
            self.run_expert(choices, [hidden, inner], space);
        }
        let shape = [self.top_k, rows.total, inner, hidden];
        recorder.end_touching(self.operator, start, shape, touched);
    }

    /// The chosen experts of all rows, sorted by expert.
    fn route_rows(&self, rows: usize, x: &[f32], scores: &mut Vec<f32>) -> Vec<ExpertChoice> {
        let count = self.experts.len();
        let scores = resized_slice(scores, rows * count);
        self.gate.compute_rows(rows, x, scores);
        let mut choices = Vec::with_capacity(rows * self.top_k);
        let mut order: Vec<usize> = Vec::with_capacity(count);
        for (row, scores) in scores.chunks_exact_mut(count).enumerate() {
            softmax(scores);
            order.clear();
            order.extend(0..count);
            order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            let chosen = &order[..self.top_k.min(count)];
            let total: f32 = chosen.iter().map(|expert| scores[*expert]).sum();
            let factor = if self.normalize {
                self.scaling / total
            } else {
                self.scaling
            };
            choices.extend(chosen.iter().map(|expert| ExpertChoice {
                expert: *expert,
                row,
                weight: scores[*expert] * factor,
            }));
        }
        choices.sort_by_key(|choice| (choice.expert, choice.row));
        choices
    }

    /// Adds one expert's part to the rows that chose it.
    fn run_expert(
        &self,
        choices: &[ExpertChoice],
        [hidden, inner]: [usize; 2],
        space: &mut Workspace,
    ) {
        let expert = &self.experts[choices[0].expert];
        let rows = choices.len();
        let gathered = resized_slice(&mut space.mixed, rows * hidden);
        for (to, choice) in gathered.chunks_exact_mut(hidden).zip(choices) {
            to.copy_from_slice(&space.normed[choice.row * hidden..][..hidden]);
        }
        let gate = resized_slice(&mut space.gate, rows * inner);
        expert.gate.multiply_rows(rows, gathered, gate);
        let up = resized_slice(&mut space.up, rows * inner);
        expert.up.multiply_rows(rows, gathered, up);
        // Queries are free between attention layers.
        let activated = resized_slice(&mut space.queries, rows * inner);
        activated
            .par_chunks_mut(1 << 14)
            .zip(gate.par_chunks(1 << 14))
            .zip(up.par_chunks(1 << 14))
            .for_each(|((to, gate), up)| activate_gated(self.activation, gate, up, to));
        let down = resized_slice(&mut space.mixed, rows * hidden);
        expert.down.multiply_rows(rows, activated, down);
        for (from, choice) in down.chunks_exact(hidden).zip(choices) {
            let to = &mut space.result[choice.row * hidden..][..hidden];
            for (to, from) in to.iter_mut().zip(from) {
                *to += choice.weight * from;
            }
        }
    }
}
