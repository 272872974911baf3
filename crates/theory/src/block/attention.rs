use llmprof_units::Basis;

use super::{Linear, Norm, Rope, RopeTable};
use crate::{
    count::saturating_product,
    lower::{Lowering, StepCost},
    operator::{Kind, Shape, Traffic},
    step::Side,
    weight::{Dims, Visitor, WeightSpec},
};

/// How a fused projection lays out queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkvOrder {
    /// All queries, all keys, all values (GPT-2, Phi-3).
    Concatenated,
    /// Query, key and value of head 0, then of head 1, … (GPT-NeoX).
    PerHead,
}

/// The projections to queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projections {
    Separate {
        q: Linear,
        k: Linear,
        v: Linear,
    },
    /// One matrix for all three.
    Fused {
        qkv: Linear,
        /// The order of its outputs.
        order: QkvOrder,
    },
}

/// Attention with `heads` query heads that share `kv_heads` key and value heads.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Module path inside its layer (`self_attn`); also the path of the attention operator.
    pub name: &'static str,
    pub rope_name: &'static str,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    /// To queries, keys and values.
    pub projections: Projections,
    /// From the heads back to the model's width.
    pub output: Linear,
    /// Norm of each query head after projection.
    pub q_norm: Option<Norm>,
    /// Norm of each key head after projection.
    pub k_norm: Option<Norm>,
    pub rope: Option<Rope>,
    /// A table of angles of this layer's own, where layers do not share one.
    pub rope_table: Option<RopeTable>,
    /// Keys that a query sees, itself included; absent is all.
    pub window: Option<u64>,
    /// Path of a learned logit per head that takes part in the softmax (GPT-OSS).
    pub sinks: Option<&'static str>,
    /// Scores become `cap × tanh(score ÷ cap)` (Gemma 2).
    pub softcap: Option<f64>,
    /// What scores are multiplied by.
    pub scale: f64,
    /// Path of the product with sigmoids of a gate that the query projection gives beside each query (Qwen3-Next).
    pub gate: Option<&'static str>,
    /// How transformers runs it in eager mode.
    pub scores: Scores,
}

/// Where the scores of attention are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scores {
    /// In a fused kernel, where nothing forbids that.
    #[default]
    Fused,
    /// In tensors: the type has no fused attention.
    Tensors,
    /// The same, of queries and keys cast to 32 bits.
    WideTensors,
}

impl Attention {
    /// Attention over all keys, with neither rotation nor norms: what most models have, and where the others begin.
    pub(crate) fn new(
        [name, rope_name]: [&'static str; 2],
        [heads, kv_heads, head_dim]: [u64; 3],
        projections: Projections,
        output: Linear,
    ) -> Self {
        Self {
            name,
            rope_name,
            heads,
            kv_heads,
            head_dim,
            projections,
            output,
            q_norm: None,
            k_norm: None,
            rope: None,
            rope_table: None,
            window: None,
            sinks: None,
            softcap: None,
            scale: (head_dim as f64).powf(-0.5),
            gate: None,
            scores: Scores::default(),
        }
    }

    /// Elements that the cache gains per token.
    pub(crate) fn kv_elements(&self) -> u64 {
        saturating_product(&[2, self.kv_heads, self.head_dim])
    }

    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let rows = lowering.rows();
        match &self.projections {
            Projections::Separate { q, k, v } => {
                for linear in [q, k, v] {
                    lowering.emit_linear(linear, rows);
                }
            }
            Projections::Fused { qkv, .. } => lowering.emit_linear(qkv, rows),
        }
        if let Some(norm) = &self.q_norm {
            lowering.emit_norm(
                norm,
                saturating_product(&[rows, self.heads * self.head_dim / norm.width]),
            );
        }
        if let Some(norm) = &self.k_norm {
            lowering.emit_norm(
                norm,
                saturating_product(&[rows, self.kv_heads * self.head_dim / norm.width]),
            );
        }
        if let Some(table) = &self.rope_table {
            table.lower(lowering);
        }
        if let Some(rope) = &self.rope {
            rope.lower(
                lowering,
                self.rope_name,
                self.heads + self.kv_heads,
                self.head_dim,
            );
        }
        let sinks = if self.sinks.is_some() { self.heads } else { 0 };
        Core {
            name: self.name,
            heads: self.heads,
            key_dim: self.head_dim,
            value_dim: self.head_dim,
            kv_elements: self.kv_elements(),
            new_elements: self.kv_elements(),
            window: self.window,
            sinks,
            softcap: self.softcap.is_some(),
        }
        .lower(lowering, Side::Both);
        if let Some(gate) = self.gate {
            // A sigmoid is an exponential, a sum and a division.
            lowering.emit_elementwise(Kind::Activation, gate, (rows, self.output.inputs), 2, 4);
        }
        lowering.emit_linear(&self.output, rows);
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        match &self.projections {
            Projections::Separate { q, k, v } => {
                for linear in [q, k, v] {
                    linear.visit_weights(visitor);
                }
            }
            Projections::Fused { qkv, .. } => qkv.visit_weights(visitor),
        }
        for norm in [&self.q_norm, &self.k_norm].into_iter().flatten() {
            norm.visit_weights(visitor);
        }
        if let Some(sinks) = self.sinks {
            visitor.visit(WeightSpec::new(sinks, "", Dims::from([self.heads])));
        }
        self.output.visit_weights(visitor);
    }
}

