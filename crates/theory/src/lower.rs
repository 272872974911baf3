//! The context in which blocks turn into operators.

use llmprof_units::{Basis, DType};

use crate::count::saturating_product;
use crate::{
    block::{Linear, Norm},
    formats::Formats,
    operator::{Kind, Operator, Path, Phase, Shape, Traffic, Work},
    step::{Batch, Reach, Recurrence, Side},
    workload::{AttentionConvention, MlaDecode, Pass, Routing},
};

/// The keys that a query meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    /// Those before it, counted by a convention.
    Past(AttentionConvention),
    /// All of its own step: an encoder.
    All,
    /// Σ over queries of the keys in the query's own window, per sequence.
    Sum(u64),
}

/// Where blocks send their operators, and what those have in common.
pub(crate) struct Lowering<'s, 'm> {
    pub(crate) pass: Pass,
    pub(crate) formats: Formats,
    pub(crate) visible: Visible,
    pub(crate) mla: MlaDecode,
    pub(crate) routing: Routing,
    /// The sequences, where they are not those of `pass`, which then has their rows and logits only.
    pub(crate) batch: Option<Batch<'s>>,
    /// Tokens of a sequence that the encoder gave; 0 without one.
    pub(crate) encoder_tokens: u64,
    /// Whether a bias is added to the scores of self-attention.
    pub(crate) has_bias: bool,
    /// Path before the layer number.
    pub(crate) prefix: &'m str,
    /// The layers that operators stand for; none outside.
    pub(crate) numbers: &'m [u32],
    pub(crate) sink: &'s mut dyn FnMut(&Operator<'m>),
}

/// What an operator costs in one step; [`Lowering::emit`] multiplies by the steps.
#[derive(Clone, Copy, Default)]
pub(crate) struct StepCost {
    pub(crate) parameters: u64,
    pub(crate) tensor: u64,
    pub(crate) vector: u64,
    pub(crate) traffic: Traffic,
}

