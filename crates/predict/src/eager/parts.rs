//! Embeddings, norms, rotations and feed-forward networks.

use super::{EagerStep, Rotation};
use llmprof_theory::{
    Decoder, GELU_NEW,
    block::{ActivationKind, Mlp, MlpInput, Norm, NormKind, RopeTable},
    kernels::{Access, Kernel, Stored},
};

impl EagerStep<'_> {
    pub(super) fn lower_setup(&mut self, decoder: &Decoder) {
        let setup = self.habits.setup_kernels;
        let embedded = self.rows * decoder.embedding.width as f64;
        self.emit_stream(Access::Gather, 2.0 * embedded * self.size, embedded);
        if decoder.embedding.scale.is_some() {
            self.emit_stream(Access::Pointwise, 2.0 * embedded * self.size, embedded);
        }
        // Ranges of positions, and what is made of them.
        self.emit_small(Access::Fill, setup / 2.0);
        self.emit_small(Access::Pointwise, setup / 2.0);
        if let Some(table) = &decoder.positions {
            let elements = self.rows * table.width as f64;
            // GPT-2 looks up the positions of one sequence, OPT those of each.
            let looked_up = if setup > 2.0 {
                elements
            } else {
                elements / self.batch
            };
            self.emit_stream(Access::Gather, 2.0 * looked_up * self.size, looked_up);
            self.emit_stream(
                Access::Broadcast,
                (2.0 * elements + looked_up) * self.size,
                elements,
            );
        }
        if let Some(linear) = &decoder.project_in {
            self.emit_gemm(self.rows, linear.outputs as f64, linear.inputs as f64);
        }
        for table in &decoder.tables {
            self.rope_table(table);
        }
    }

    /// Angles from positions, cosines and sines, in 32 bits; all sequences share one table.
    pub(super) fn rope_table(&mut self, table: &RopeTable) {
        let dims = table.rope.dims as f64;
        let wide = self.queries * table.axes as f64 * dims * 4.0;
        self.emit_small(Access::Pointwise, 1.0);
        self.emit_kernel(&Kernel::Gemm {
            groups: 1.0,
            m: dims / 2.0,
            n: self.queries,
            k: 1.0,
            size: 4.0,
            aligned: true,
            stored: Stored::Plain,
        });
        if self.habits.rotation == Rotation::Complex {
            for access in [Access::Fill, Access::Transcendental, Access::Pointwise] {
                self.emit_stream(access, wide * 2.0, wide / 4.0);
            }
            return;
        }
        // GPT-OSS keeps one half, and joins nothing.
        let wide = if self.habits.eager_attention {
            wide / 2.0
        } else {
            self.emit_stream(Access::Concat, 2.0 * wide, wide / 4.0);
            wide
        };
        for access in [Access::Transcendental, Access::Pointwise] {
            self.emit_stream(access, 2.0 * wide, wide / 4.0);
            self.emit_stream(access, 2.0 * wide, wide / 4.0);
        }
        if self.size < 4.0 {
            for _ in 0..2 {
                self.emit_stream(Access::Pointwise, wide * 1.5, wide / 4.0);
            }
        }
    }

    pub(super) fn emit_add(&mut self, elements: f64) {
        self.emit_stream(Access::Pointwise, 3.0 * elements * self.size, elements);
    }

    /// A norm of `rows` rows; `dense` says whether they lie one after the other.
    pub(super) fn lower_norm(&mut self, norm: &Norm, rows: f64, dense: bool) {
        let width = norm.width as f64;
        let elements = rows * width;
        if elements == 0.0 {
            return;
        }
        if norm.kind == NormKind::Layer {
            self.by_row(Access::Norm, 2.0 * elements * self.size, elements, width);
            return;
        }
        let narrow = self.size < 4.0;
        let (own, wide) = (elements * self.size, elements * 4.0);
        let pointwise = if dense {
            Access::Pointwise
        } else {
            Access::Broadcast
        };
        // One row needs no weight broadcast to it.
        let by_weight = if rows > 1.0 {
            Access::Broadcast
        } else {
            Access::Pointwise
        };
        if narrow {
            self.emit_stream(Access::Widen, own + wide, elements);
        }
        self.emit_stream(Access::Pointwise, 2.0 * wide, elements);
        self.by_row(Access::Reduce, wide, elements, width);
        for _ in 0..2 {
            self.emit_stream(Access::Pointwise, rows * 8.0, rows);
        }
        self.emit_stream(Access::Broadcast, 2.0 * wide, elements);
        let weighted = |step: &mut Self, bytes: f64| {
            step.emit_stream(by_weight, 2.0 * bytes, elements);
        };
        let cast = |step: &mut Self| {
            if narrow {
                step.emit_stream(pointwise, own + wide, elements);
            }
        };
        match norm.kind {
            NormKind::RmsUnitOffset => {
                if narrow {
                    self.emit_stream(Access::Widen, width * (self.size + 4.0), width);
                }
                self.emit_stream(Access::Pointwise, width * 8.0, width);
                weighted(self, wide);
                cast(self);
            }
            NormKind::Rms if self.habits.wide_norm_weight => {
                weighted(self, wide);
                cast(self);
            }
            NormKind::Rms | NormKind::Layer => {
                cast(self);
                weighted(self, own);
            }
        }
    }

    /// Rotation of `heads` heads of which `dims` elements rotate and `passed` do not.
    pub(super) fn lower_rotation(&mut self, heads: f64, dims: f64, passed: f64) {
        let elements = self.rows * heads * dims;
        let rotated_bytes = elements * self.size;
        let table = self.queries * dims * self.size;
        // A single token of a single head needs no index arithmetic.
        let access = if self.queries * heads > 1.0 && self.rows * heads > 1.0 {
            Access::Broadcast
        } else {
            Access::Pointwise
        };
        match self.habits.rotation {
            Rotation::Joined => {
                self.emit_stream(access, 2.0 * rotated_bytes + table, elements);
                self.emit_stream(access, rotated_bytes, elements / 2.0);
                self.emit_stream(Access::Concat, 2.0 * rotated_bytes, elements);
                self.emit_stream(access, 2.0 * rotated_bytes + table, elements);
                let sum = if self.queries > 1.0 {
                    access
                } else {
                    Access::Pointwise
                };
                self.emit_stream(sum, 3.0 * rotated_bytes, elements);
                if passed > 0.0 || self.habits.joins_passed {
                    let all = self.rows * heads * (dims + passed);
                    self.emit_stream(Access::Concat, 2.0 * all * self.size, all);
                }
            }
            Rotation::ByHalf => {
                for _ in 0..4 {
                    self.emit_stream(access, rotated_bytes + table / 2.0, elements / 2.0);
                }
                for _ in 0..2 {
                    self.emit_stream(access, 1.5 * rotated_bytes, elements / 2.0);
                }
                self.emit_stream(Access::Concat, 2.0 * rotated_bytes, elements);
            }
            Rotation::Complex => {
                self.emit_stream(Access::Widen, rotated_bytes + elements * 4.0, elements);
                self.emit_stream(access, elements * 8.0, elements / 2.0);
                self.emit_stream(access, rotated_bytes + elements * 4.0, elements);
            }
        }
    }

    pub(super) fn lower_mlp(&mut self, mlp: &Mlp) {
        let rows = self.rows;
        let mut access = Access::Transcendental;
        let mut product = Access::Pointwise;
        let gated = match &mlp.input {
            MlpInput::Plain(up) => {
                self.emit_gemm(rows, up.outputs as f64, up.inputs as f64);
                false
            }
            MlpInput::Gated { gate, up } => {
                self.emit_gemm(rows, gate.outputs as f64, gate.inputs as f64);
                self.emit_gemm(rows, up.outputs as f64, up.inputs as f64);
                true
            }
            MlpInput::Fused(both) => {
                self.emit_gemm(rows, both.outputs as f64, both.inputs as f64);
                if rows > 1.0 {
                    (access, product) = (Access::Broadcast, Access::Broadcast);
                }
                true
            }
        };
        let elements = rows * mlp.down.inputs as f64;
        let bytes = elements * self.size;
        let split = self.habits.split_gelu || mlp.activation_name == GELU_NEW;
        self.lower_activation(mlp.activation, split, access, elements);
        if gated {
            self.emit_stream(product, 3.0 * bytes, elements);
        }
        self.emit_gemm(rows, mlp.down.outputs as f64, mlp.down.inputs as f64);
    }

    fn lower_activation(
        &mut self,
        kind: ActivationKind,
        split: bool,
        access: Access,
        elements: f64,
    ) {
        let bytes = elements * self.size;
        match kind {
            ActivationKind::GeluTanh if split => {
                for reads in [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 2.0] {
                    self.emit_stream(Access::Pointwise, (reads + 1.0) * bytes, elements);
                }
                self.emit_stream(Access::Transcendental, 2.0 * bytes, elements);
            }
            ActivationKind::QuickGelu => {
                self.emit_stream(Access::Pointwise, 2.0 * bytes, elements);
                self.emit_stream(Access::Transcendental, 2.0 * bytes, elements);
                self.emit_stream(Access::Pointwise, 3.0 * bytes, elements);
            }
            ActivationKind::Relu if access == Access::Transcendental => {
                self.emit_stream(Access::Pointwise, 2.0 * bytes, elements);
            }
            _ => self.emit_stream(access, 2.0 * bytes, elements),
        }
    }
}
