//! The unit of cost: one operator of one phase, with its exact work and traffic.

use std::fmt;

use llmprof_units::{Basis, DType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of inference with its own cost: what happens once per image, once per prompt, or once per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Image towers and the projection of their features into the decoder's width.
    Vision,
    /// The encoder over what the decoder will read of: tokens, audio.
    Encoder,
    /// The decoder over the prompt.
    Prefill,
    /// The decoder over one token per sequence and step.
    Decode,
}

impl Phase {
    /// The name used in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vision => "vision",
            Self::Encoder => "encoder",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The kind of work of an operator, by which tables group operators.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "OperatorKind")]
pub enum Kind {
    /// Rows gathered from a table by token id.
    Embedding,
    /// Rows of a learned position table added to the input.
    PositionEmbedding,
    /// RMS norm or layer norm, with its weight and bias.
    Norm,
    /// A dense GEMM with a weight.
    Linear,
    /// The table of rotation angles for a pass.
    RopeTable,
    /// Rotation of queries and keys by position.
    Rope,
    /// Scores, softmax and weighted values, with the reads and writes of the KV cache.
    Attention,
    /// The state of a gated delta layer, decayed, corrected and read for each token.
    DeltaRule,
    /// A nonlinearity, with the product of gate and up projection where there is a gate.
    Activation,
    Add,
    /// A multiplication by a constant (embedding scale, routed scaling, soft cap of logits).
    Scale,
    /// The choice of experts: gate GEMM, scores, top-k.
    Route,
    /// The chosen experts' feed-forward networks over their tokens, and the weighted sum of their results.
    Experts,
    /// A convolution over an image.
    Conv2d,
    /// A convolution along the time axis, as in audio encoders and gated delta layers.
    Conv1d,
    /// Rearrangement of image features without arithmetic.
    Reorder,
}

impl Kind {
    /// All kinds, in the order of the enum.
    pub const ALL: [Self; 16] = [
        Self::Embedding,
        Self::PositionEmbedding,
        Self::Norm,
        Self::Linear,
        Self::RopeTable,
        Self::Rope,
        Self::Attention,
        Self::DeltaRule,
        Self::Activation,
        Self::Add,
        Self::Scale,
        Self::Route,
        Self::Experts,
        Self::Conv2d,
        Self::Conv1d,
        Self::Reorder,
    ];

    /// The name used in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::PositionEmbedding => "position_embedding",
            Self::Norm => "norm",
            Self::Linear => "linear",
            Self::RopeTable => "rope_table",
            Self::Rope => "rope",
            Self::Attention => "attention",
            Self::DeltaRule => "delta_rule",
            Self::Activation => "activation",
            Self::Add => "add",
            Self::Scale => "scale",
            Self::Route => "route",
            Self::Experts => "experts",
            Self::Conv2d => "conv2d",
            Self::Conv1d => "conv1d",
            Self::Reorder => "reorder",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The place of an operator in the model, printed only when somebody reads it.
///
/// It is the module path of the checkpoint (`model.layers.3.self_attn.q_proj`), so the weight of a linear operator is
/// its path plus `.weight`. Operators without a module (a residual addition) have a name of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path<'m> {
    /// What stands before the layer number: `model.layers`, or nothing.
    pub prefix: &'m str,
    /// The layer, for operators inside one.
    pub layer: Option<u32>,
    /// What stands after it: `self_attn.q_proj`.
    pub name: &'m str,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if !self.prefix.is_empty() {
            f.write_str(self.prefix)?;
            separator = ".";
        }
        if let Some(layer) = self.layer {
            write!(f, "{separator}{layer}")?;
            separator = ".";
        }
        if !self.name.is_empty() {
            write!(f, "{separator}{}", self.name)?;
        }
        Ok(())
    }
}

/// The size of one call of an operator.
///
/// For a GEMM `m × k` by `k × n`, `groups` times. For attention `groups` is sequences × heads, `m` queries,
/// `n` keys of the first step, `k` the width of a head. For elementwise work `m` rows of `n` elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
pub struct Shape {
    /// Independent problems of the same size.
    pub groups: u64,
    /// Rows: tokens, queries or pixels.
    pub m: u64,
    /// Columns of the result; for attention the keys of the first step.
    pub n: u64,
    /// The summed dimension; 0 for elementwise work.
    pub k: u64,
}

