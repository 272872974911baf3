//! T5: an encoder over the prompt, a decoder that starts from one token, biases by distance in place of positions.

use serde_json::Value;

use super::{
    base::{finish_pair, group_layers},
    keys::Keys,
};
use crate::{
    block::{
        ActivationKind, Attention, CrossAttention, Embedding, FeedForward, Head, Layer, Linear,
        Mixer, Mlp, MlpInput, Norm, Projections, RelativeBias,
    },
    encoder::{Encoder, EncoderInput},
    error::ModelError,
    model::{Decoder, Model},
};

struct T5Sizes {
    hidden: u64,
    heads: u64,
    head_dim: u64,
    inner: u64,
    epsilon: f64,
    activation: ActivationKind,
    gated: bool,
}

/// The names of a layer's parts: a decoder has attention to the encoder between the two that both have.
struct T5Names {
    q: [&'static str; 4],
    attention: &'static str,
    norm: &'static str,
    feed_norm: &'static str,
    feed: [&'static str; 5],
    adds: [&'static str; 3],
}

const ENCODER: T5Names = T5Names {
    q: [
        "layer.0.SelfAttention.q",
        "layer.0.SelfAttention.k",
        "layer.0.SelfAttention.v",
        "layer.0.SelfAttention.o",
    ],
    attention: "layer.0.SelfAttention",
    norm: "layer.0.layer_norm",
    feed_norm: "layer.1.layer_norm",
    feed: [
        "layer.1.DenseReluDense.wi",
        "layer.1.DenseReluDense.wi_0",
        "layer.1.DenseReluDense.wi_1",
        "layer.1.DenseReluDense.act",
        "layer.1.DenseReluDense.wo",
    ],
    adds: ["layer.0.add", "", "layer.1.add"],
};

const DECODER: T5Names = T5Names {
    feed_norm: "layer.2.layer_norm",
    feed: [
        "layer.2.DenseReluDense.wi",
        "layer.2.DenseReluDense.wi_0",
        "layer.2.DenseReluDense.wi_1",
        "layer.2.DenseReluDense.act",
        "layer.2.DenseReluDense.wo",
    ],
    adds: ["layer.0.add", "layer.1.add", "layer.2.add"],
    ..ENCODER
};

impl T5Sizes {
    fn read_keys(keys: &Keys<'_>) -> Result<Self, ModelError> {
        let (activation, gated) = feed_forward(keys)?;
        Ok(Self {
            hidden: keys.size(&["d_model", "hidden_size"], Some(512))?,
            heads: keys.size(&["num_heads", "num_attention_heads"], Some(8))?,
            head_dim: keys.size(&["d_kv", "head_dim"], Some(64))?,
            inner: keys.size(&["d_ff"], Some(2048))?,
            epsilon: keys.positive(&["layer_norm_epsilon"], 1e-6)?,
            activation,
            gated,
        })
    }

    fn rms_norm(&self, name: &'static str) -> Norm {
        Norm::rms_norm(name, self.hidden, self.epsilon)
    }

    fn build_attention(&self, names: &T5Names) -> Attention {
        let width = self.heads * self.head_dim;
        let [q, k, v, o] = names.q;
        let project = |name| Linear::new(name, self.hidden, width, false);
        Attention {
            scale: 1.0,
            ..Attention::new(
                [names.attention, "layer.0.rope"],
                [self.heads, self.heads, self.head_dim],
                Projections::Separate {
                    q: project(q),
                    k: project(k),
                    v: project(v),
                },
                Linear::new(o, width, self.hidden, false),
            )
        }
    }

    fn build_cross_attention(&self) -> CrossAttention {
        let width = self.heads * self.head_dim;
        let project = |name| Linear::new(name, self.hidden, width, false);
        CrossAttention {
            name: "layer.1.EncDecAttention",
            norm: self.rms_norm("layer.1.layer_norm"),
            heads: self.heads,
            head_dim: self.head_dim,
            q: project("layer.1.EncDecAttention.q"),
            k: project("layer.1.EncDecAttention.k"),
            v: project("layer.1.EncDecAttention.v"),
            output: Linear::new("layer.1.EncDecAttention.o", width, self.hidden, false),
        }
    }

    fn build_mlp(&self, names: &T5Names) -> Mlp {
        let [plain, gate, up, activation_name, down] = names.feed;
        let project = |name| Linear::new(name, self.hidden, self.inner, false);
        Mlp {
            activation_name,
            input: if self.gated {
                MlpInput::Gated {
                    gate: project(gate),
                    up: project(up),
                }
            } else {
                MlpInput::Plain(project(plain))
            },
            down: Linear::new(down, self.inner, self.hidden, false),
            activation: self.activation,
        }
    }

    fn build_layer(&self, names: &T5Names, cross: Option<CrossAttention>) -> Layer {
        Layer {
            cross: cross.map(Box::new),
            adds: names.adds,
            ..Layer::new(
                self.hidden,
                [self.rms_norm(names.norm), self.rms_norm(names.feed_norm)],
                Mixer::Attention(self.build_attention(names)),
                FeedForward::Dense(self.build_mlp(names)),
            )
        }
    }
}

/// `relu`, or `gated-gelu` as the later checkpoints have it, whose GELU is the approximation by tanh.
fn feed_forward(keys: &Keys<'_>) -> Result<(ActivationKind, bool), ModelError> {
    let stated = keys.text(&["feed_forward_proj"])?.unwrap_or("relu");
    let (name, gated) = match stated.strip_prefix("gated-") {
        Some("gelu") => ("gelu_new", true),
        Some(name) => (name, true),
        None => (stated, false),
    };
    let activation = ActivationKind::from_name(name).ok_or_else(|| {
        let supported = "relu, gelu and silu, and those after `gated-`,";
        keys.unsupported("feed_forward_proj", &Value::from(stated), supported)
    })?;
    Ok((activation, gated))
}

pub(crate) fn build_t5(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let sizes = T5Sizes::read_keys(keys)?;
    let layers = keys.layers(&["num_layers", "num_hidden_layers"], Some(6))?;
    let decoder_layers = keys.layers(&["num_decoder_layers"], Some(u64::from(layers)))?;
    let vocabulary = keys.vocabulary(Some(32_128))?;
    let buckets = keys.size(&["relative_attention_num_buckets"], Some(32))?;
    // Checkpoints of T5 1.1 have a head of their own and leave its input as it is.
    let tied = keys.flag(&["tie_word_embeddings"], true)?;
    let scaled = keys.flag(&["scale_decoder_outputs"], tied)?;
    let bias = |name| RelativeBias {
        name,
        buckets,
        heads: sizes.heads,
    };
    let embedding = |name| Embedding {
        held_by: Some("shared"),
        ..Embedding::new([name, "shared.scale"], vocabulary, sizes.hidden)
    };
    let encoder = Encoder {
        hidden: sizes.hidden,
        input: EncoderInput::Tokens(embedding("encoder.embed_tokens")),
        bias: Some(bias(
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
        )),
        layers_prefix: "encoder.block",
        groups: group_layers(layers, |_| sizes.build_layer(&ENCODER, None)),
        final_norm: sizes.rms_norm("encoder.final_layer_norm"),
    };
    let decoder = Decoder {
        hidden: sizes.hidden,
        embedding: embedding("decoder.embed_tokens"),
        positions: None,
        project_in: None,
        tables: Vec::new(),
        bias: Some(bias(
            "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
        )),
        layers_prefix: "decoder.block",
        groups: group_layers(decoder_layers, |_| {
            sizes.build_layer(&DECODER, Some(sizes.build_cross_attention()))
        }),
        final_norm: Some(sizes.rms_norm("decoder.final_layer_norm")),
        project_out: None,
        head: Head {
            input_scale: scaled.then(|| (sizes.hidden as f64).powf(-0.5)),
            ..Head::new("lm_head", sizes.hidden, vocabulary, tied)
        },
        max_positions: None,
        optional_prefix: None,
    };
    finish_pair(keys, encoder, decoder)
}
