//! The keys and blocks that decoders of Llama's shape share.

use super::{
    keys::Keys,
    quantization::read_quantization,
    rope::{RopeDefaults, read_rope},
};
use crate::{
    block::{
        ActivationKind, Attention, Embedding, FeedForward, Head, Layer, LayerGroup, Linear, Mixer,
        Mlp, MlpInput, Norm, Projections, Rope, RopeTable,
    },
    encoder::Encoder,
    error::ModelError,
    model::{Decoder, Model},
    vision::Vision,
};

/// Parameters above this are a mistake; sums over workloads stay far inside 64 bits below it.
const PARAMETERS_MAX: u64 = 1 << 50;

/// What a family's config class says where the config is silent.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    pub(crate) vocabulary: u64,
    pub(crate) hidden: u64,
    pub(crate) intermediate: u64,
    pub(crate) layers: u64,
    pub(crate) heads: u64,
    /// `None`: as many as heads.
    pub(crate) kv_heads: Option<u64>,
    /// `None`: the model's width divided by its heads.
    pub(crate) head_dim: Option<u64>,
    pub(crate) epsilon: f64,
    pub(crate) theta: f64,
    pub(crate) tied: bool,
    pub(crate) positions: u64,
    pub(crate) activation: ActivationKind,
}

/// The sizes of a decoder of Llama's shape.
pub(crate) struct Base<'k, 'a> {
    pub(crate) keys: &'k Keys<'a>,
    pub(crate) vocabulary: u64,
    pub(crate) hidden: u64,
    pub(crate) intermediate: u64,
    pub(crate) layers: u32,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    pub(crate) head_dim: u64,
    pub(crate) epsilon: f64,
    pub(crate) tied: bool,
    pub(crate) positions: u64,
    pub(crate) activation: ActivationKind,
    theta: f64,
}

impl<'k, 'a> Base<'k, 'a> {
    pub(crate) fn read_keys(keys: &'k Keys<'a>, defaults: &Defaults) -> Result<Self, ModelError> {
        let hidden = keys.size(&["hidden_size"], Some(defaults.hidden))?;
        let heads = keys.size(&["num_attention_heads"], Some(defaults.heads))?;
        let kv_default = defaults.kv_heads.unwrap_or(heads);
        let kv_heads = if keys.states("num_key_value_heads") {
            // A stated null is the class's "as many as heads".
            keys.size(&["num_key_value_heads"], Some(heads))?
        } else {
            kv_default
        };
        let stated = keys.optional_size(&["head_dim"])?.or(defaults.head_dim);
        let head_dim = if let Some(head_dim) = stated {
            head_dim
        } else {
            check_divides(keys, "num_attention_heads", heads, "hidden_size", hidden)?;
            hidden / heads
        };
        if kv_heads > heads {
            return Err(keys.contradiction(
                "num_key_value_heads",
                kv_heads,
                format!("`num_attention_heads` = {heads}: there are more KV heads than heads"),
            ));
        }
        check_divides(
            keys,
            "num_key_value_heads",
            kv_heads,
            "num_attention_heads",
            heads,
        )?;
        Ok(Self {
            keys,
            vocabulary: keys.vocabulary(Some(defaults.vocabulary))?,
            hidden,
            intermediate: keys.size(&["intermediate_size"], Some(defaults.intermediate))?,
            layers: keys.layers(&["num_hidden_layers"], Some(defaults.layers))?,
            heads,
            kv_heads,
            head_dim,
            epsilon: keys.positive(&["rms_norm_eps"], defaults.epsilon)?,
            tied: keys.flag(&["tie_word_embeddings"], defaults.tied)?,
            positions: keys
                .positions(&["max_position_embeddings"])?
                .unwrap_or(defaults.positions),
            activation: keys
                .activation(&["hidden_act", "hidden_activation"], defaults.activation)?,
            theta: defaults.theta,
        })
    }

    pub(crate) fn rms_norm(&self, name: &'static str) -> Norm {
        Norm::rms_norm(name, self.hidden, self.epsilon)
    }

    pub(crate) fn read_rope(&self) -> Result<Rope, ModelError> {
        self.rope_of(None)
    }