impl Shape {
    pub fn gemm(m: u64, n: u64, k: u64) -> Self {
        Self { groups: 1, m, n, k }
    }

    /// Elementwise work on `m` rows of `n` elements.
    pub fn elementwise(m: u64, n: u64) -> Self {
        Self {
            groups: 1,
            m,
            n,
            k: 0,
        }
    }
}

/// Floating-point operations in one number format; a multiply-add is two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Work {
    /// The format that is multiplied.
    pub dtype: DType,
    /// Floating-point operations; a multiply-add is two.
    pub flops: u64,
}

/// Bytes that one operator moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Weights, each read once per call; for experts those of the experts touched.
    pub weights: u64,
    /// Keys, values and states of earlier passes read from the cache. Keys and values of the same pass count as activations.
    pub kv_read: u64,
    /// Keys and values added to the cache, and states replaced in it.
    pub kv_write: u64,
    pub activation_read: u64,
    pub activation_write: u64,
    /// The part of the activations that enters or leaves the model: token ids, pixels, logits.
    pub boundary: u64,
}

impl Traffic {
    /// Bytes that no fusion or cache can avoid: weights, KV cache, the model's inputs and outputs.
    pub fn min_dram_bytes(&self) -> u64 {
        self.weights
            .saturating_add(self.kv_read)
            .saturating_add(self.kv_write)
            .saturating_add(self.boundary)
    }

    pub fn activation_bytes(&self) -> u64 {
        self.activation_read.saturating_add(self.activation_write)
    }

    /// Everything that moves if nothing is fused.
    pub fn total_bytes(&self) -> u64 {
        self.weights
            .saturating_add(self.kv_read)
            .saturating_add(self.kv_write)
            .saturating_add(self.activation_bytes())
    }

    /// Adds `other`, `times` times; saturates.
    pub(crate) fn add_times(&mut self, other: &Self, times: u64) {
        let add = |total: &mut u64, part: u64| {
            *total = total.saturating_add(part.saturating_mul(times));
        };
        add(&mut self.weights, other.weights);
        add(&mut self.kv_read, other.kv_read);
        add(&mut self.kv_write, other.kv_write);
        add(&mut self.activation_read, other.activation_read);
        add(&mut self.activation_write, other.activation_write);
        add(&mut self.boundary, other.boundary);
    }
}

/// One distinct operator of a pass, with the identical layers it stands for.
///
/// Work and traffic are those of **one layer over all steps** of the pass; a total is that times [`layers`](Self::layers).
/// All sums saturate at `u64::MAX`; [`crate::Costs`] refuses a workload that comes near.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operator<'m> {
    pub kind: Kind,
    /// Where it stands; the layer is the first of those it stands for.
    pub path: Path<'m>,
    /// The phase it belongs to.
    pub phase: Phase,
    /// Size of one call. Of the first step where steps differ (the keys of attention).
    pub shape: Shape,
    /// How many identical layers this operator stands for; 1 outside the layers.
    pub layers: u32,
    /// The numbers of those layers; none outside the layers.
    pub numbers: &'m [u32],
    /// How many steps of one layer the work and traffic sum over.
    pub steps: u64,
    /// Parameters of one layer's operator.
    pub parameters: u64,
    /// Matrix work, fit for tensor cores.
    pub tensor: Work,
    pub vector: Work,
    pub traffic: Traffic,
    /// `Counted`, or `Expected` where random routing decides.
    pub basis: Basis,
}

impl Operator<'_> {
    /// How often it is called in the pass: layers × steps.
    pub fn call_count(&self) -> u64 {
        self.steps.saturating_mul(u64::from(self.layers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_join_their_parts() {
        let path = |prefix, layer, name| {
            Path {
                prefix,
                layer,
                name,
            }
            .to_string()
        };
        assert_eq!(
            path("model.layers", Some(3), "self_attn.q_proj"),
            "model.layers.3.self_attn.q_proj"
        );
        assert_eq!(path("", None, "lm_head"), "lm_head");
        assert_eq!(path("h", Some(0), ""), "h.0");
    }
}
