use llmprof_units::{Basis, DType};

use super::{ActivationKind, Linear, Norm};
use crate::{
    count::saturating_product,
    formats::Formats,
    lower::{Lowering, StepCost},
    operator::{Kind, Phase, Shape, Traffic},
    step::{Recurrence, Side},
    weight::{Dims, Visitor, WeightSpec},
};

/// Tokens that the chunked form works on at a time, in transformers as in the kernels of serving engines.
pub(crate) const CHUNK_TOKENS: u64 = 64;

/// The projections to queries, keys, values, output gate `z`, write strength `b` and decay `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaProjections {
    /// Two matrices, by key head (Qwen3-Next).
    Fused { qkvz: Linear, ba: Linear },
    /// Four matrices, as Qwen3.5 stores them.
    Separate {
        qkv: Linear,
        z: Linear,
        b: Linear,
        a: Linear,
    },
}

impl DeltaProjections {
    pub(crate) fn all_linears(&self) -> Vec<&Linear> {
        match self {
            Self::Fused { qkvz, ba } => vec![qkvz, ba],
            Self::Separate { qkv, z, b, a } => vec![qkv, z, b, a],
        }
    }
}

/// A gated delta layer ("linear attention"): every value head keeps a matrix of key × value size instead of keys and values of all tokens.
///
/// For each token the matrix decays, what it holds under the token's key is replaced by the token's value as far as `b` says, and the query
/// reads it. Decode does that token by token; prefill does a chunk of [`CHUNK_TOKENS`] tokens by matrix products.
#[derive(Clone, Debug, PartialEq)]
pub struct GatedDelta {
    /// Module path inside its layer; also the path of the delta rule.
    pub name: &'static str,
    /// Heads of queries and keys.
    pub key_heads: u64,
    /// Heads of values, which share those of keys.
    pub value_heads: u64,
    pub key_dim: u64,
    pub value_dim: u64,
    pub projections: DeltaProjections,
    /// Path of the causal convolution over queries, keys and values, each channel by itself.
    pub conv: &'static str,
    /// Tokens that the convolution covers.
    pub kernel: u64,
    pub activation: ActivationKind,
    /// Paths of the decay of each value head and of what is added to `a`.
    pub decays: [&'static str; 2],
    /// Norm of each head's result.
    pub norm: Norm,
    /// Path of its product with the activated `z`.
    pub gate: &'static str,
    /// Back to the model's width.
    pub output: Linear,
    /// Number format of the per-sequence state matrices.
    pub state: DType,
}

/// Matrix work of a chunk of one value head.
///
/// With C tokens, keys of K and values of V elements: KKᵀ and QKᵀ (2C²K each), two triangular solves with V and K columns (C(C − 1) a column), scores
/// by values (2C²V), and three products with the state (2CKV each). Yang et al., "Gated Delta Networks" (2024), section 3.3.
pub(crate) fn chunk_flops(key_dim: u64, value_dim: u64) -> u64 {
    let scores = saturating_product(&[2, CHUNK_TOKENS, CHUNK_TOKENS, 2 * key_dim + value_dim]);
    let solves = saturating_product(&[CHUNK_TOKENS, CHUNK_TOKENS - 1, key_dim + value_dim]);
    let state = saturating_product(&[6, CHUNK_TOKENS, key_dim, value_dim]);
    scores.saturating_add(solves).saturating_add(state)
}

impl GatedDelta {
    /// Channels of the convolution: queries, keys and values.
    pub fn conv_channels(&self) -> u64 {
        2 * self.key_heads * self.key_dim + self.value_elements()
    }

    /// Elements of the values of a token.
    fn value_elements(&self) -> u64 {
        self.value_heads * self.value_dim
    }

    /// Elements of the matrices of one sequence.
    pub fn state_elements(&self) -> u64 {
        saturating_product(&[self.value_heads, self.key_dim, self.value_dim])
    }

    fn matrix_bytes(&self) -> u64 {
        let bytes = self.state.bytes_for(self.state_elements());
        bytes.unwrap_or(u64::MAX)
    }

    /// The inputs that the convolution needs of tokens before; transformers keeps one more.
    fn conv_bytes(&self, formats: &Formats) -> u64 {
        let kept = saturating_product(&[self.conv_channels(), self.kernel - 1]);
        formats.activations.bytes_for(kept).unwrap_or(u64::MAX)
    }

    /// What a sequence keeps between steps, however long it is.
    pub(crate) fn state_bytes(&self, formats: &Formats) -> u64 {
        self.matrix_bytes().saturating_add(self.conv_bytes(formats))
    }

    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let rows = lowering.rows();
        match &self.projections {
            DeltaProjections::Fused { qkvz, ba } => {
                for linear in [qkvz, ba] {
                    lowering.emit_linear(linear, rows);
                }
            }
            DeltaProjections::Separate { qkv, z, b, a } => {
                for linear in [qkv, z, b, a] {
                    lowering.emit_linear(linear, rows);
                }
            }
        }
        self.lower_convolution(lowering);
        let (chunked, recurrent) = split_sides(lowering);
        if let Some(side) = chunked {
            self.lower_scan(lowering, &lowering.recurrence(side, CHUNK_TOKENS), true);
        }
        if let Some(side) = recurrent {
            self.lower_scan(lowering, &lowering.recurrence(side, 1), false);
        }
        lowering.emit_norm(&self.norm, saturating_product(&[rows, self.value_heads]));
        let gated = self.activation.flops_per_element() + 1;
        lowering.emit_elementwise(
            Kind::Activation,
            self.gate,
            (rows, self.value_elements()),
            2,
            gated,
        );
        lowering.emit_linear(&self.output, rows);
    }

