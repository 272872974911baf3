use llmprof_units::Basis;

use super::{Linear, Norm};
use crate::{
    count::saturating_product,
    lower::{Lowering, StepCost},
    operator::{Kind, Shape, Traffic},
    step::Side,
    weight::Visitor,
};

/// Attention of a decoder's tokens to what an encoder gave. Keys and values are made once per sequence and kept.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossAttention {
    /// Module path inside its layer; also the path of the attention operator.
    pub name: &'static str,
    pub norm: Norm,
    pub heads: u64,
    pub head_dim: u64,
    /// Applied to the decoder's tokens, unlike `k` and `v`.
    pub q: Linear,
    /// Applied to the encoder's tokens, once per sequence.
    pub k: Linear,
    pub v: Linear,
    /// From the heads back to the model's width.
    pub output: Linear,
}

impl CrossAttention {
    /// Elements that the cache holds per token of the encoder.
    pub(crate) fn kv_elements(&self) -> u64 {
        saturating_product(&[2, self.heads, self.head_dim])
    }

    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let rows = lowering.rows();
        lowering.emit_norm(&self.norm, rows);
        lowering.emit_linear(&self.q, rows);
        let encoded = saturating_product(&[lowering.new_sequences(), lowering.encoder_tokens]);
        if encoded > 0 {
            // Chunks of a prompt share what the first of them makes.
            let steps = std::mem::replace(&mut lowering.pass.steps, 1);
            lowering.emit_linear(&self.k, encoded);
            lowering.emit_linear(&self.v, encoded);
            lowering.pass.steps = steps;
        }
        self.lower_core(lowering, encoded);
        lowering.emit_linear(&self.output, rows);
    }

    /// Every query meets all tokens of its encoder. `encoded` of them were made in this pass; the others are read from the cache.
    fn lower_core<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, encoded: u64) {
        let reach = lowering.reach(Side::Both, None);
        let keys = lowering.encoder_tokens;
        let scores = saturating_product(&[reach.new, keys, self.heads]);
        let visits = saturating_product(&[reach.sequences, lowering.pass.steps, keys]);
        let kv_bytes = |tokens: u64| {
            lowering
                .formats
                .kv
                .bytes_for(saturating_product(&[tokens, self.kv_elements()]))
                .unwrap_or(u64::MAX)
        };
        let width = saturating_product(&[self.heads, self.head_dim]);
        let queries = saturating_product(&[reach.new, width]);
        let fresh = saturating_product(&[encoded, self.kv_elements()]);
        let step = StepCost {
            parameters: 0,
            tensor: saturating_product(&[4, scores, self.head_dim]),
            vector: saturating_product(&[5, scores]),
            traffic: Traffic {
                kv_read: kv_bytes(visits.saturating_sub(encoded)),
                kv_write: kv_bytes(encoded),
                activation_read: lowering.activation_bytes(queries.saturating_add(fresh)),
                activation_write: lowering.activation_bytes(queries),
                ..Traffic::default()
            },
        };
        let shape = Shape {
            groups: saturating_product(&[reach.sequences, self.heads]),
            m: reach.queries,
            n: keys,
            k: self.head_dim,
        };
        let compute = lowering.formats.activations;
        let basis = Basis::Counted;
        lowering.emit_sum(Kind::Attention, self.name, shape, &step, compute, basis);
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        self.norm.visit_weights(visitor);
        for linear in [&self.q, &self.k, &self.v, &self.output] {
            linear.visit_weights(visitor);
        }
    }
}
