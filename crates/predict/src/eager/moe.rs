//! Mixtures of experts as transformers 5 runs them on a GPU: pairs sorted by expert, two grouped GEMMs.

use super::EagerStep;
use llmprof_theory::{
    block::{ActivationKind, ExpertWeights, Moe, Scoring},
    kernels::{Access, Kernel, Stored},
};

impl EagerStep<'_> {
    pub(super) fn lower_moe(&mut self, moe: &Moe) {
        let weight_size = self.lower_router(moe);
        self.lower_experts(moe, weight_size);
        let Some(shared) = &moe.shared else { return };
        self.lower_mlp(shared);
        let elements = self.rows * moe.experts.hidden as f64;
        if let Some(gate) = &moe.shared_gate {
            self.emit_gemm(self.rows, gate.outputs as f64, gate.inputs as f64);
            self.emit_stream(
                Access::Transcendental,
                2.0 * self.rows * self.size,
                self.rows,
            );
            self.emit_stream(Access::Broadcast, 2.0 * elements * self.size, elements);
        }
        self.emit_add(elements);
    }

    /// The choice of experts. Returns the bytes of a routing weight.
    fn lower_router(&mut self, moe: &Moe) -> f64 {
        let (rows, size) = (self.rows, self.size);
        let gate = &moe.router.gate;
        let (n, k) = (gate.outputs as f64, gate.inputs as f64);
        let scores = rows * n;
        let chosen = rows * moe.experts.top_k as f64;
        // DeepSeek multiplies in 32 bits, its weights cast at every step.
        let wide = self.habits.wide_router;
        if wide && size < 4.0 {
            self.emit_stream(Access::Widen, rows * k * (size + 4.0), rows * k);
            self.emit_stream(Access::Widen, n * k * (size + 4.0), n * k);
            self.emit_kernel(&Kernel::Gemm {
                groups: 1.0,
                m: rows,
                n,
                k,
                size: 4.0,
                aligned: true,
                stored: Stored::Plain,
            });
        } else {
            self.emit_gemm(rows, n, k);
        }
        match moe.router.scoring {
            Scoring::Softmax => {
                if !wide && size < 4.0 {
                    self.emit_stream(Access::Widen, scores * (size + 4.0), scores);
                }
                self.emit_stream(Access::Softmax, scores * 8.0, scores);
                self.grouped_choice(moe, scores);
                self.emit_stream(Access::TopK, scores * 4.0, scores);
            }
            Scoring::SoftmaxOfChosen => {
                self.emit_stream(Access::TopK, scores * size, scores);
                self.emit_stream(Access::Softmax, chosen * 2.0 * size, chosen);
            }
            Scoring::Sigmoid => {
                self.emit_stream(Access::Transcendental, scores * 8.0, scores);
                self.emit_stream(Access::Broadcast, scores * 8.0, scores);
                self.grouped_choice(moe, scores);
                self.emit_stream(Access::TopK, scores * 4.0, scores);
                self.emit_stream(Access::Gather, chosen * 16.0, chosen);
            }
        }
        if moe.router.normalize {
            self.by_row(Access::Reduce, chosen * 4.0, chosen, chosen / rows);
            self.emit_stream(Access::Broadcast, chosen * 8.0, chosen);
            if moe.router.scoring == Scoring::Sigmoid {
                self.emit_stream(Access::Pointwise, rows * 8.0, rows);
            }
        }
        if wide {
            self.emit_stream(Access::Pointwise, chosen * 8.0, chosen);
            4.0
        } else {
            if moe.router.scoring == Scoring::Softmax {
                self.emit_stream(Access::Pointwise, chosen * 6.0, chosen);
            }
            size
        }
    }

    /// The choice of groups before that of experts (DeepSeek-V3 always takes this way).
    fn grouped_choice(&mut self, moe: &Moe, scores: f64) {
        let sigmoid = moe.router.scoring == Scoring::Sigmoid;
        let groups = match moe.router.groups {
            Some((groups, _)) if groups > 1 => groups as f64,
            _ if sigmoid => 1.0,
            _ => return,
        };
        let per_row = self.rows * groups;
        if sigmoid {
            self.emit_stream(Access::TopK, scores * 4.0, scores);
        }
        self.by_row(Access::Reduce, per_row * 8.0, per_row * 2.0, 2.0);
        self.emit_stream(Access::TopK, per_row * 4.0, per_row);
        self.emit_stream(Access::Fill, per_row * 4.0, per_row);
        self.emit_stream(Access::Gather, per_row * 8.0, per_row);
        self.emit_stream(Access::Copy, scores * 4.0, scores);
        self.emit_stream(Access::Pointwise, scores * 5.0, scores);
        self.emit_stream(Access::Pointwise, scores * 2.0, scores);
        self.emit_stream(Access::Pointwise, scores * 9.0, scores);
    }

    fn lower_experts(&mut self, moe: &Moe, weight_size: f64) {
        let experts = &moe.experts;
        let (rows, size) = (self.rows, self.size);
        let pairs = rows * experts.top_k as f64;
        let (hidden, inner) = (experts.hidden as f64, experts.intermediate as f64);
        let count = experts.count as f64;
        let biased = matches!(experts.weights, ExpertWeights::PackedInterleaved { .. });
        let (outer, middle) = (pairs * hidden, pairs * inner);

        self.emit_stream(Access::Sort, pairs * 24.0, pairs);
        self.emit_stream(Access::Transcendental, pairs * 16.0, pairs);
        self.emit_stream(Access::Gather, 2.0 * outer * size, outer);
        self.emit_stream(Access::Gather, pairs * (8.0 + 2.0 * weight_size), pairs);
        self.emit_stream(Access::Pointwise, pairs * 12.0, pairs);
        self.emit_stream(Access::Histogram, pairs * 4.0, pairs);
        self.emit_stream(Access::Scan, count * 8.0, count);
        self.emit_stream(Access::Pointwise, pairs * 9.0, pairs);
        self.emit_stream(Access::Pointwise, pairs * 16.0, pairs);
        self.emit_stream(Access::Broadcast, 2.0 * outer * size, outer);

        self.emit_grouped(count, pairs, 2.0 * inner, hidden);
        if biased {
            self.emit_expert_bias(2.0 * middle);
        }
        self.mask_rows(2.0 * middle);
        self.emit_gate(experts.activation, middle);
        self.emit_grouped(count, pairs, hidden, inner);
        if biased {
            self.emit_expert_bias(outer);
        }
        self.mask_rows(outer);

        // A weight in 32 bits makes the weighted results so.
        let wide = size.max(weight_size);
        self.emit_stream(Access::Broadcast, outer * (size + wide), outer);
        self.emit_stream(Access::Fill, pairs * 8.0, pairs);
        self.emit_stream(Access::Gather, pairs * 24.0, pairs);
        self.emit_stream(Access::Gather, 2.0 * outer * wide, outer);
        self.emit_stream(
            Access::Pointwise,
            outer * wide + rows * hidden * size,
            outer,
        );
        if wide > size {
            let elements = rows * hidden;
            self.emit_stream(Access::Pointwise, elements * (wide + size), elements);
        }
    }

    fn emit_grouped(&mut self, experts: f64, pairs: f64, n: f64, k: f64) {
        let tokens = self.distinct_tokens;
        self.emit_kernel(&Kernel::Grouped {
            experts,
            tokens,
            pairs,
            chosen: pairs / self.rows.max(1.0),
            n,
            k,
            size: self.size,
            stored: Stored::Plain,
        });
    }

    /// The biases of each row's expert, gathered and added.
    fn emit_expert_bias(&mut self, elements: f64) {
        self.emit_stream(Access::Gather, 2.0 * elements * self.size, elements);
        self.emit_stream(Access::Pointwise, 3.0 * elements * self.size, elements);
    }

    /// Rows beyond the last expert are zeroed in a copy.
    fn mask_rows(&mut self, elements: f64) {
        self.emit_stream(Access::Pointwise, 2.0 * elements * self.size, elements);
        self.emit_stream(Access::Broadcast, 2.0 * elements * self.size, elements);
    }

    fn emit_gate(&mut self, activation: ActivationKind, elements: f64) {
        let bytes = elements * self.size;
        if activation == ActivationKind::ClampedSwiglu {
            self.emit_stream(Access::Broadcast, 2.0 * bytes, elements);
            self.emit_stream(Access::Broadcast, 2.0 * bytes, elements);
            self.emit_stream(Access::Pointwise, 2.0 * bytes, elements);
            self.emit_stream(Access::Transcendental, 2.0 * bytes, elements);
            self.emit_stream(Access::Pointwise, 3.0 * bytes, elements);
            self.emit_stream(Access::Pointwise, 2.0 * bytes, elements);
            self.emit_stream(Access::Pointwise, 3.0 * bytes, elements);
            return;
        }
        self.emit_stream(Access::Broadcast, 2.0 * bytes, elements);
        self.emit_stream(Access::Broadcast, 3.0 * bytes, elements);
    }
}
