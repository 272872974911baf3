//! Whisper: an encoder over 30 seconds of audio, a decoder that writes what was said.

use super::{
    base::{check_divides, finish_pair, group_layers},
    keys::Keys,
};
use crate::{
    block::{
        ActivationKind, Attention, Conv1d, CrossAttention, Embedding, FeedForward, Head, Layer,
        Linear, Mixer, Mlp, MlpInput, Norm, PositionTable, Projections,
    },
    encoder::{AudioInput, Encoder, EncoderInput},
    error::ModelError,
    model::{Decoder, Model},
};

/// Torch's default, which transformers leaves as it is.
const EPSILON: f64 = 1e-5;

/// The sizes of one stack.
struct Stack {
    hidden: u64,
    heads: u64,
    inner: u64,
    layers: u32,
    activation: ActivationKind,
}

impl Stack {
    fn read_keys(
        keys: &Keys<'_>,
        [heads_key, inner_key, layers_key]: [&str; 3],
    ) -> Result<Self, ModelError> {
        let hidden = keys.size(&["d_model", "hidden_size"], Some(384))?;
        let heads = keys.size(&[heads_key], Some(6))?;
        check_divides(keys, heads_key, heads, "d_model", hidden)?;
        Ok(Self {
            hidden,
            heads,
            inner: keys.size(&[inner_key], Some(1536))?,
            layers: keys.layers(&[layers_key], Some(4))?,
            activation: keys.activation(&["activation_function"], ActivationKind::Gelu)?,
        })
    }

    fn layer_norm(&self, name: &'static str) -> Norm {
        Norm::layer_norm(name, self.hidden, EPSILON)
    }

    /// Projections of which only that to the keys has no bias.
    fn build_projections(&self, [q, k, v, out]: [&'static str; 4]) -> [Linear; 4] {
        let square = |name, bias| Linear::new(name, self.hidden, self.hidden, bias);
        [
            square(q, true),
            square(k, false),
            square(v, true),
            square(out, true),
        ]
    }

    fn build_attention(&self) -> Attention {
        let [q, k, v, output] = self.build_projections([
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.out_proj",
        ]);
        Attention::new(
            ["self_attn", "self_attn.rope"],
            [self.heads, self.heads, self.hidden / self.heads],
            Projections::Separate { q, k, v },
            output,
        )
    }

    fn build_cross_attention(&self) -> CrossAttention {
        let [q, k, v, output] = self.build_projections([
            "encoder_attn.q_proj",
            "encoder_attn.k_proj",
            "encoder_attn.v_proj",
            "encoder_attn.out_proj",
        ]);
        CrossAttention {
            name: "encoder_attn",
            norm: self.layer_norm("encoder_attn_layer_norm"),
            heads: self.heads,
            head_dim: self.hidden / self.heads,
            q,
            k,
            v,
            output,
        }
    }

    fn build_layer(&self, cross: Option<CrossAttention>) -> Layer {
        let norms = ["self_attn_layer_norm", "final_layer_norm"];
        let feed = FeedForward::Dense(Mlp {
            activation_name: "activation_fn",
            input: MlpInput::Plain(Linear::new("fc1", self.hidden, self.inner, true)),
            down: Linear::new("fc2", self.inner, self.hidden, true),
            activation: self.activation,
        });
        Layer {
            cross: cross.map(Box::new),
            ..Layer::new(
                self.hidden,
                norms.map(|name| self.layer_norm(name)),
                Mixer::Attention(self.build_attention()),
                feed,
            )
        }
    }
}

pub(crate) fn build_whisper(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let heard = Stack::read_keys(
        keys,
        [
            "encoder_attention_heads",
            "encoder_ffn_dim",
            "encoder_layers",
        ],
    )?;
    let written = Stack::read_keys(
        keys,
        [
            "decoder_attention_heads",
            "decoder_ffn_dim",
            "decoder_layers",
        ],
    )?;
    let hidden = heard.hidden;
    let vocabulary = keys.vocabulary(Some(51_865))?;
    let source = keys.size(&["max_source_positions"], Some(1500))?;
    let target = keys.size(&["max_target_positions"], Some(448))?;
    let bins = keys.size(&["num_mel_bins"], Some(80))?;
    let conv = |name, inputs, stride| Conv1d {
        name,
        inputs,
        outputs: hidden,
        kernel: 3,
        stride,
    };
    let positions = |name, rows| PositionTable {
        name,
        rows,
        width: hidden,
        offset: 0,
    };
    let encoder = Encoder {
        hidden,
        input: EncoderInput::Audio(AudioInput {
            convolutions: [
                conv("model.encoder.conv1", bins, 1),
                conv("model.encoder.conv2", hidden, 2),
            ],
            activation_names: ["model.encoder.conv1_gelu", "model.encoder.conv2_gelu"],
            positions: positions("model.encoder.embed_positions", source),
        }),
        bias: None,
        layers_prefix: "model.encoder.layers",
        groups: group_layers(heard.layers, |_| heard.build_layer(None)),
        final_norm: heard.layer_norm("model.encoder.layer_norm"),
    };
    let decoder = Decoder {
        hidden,
        embedding: Embedding::new(
            ["model.decoder.embed_tokens", "model.decoder.scale"],
            vocabulary,
            hidden,
        ),
        positions: Some(positions("model.decoder.embed_positions", target)),
        project_in: None,
        tables: Vec::new(),
        bias: None,
        layers_prefix: "model.decoder.layers",
        groups: group_layers(written.layers, |_| {
            written.build_layer(Some(written.build_cross_attention()))
        }),
        final_norm: Some(written.layer_norm("model.decoder.layer_norm")),
        project_out: None,
        head: Head::new(
            "proj_out",
            hidden,
            vocabulary,
            keys.flag(&["tie_word_embeddings"], true)?,
        ),
        max_positions: Some(target),
        optional_prefix: None,
    };
    finish_pair(keys, encoder, decoder)
}