    /// The convolution with its activation: a product and a sum for each token under the kernel.
    fn lower_convolution<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let met = lowering.recurrence(Side::Both, 1);
        let elements = saturating_product(&[lowering.rows(), self.conv_channels()]);
        let parameters = saturating_product(&[self.conv_channels(), self.kernel]);
        let state = self.conv_bytes(&lowering.formats);
        let step = StepCost {
            parameters,
            tensor: 0,
            vector: saturating_product(&[
                elements,
                2 * self.kernel + self.activation.flops_per_element(),
            ]),
            traffic: Traffic {
                weights: lowering.plain_bytes(parameters),
                kv_read: saturating_product(&[met.continued, state]),
                kv_write: saturating_product(&[met.sequences, state]),
                activation_read: lowering.activation_bytes(elements),
                activation_write: lowering.activation_bytes(elements),
                boundary: 0,
            },
        };
        let shape = Shape::elementwise(lowering.rows(), self.conv_channels());
        emit_recurrent(lowering, Kind::Conv1d, self.conv, shape, &step, &met);
    }

    /// The delta rule with norms of queries and keys and with the gates.
    ///
    /// Vector work of a chunk: differences of decays, their exponentials and two products (4C²), scaling of keys, values and queries (4K + 3V a
    /// token), decay and sum of the state (2KV). Of a decoded token: decay (KV), what the key finds (2KV), the update (2KV), what the query reads (2KV),
    /// and 2V. Norms take three operations an element, gates eight a head.
    fn lower_scan<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, met: &Recurrence, chunked: bool) {
        let (k, v) = (self.key_dim, self.value_dim);
        let state = saturating_product(&[k, v]);
        let (tensor, vector) = if chunked {
            let each = saturating_product(&[4, CHUNK_TOKENS, CHUNK_TOKENS])
                .saturating_add(saturating_product(&[CHUNK_TOKENS, 4 * k + 3 * v]))
                .saturating_add(2 * state);
            let chunks = saturating_product(&[met.chunks, self.value_heads]);
            (
                saturating_product(&[chunks, chunk_flops(k, v)]),
                saturating_product(&[chunks, each]),
            )
        } else {
            let tokens = saturating_product(&[met.new, self.value_heads]);
            (0, saturating_product(&[tokens, 7 * state + 2 * v]))
        };
        let prepared =
            saturating_product(&[met.new, 6 * k * self.key_heads + 8 * self.value_heads]);
        let inputs = self.conv_channels() + 2 * self.value_heads;
        let bytes = self.matrix_bytes();
        let step = StepCost {
            parameters: 2 * self.value_heads,
            tensor,
            vector: vector.saturating_add(prepared),
            traffic: Traffic {
                weights: lowering.plain_bytes(2 * self.value_heads),
                kv_read: saturating_product(&[met.continued, bytes]),
                kv_write: saturating_product(&[met.sequences, bytes]),
                activation_read: lowering.activation_bytes(saturating_product(&[met.new, inputs])),
                activation_write: lowering
                    .activation_bytes(saturating_product(&[met.new, self.value_elements()])),
                boundary: 0,
            },
        };
        let shape = Shape {
            groups: saturating_product(&[met.sequences, self.value_heads]),
            m: met.new.div_ceil(met.sequences.max(1)),
            n: v,
            k,
        };
        emit_recurrent(lowering, Kind::DeltaRule, self.name, shape, &step, met);
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        for linear in self.projections.all_linears() {
            linear.visit_weights(visitor);
        }
        let conv = Dims::from([self.conv_channels(), 1, self.kernel]);
        visitor.visit(WeightSpec::new(self.conv, "weight", conv));
        for name in self.decays {
            visitor.visit(WeightSpec::new(name, "", Dims::from([self.value_heads])));
        }
        self.norm.visit_weights(visitor);
        self.output.visit_weights(visitor);
    }
}

/// Sends what one step costs; a step of which not all is known stands alone.
fn emit_recurrent<'m>(
    lowering: &mut Lowering<'_, 'm>,
    kind: Kind,
    name: &'m str,
    shape: Shape,
    step: &StepCost,
    met: &Recurrence,
) {
    if met.bounded {
        let compute = lowering.formats.activations;
        lowering.emit_sum(kind, name, shape, step, compute, Basis::Derived);
    } else {
        lowering.emit(kind, name, shape, step);
    }
}

/// The sequences that are scanned by chunks, and those that go on token by token.
fn split_sides(lowering: &Lowering<'_, '_>) -> (Option<Side>, Option<Side>) {
    if lowering.batch.is_some_and(|batch| batch.step.is_mixed()) {
        (Some(Side::Prefill), Some(Side::Decode))
    } else if lowering.pass.phase == Phase::Decode {
        (None, Some(Side::Both))
    } else {
        (Some(Side::Both), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heads of 128: 2 × 64² × 384 + 64 × 63 × 256 + 6 × 64 × 128² = 3,145,728 + 1,032,192 + 6,291,456.
    #[test]
    fn a_chunk_by_hand() {
        assert_eq!(chunk_flops(128, 128), 10_469_376);
        assert_eq!(
            chunk_flops(16, 12),
            2 * 4096 * 44 + 64 * 63 * 28 + 6 * 64 * 192
        );
    }
}