    pub(crate) fn rope_of(&self, layer_type: Option<&str>) -> Result<Rope, ModelError> {
        read_rope(
            self.keys,
            self.head_dim,
            &RopeDefaults {
                theta: self.theta,
                layer_type,
                ..RopeDefaults::default()
            },
        )
    }

    /// Attention with separate projections, rotation and full span.
    pub(crate) fn build_attention(
        &self,
        rope: Rope,
        qkv_bias: bool,
        output_bias: bool,
    ) -> Attention {
        let queries = self.heads * self.head_dim;
        let keys = self.kv_heads * self.head_dim;
        Attention {
            rope: Some(rope),
            ..Attention::new(
                ["self_attn", "self_attn.rope"],
                [self.heads, self.kv_heads, self.head_dim],
                Projections::Separate {
                    q: Linear::new("self_attn.q_proj", self.hidden, queries, qkv_bias),
                    k: Linear::new("self_attn.k_proj", self.hidden, keys, qkv_bias),
                    v: Linear::new("self_attn.v_proj", self.hidden, keys, qkv_bias),
                },
                Linear::new("self_attn.o_proj", queries, self.hidden, output_bias),
            )
        }
    }

    /// The same with a norm per head of queries and keys.
    pub(crate) fn attention_with_qk_norm(&self, rope: Rope, bias: bool) -> Attention {
        Attention {
            q_norm: Some(Norm::rms_norm(
                "self_attn.q_norm",
                self.head_dim,
                self.epsilon,
            )),
            k_norm: Some(Norm::rms_norm(
                "self_attn.k_norm",
                self.head_dim,
                self.epsilon,
            )),
            ..self.build_attention(rope, bias, bias)
        }
    }

    /// A gated network with separate gate and up projections.
    pub(crate) fn build_mlp(&self, bias: bool) -> Mlp {
        self.mlp_named(
            [
                "mlp.gate_proj",
                "mlp.up_proj",
                "mlp.act_fn",
                "mlp.down_proj",
            ],
            self.intermediate,
            bias,
        )
    }