impl<'m> Lowering<'_, 'm> {
    /// New tokens of all sequences in one step.
    pub(crate) fn rows(&self) -> u64 {
        self.pass.rows()
    }

    pub(crate) fn activation_bytes(&self, elements: u64) -> u64 {
        self.formats
            .activations
            .bytes_for(elements)
            .unwrap_or(u64::MAX)
    }

    /// Bytes of `elements` weights that are never quantized.
    pub(crate) fn plain_bytes(&self, elements: u64) -> u64 {
        self.formats.plain.bytes_for(elements).unwrap_or(u64::MAX)
    }

    /// Sends an operator whose steps all cost the same.
    pub(crate) fn emit(&mut self, kind: Kind, name: &'m str, shape: Shape, step: &StepCost) {
        self.emit_in(kind, name, shape, step, self.formats.activations);
    }

    /// As [`emit`](Self::emit), with matrix work in `compute`.
    pub(crate) fn emit_in(
        &mut self,
        kind: Kind,
        name: &'m str,
        shape: Shape,
        step: &StepCost,
        compute: DType,
    ) {
        let steps = self.pass.steps;
        let mut traffic = Traffic::default();
        traffic.add_times(&step.traffic, steps);
        let all = StepCost {
            parameters: step.parameters,
            tensor: step.tensor.saturating_mul(steps),
            vector: step.vector.saturating_mul(steps),
            traffic,
        };
        self.emit_sum(kind, name, shape, &all, compute, Basis::Counted);
    }

    /// Sends an operator with its work already summed over the steps.
    pub(crate) fn emit_sum(
        &mut self,
        kind: Kind,
        name: &'m str,
        shape: Shape,
        all: &StepCost,
        compute: DType,
        basis: Basis,
    ) {
        (self.sink)(&Operator {
            kind,
            path: Path {
                prefix: self.prefix,
                layer: self.numbers.first().copied(),
                name,
            },
            phase: self.pass.phase,
            shape,
            layers: u32::try_from(self.numbers.len().max(1)).unwrap_or(u32::MAX),
            numbers: self.numbers,
            steps: self.pass.steps,
            parameters: all.parameters,
            tensor: Work {
                dtype: compute,
                flops: all.tensor,
            },
            vector: Work {
                dtype: self.formats.activations,
                flops: all.vector,
            },
            traffic: all.traffic,
            basis,
        });
    }

    /// Calls `lower` once for all layers `numbers` under `prefix`; does nothing if `numbers` is empty.
    pub(crate) fn lower_inside(
        &mut self,
        prefix: &'m str,
        numbers: &'m [u32],
        lower: impl FnOnce(&mut Self),
    ) {
        if numbers.is_empty() {
            return;
        }
        let outside = (self.prefix, self.numbers);
        (self.prefix, self.numbers) = (prefix, numbers);
        lower(self);
        (self.prefix, self.numbers) = outside;
    }

    /// A linear layer over `rows`.
    pub(crate) fn emit_linear(&mut self, linear: &'m Linear, rows: u64) {
        let mut step = self.linear_step(linear, rows);
        step.parameters = linear.parameter_count();
        self.emit_in(
            Kind::Linear,
            linear.name,
            Shape::gemm(rows, linear.outputs, linear.inputs),
            &step,
            self.formats.compute_for(linear.quantized),
        );
    }

    /// The cost of a linear layer over `rows` in one step, parameters apart.
    pub(crate) fn linear_step(&self, linear: &Linear, rows: u64) -> StepCost {
        let outputs = rows.saturating_mul(linear.outputs);
        StepCost {
            parameters: 0,
            tensor: saturating_product(&[2, rows, linear.outputs, linear.inputs]),
            vector: if linear.bias { outputs } else { 0 },
            traffic: Traffic {
                // A call with no rows (the logits of an early chunk) reads nothing.
                weights: if rows == 0 {
                    0
                } else {
                    linear.stored_bytes(&self.formats)
                },
                activation_read: self.activation_bytes(rows.saturating_mul(linear.inputs)),
                activation_write: self.activation_bytes(outputs),
                ..Traffic::default()
            },
        }
    }

    /// A normalization of `rows` rows.
    pub(crate) fn emit_norm(&mut self, norm: &'m Norm, rows: u64) {
        let elements = rows.saturating_mul(norm.width);
        self.emit(
            Kind::Norm,
            norm.name,
            Shape::elementwise(rows, norm.width),
            &StepCost {
                parameters: norm.parameter_count(),
                tensor: 0,
                vector: elements.saturating_mul(norm.kind.flops_per_element()),
                traffic: Traffic {
                    weights: self.plain_bytes(norm.parameter_count()),
                    activation_read: self.activation_bytes(elements),
                    activation_write: self.activation_bytes(elements),
                    ..Traffic::default()
                },
            },
        );
    }

    /// Elementwise work: `reads` inputs and one output of `rows × width`, `flops` per element.
    pub(crate) fn emit_elementwise(
        &mut self,
        kind: Kind,
        name: &'m str,
        (rows, width): (u64, u64),
        reads: u64,
        flops: u64,
    ) {
        let elements = rows.saturating_mul(width);
        self.emit(
            kind,
            name,
            Shape::elementwise(rows, width),
            &StepCost {
                parameters: 0,
                tensor: 0,
                vector: elements.saturating_mul(flops),
                traffic: Traffic {
                    activation_read: self.activation_bytes(elements.saturating_mul(reads)),
                    activation_write: self.activation_bytes(elements),
                    ..Traffic::default()
                },
            },
        );
    }

    /// A residual addition over `width` columns of the pass's rows.
    pub(crate) fn emit_add(&mut self, name: &'m str, width: u64) {
        self.emit_elementwise(Kind::Add, name, (self.rows(), width), 2, 1);
    }

    /// Σ over steps and queries of one sequence of the keys met.
    pub(crate) fn keys_sum(&self, window: Option<u64>) -> u64 {
        match self.visible {
            Visible::Past(convention) => self.pass.keys_sum(convention, window),
            Visible::All => {
                saturating_product(&[self.pass.queries, self.pass.queries, self.pass.steps])
            }
            Visible::Sum(keys) => keys.saturating_mul(self.pass.steps),
        }
    }

    pub(crate) fn attention_convention(&self) -> AttentionConvention {
        match self.visible {
            Visible::Past(convention) => convention,
            Visible::All | Visible::Sum(_) => AttentionConvention::Full,
        }
    }

    /// What attention meets. A pass has one side.
    pub(crate) fn reach(&self, side: Side, window: Option<u64>) -> Reach {
        if let Some(batch) = self.batch {
            return batch.reach(side, self.attention_convention(), window);
        }
        let pass = &self.pass;
        let back = window.map_or(u64::MAX, |window| window.max(1) - 1);
        Reach {
            sequences: pass.batch,
            new: saturating_product(&[pass.rows(), pass.steps]),
            keys: saturating_product(&[self.keys_sum(window), pass.batch]),
            cached: saturating_product(&[pass.batch, pass.past_sum(back)]),
            queries: pass.queries,
            keys_at_first: pass.past.min(back).saturating_add(pass.queries),
            bounded: false,
        }
    }

    /// Distinct positions of the new tokens in one step. Sequences of a pass share theirs.
    pub(crate) fn distinct_positions(&self) -> u64 {
        self.batch
            .map_or(self.pass.queries, |batch| batch.distinct_positions())
    }

    /// Pairs of a query and a key over the steps of a pass, of one sequence.
    pub(crate) fn query_key_pairs(&self, convention: AttentionConvention) -> u64 {
        match self.visible {
            Visible::Past(_) => self.pass.keys_sum(convention, None),
            Visible::All | Visible::Sum(_) => self.keys_sum(None),
        }
    }

    /// Sequences whose decoder begins in this pass: it meets its encoder's result for the first time.
    pub(crate) fn new_sequences(&self) -> u64 {
        match self.batch {
            Some(batch) => batch.new_sequences(),
            None if self.pass.phase == Phase::Prefill && self.pass.past == 0 => self.pass.batch,
            None => 0,
        }
    }

    /// What the sequences of a side give a recurrent layer in one step, by chunks of `size` tokens.
    pub(crate) fn recurrence(&self, side: Side, size: u64) -> Recurrence {
        if let Some(batch) = self.batch {
            return batch.recurrence(side, size);
        }
        let pass = &self.pass;
        Recurrence {
            sequences: pass.batch,
            continued: pass.batch - self.new_sequences().min(pass.batch),
            new: pass.rows(),
            chunks: saturating_product(&[pass.batch, pass.queries.div_ceil(size)]),
            bounded: false,
        }
    }

    /// True where keys and values go to a cache.
    pub(crate) fn writes_kv_cache(&self) -> bool {
        matches!(self.visible, Visible::Past(_)) && self.pass.phase != Phase::Vision
    }
}