/// Scores, softmax and weighted values; queries and keys are computed before.
pub(crate) struct Core {
    pub(crate) name: &'static str,
    pub(crate) heads: u64,
    pub(crate) key_dim: u64,
    pub(crate) value_dim: u64,
    /// Elements of the cache per token.
    pub(crate) kv_elements: u64,
    /// Elements of keys and values per new token, as the kernel reads them.
    pub(crate) new_elements: u64,
    pub(crate) window: Option<u64>,
    pub(crate) sinks: u64,
    pub(crate) softcap: bool,
}

impl Core {
    /// Softmax costs five operations a score (scale, subtract the maximum, exponential, sum, divide), a soft cap three
    /// more, a bias one. Scores themselves count no bytes: a fused kernel never writes them.
    pub(crate) fn lower<'m>(&self, lowering: &mut Lowering<'_, 'm>, side: Side)
    where
        Self: 'm,
    {
        let reach = lowering.reach(side, self.window);
        let scores = saturating_product(&[reach.keys, self.heads]);
        let tokens = reach.new;
        let kv_bytes = |tokens: u64| {
            lowering
                .formats
                .kv
                .bytes_for(saturating_product(&[tokens, self.kv_elements]))
                .unwrap_or(u64::MAX)
        };
        let (kv_read, kv_write) = if lowering.writes_kv_cache() {
            (kv_bytes(reach.cached), kv_bytes(tokens))
        } else {
            (0, 0)
        };
        let query = saturating_product(&[self.heads, self.key_dim]);
        let step = StepCost {
            parameters: self.sinks,
            tensor: saturating_product(&[2, scores, self.key_dim + self.value_dim]),
            vector: saturating_product(&[
                scores,
                if self.softcap { 8 } else { 5 } + u64::from(lowering.has_bias),
            ]),
            traffic: Traffic {
                weights: saturating_product(&[
                    lowering.plain_bytes(self.sinks),
                    lowering.pass.steps,
                ]),
                kv_read,
                kv_write,
                activation_read: lowering
                    .activation_bytes(saturating_product(&[tokens, query + self.new_elements])),
                activation_write: lowering.activation_bytes(saturating_product(&[
                    tokens,
                    self.heads,
                    self.value_dim,
                ])),
                boundary: 0,
            },
        };
        let shape = Shape {
            groups: saturating_product(&[reach.sequences, self.heads]),
            m: reach.queries,
            n: reach.keys_at_first,
            k: self.key_dim,
        };
        let compute = lowering.formats.activations;
        lowering.emit_sum(
            Kind::Attention,
            self.name,
            shape,
            &step,
            compute,
            if reach.bounded {
                Basis::Derived
            } else {
                Basis::Counted
            },
        );
    }
}