    pub(crate) fn mlp_named(
        &self,
        [gate, up, act, down]: [&'static str; 4],
        intermediate: u64,
        bias: bool,
    ) -> Mlp {
        Mlp {
            activation_name: act,
            input: MlpInput::Gated {
                gate: Linear::new(gate, self.hidden, intermediate, bias),
                up: Linear::new(up, self.hidden, intermediate, bias),
            },
            down: Linear::new(down, intermediate, self.hidden, bias),
            activation: self.activation,
        }
    }

    /// A pre-norm layer with Llama's names.
    pub(crate) fn build_layer(&self, mixer: Mixer, feed: FeedForward) -> Layer {
        let norms = ["input_layernorm", "post_attention_layernorm"];
        Layer::new(
            self.hidden,
            norms.map(|name| self.rms_norm(name)),
            mixer,
            feed,
        )
    }

    /// Which layers slide: from `layer_types`, else from `rule`. Windows of 0 or null are off.
    pub(crate) fn layer_windows(
        &self,
        window: Option<u64>,
        rule: impl Fn(u32) -> bool,
    ) -> Result<Vec<Option<u64>>, ModelError> {
        let window = window.filter(|window| *window > 0);
        let types = layer_types(self.keys, self.layers)?;
        (0..self.layers)
            .map(|layer| {
                let slides = match &types {
                    Some(types) => types[layer as usize],
                    None => rule(layer) && window.is_some(),
                };
                match (slides, window) {
                    (false, _) => Ok(None),
                    (true, Some(window)) => Ok(Some(window)),
                    (true, None) => Err(self.keys.contradiction(
                        "layer_types",
                        "sliding_attention in places",
                        "`sliding_window`, which is absent",
                    )),
                }
            })
            .collect()
    }

    /// The decoder around `layer`, which is asked for each layer number.
    pub(crate) fn build_decoder(
        &self,
        tables: Vec<RopeTable>,
        layer: impl FnMut(u32) -> Layer,
    ) -> Decoder {
        Decoder {
            hidden: self.hidden,
            embedding: Embedding::new(
                ["model.embed_tokens", "model.embed_scale"],
                self.vocabulary,
                self.hidden,
            ),
            positions: None,
            project_in: None,
            tables,
            bias: None,
            layers_prefix: "model.layers",
            groups: group_layers(self.layers, layer),
            final_norm: Some(self.rms_norm("model.norm")),
            project_out: None,
            head: Head::new("lm_head", self.hidden, self.vocabulary, self.tied),
            max_positions: Some(self.positions),
            optional_prefix: None,
        }
    }

    pub(crate) fn build_model(&self, decoder: Decoder) -> Result<Model, ModelError> {
        finish_model(self.keys, None, Some(decoder))
    }
}

/// The table of a rotation that all layers share.
pub(crate) fn shared_table(rope: &Rope) -> Vec<RopeTable> {
    vec![RopeTable {
        name: "model.rotary_emb",
        rope: rope.clone(),
        axes: 1,
    }]
}

pub(crate) fn group_layers(layers: u32, mut layer: impl FnMut(u32) -> Layer) -> Vec<LayerGroup> {
    let mut groups: Vec<LayerGroup> = Vec::new();
    for index in 0..layers {
        let layer = layer(index);
        match groups.iter_mut().find(|group| group.layer == layer) {
            Some(group) => group.layers.push(index),
            None => groups.push(LayerGroup {
                layers: vec![index],
                layer,
            }),
        }
    }
    groups
}

/// True per layer that slides, where the config lists them.
fn layer_types(keys: &Keys<'_>, layers: u32) -> Result<Option<Vec<bool>>, ModelError> {
    let Some((_, value)) = keys.get(&["layer_types"]) else {
        return Ok(None);
    };
    let expected = "a list of `full_attention` and `sliding_attention`";
    let list = value
        .as_array()
        .ok_or_else(|| keys.invalid("layer_types", value, expected))?;
    if list.len() != layers as usize {
        return Err(keys.contradiction(
            "layer_types",
            format!("a list of {}", list.len()),
            format!("`num_hidden_layers` = {layers}"),
        ));
    }
    list.iter()
        .map(|entry| match entry.as_str() {
            Some("full_attention") => Ok(false),
            Some("sliding_attention") => Ok(true),
            Some(_) => {
                let supported = "`full_attention` and `sliding_attention`";
                Err(keys.unsupported("layer_types", entry, supported))
            }
            None => Err(keys.invalid("layer_types", entry, expected)),
        })
        .collect::<Result<_, _>>()
        .map(Some)
}

/// Refuses a divisor that leaves a rest.
pub(crate) fn check_divides(
    keys: &Keys<'_>,
    name: &str,
    divisor: u64,
    of_name: &str,
    of: u64,
) -> Result<(), ModelError> {
    if of.is_multiple_of(divisor) {
        return Ok(());
    }
    Err(keys.contradiction(
        name,
        divisor,
        format!("`{of_name}` = {of}, which it does not divide"),
    ))
}

/// The model with its formats, checked for size.
pub(crate) fn finish_model(
    keys: &Keys<'_>,
    vision: Option<Vision>,
    decoder: Option<Decoder>,
) -> Result<Model, ModelError> {
    check_model(keys, vision, None, decoder)
}

/// As [`finish_model`], for a model of two stacks.
pub(crate) fn finish_pair(
    keys: &Keys<'_>,
    encoder: Encoder,
    decoder: Decoder,
) -> Result<Model, ModelError> {
    check_model(keys, None, Some(encoder), Some(decoder))
}

fn check_model(
    keys: &Keys<'_>,
    vision: Option<Vision>,
    encoder: Option<Encoder>,
    decoder: Option<Decoder>,
) -> Result<Model, ModelError> {
    let model = Model {
        family: keys.family,
        dtype: keys.dtype()?,
        quantization: read_quantization(keys)?,
        vision,
        encoder,
        decoder,
    };
    let parameters = model.parameter_count();
    if parameters > PARAMETERS_MAX {
        return Err(ModelError::Invalid {
            field: keys.field("hidden_size"),
            found: format!("so large that the model has {parameters} parameters or more"),
            expected:
                "such that a machine can hold it; check the widths, the layers and the experts"
                    .to_owned(),
        });
    }
    Ok(model)
}
