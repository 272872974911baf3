//! Qwen3-Next and Qwen3.5: three gated delta layers for each layer of gated attention, dense or with experts, alone or behind a vision tower.

use llmprof_units::DType;
use serde_json::Value;

use super::{
    base::{Base, Defaults, check_divides, finish_model, shared_table},
    keys::Keys,
    moe::{check_top_k, expert_layers},
    qwen::{build_router, gated_moe},
    qwen_vl::qwen3_5_tower,
    rope::{RopeDefaults, read_rope},
};
use crate::{
    block::{
        ActivationKind, Attention, DeltaProjections, FeedForward, GatedDelta, Layer, Linear, Mixer,
        Moe, Norm, NormKind, Projections, Rope,
    },
    error::ModelError,
    model::{Decoder, Model},
    vision::Vision,
};

const QWEN3_NEXT: Defaults = Defaults {
    vocabulary: 151_936,
    hidden: 2048,
    intermediate: 5632,
    layers: 48,
    heads: 16,
    kv_heads: Some(2),
    head_dim: Some(256),
    epsilon: 1e-6,
    theta: 10_000.0,
    tied: false,
    positions: 32_768,
    activation: ActivationKind::Silu,
};

const QWEN3_5: Defaults = Defaults {
    vocabulary: 248_320,
    hidden: 4096,
    intermediate: 12_288,
    layers: 32,
    kv_heads: Some(4),
    ..QWEN3_NEXT
};

const QWEN3_5_MOE: Defaults = Defaults {
    vocabulary: 248_320,
    layers: 40,
    ..QWEN3_NEXT
};

/// Share of a head that rotates.
const ROTATED: f64 = 0.25;

pub(crate) fn qwen3_next(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read_keys(keys, &QWEN3_NEXT)?;
    let mixers = Mixers::read_mixers(&base, Fusion::Fused)?;
    let moe = read_moe(&base, [512, 10], keys.flag(&["norm_topk_prob"], true)?)?;
    let sparse = expert_layers(keys, base.layers)?;
    let mlp = base.build_mlp(false);
    let decoder = mixers.build_decoder(&base, |layer| {
        if sparse[layer as usize] {
            FeedForward::Moe(Box::new(moe))
        } else {
            FeedForward::Dense(mlp)
        }
    });
    base.build_model(decoder)
}

pub(crate) fn qwen3_5_text(keys: &Keys<'_>) -> Result<Model, ModelError> {
    finish_model(keys, None, Some(read_dense(keys, None)?))
}

pub(crate) fn qwen3_5_moe_text(keys: &Keys<'_>) -> Result<Model, ModelError> {
    finish_model(keys, None, Some(read_sparse(keys, None)?))
}

pub(crate) fn qwen3_5(keys: &Keys<'_>) -> Result<Model, ModelError> {
    with_vision(keys, read_dense)
}

pub(crate) fn qwen3_5_moe(keys: &Keys<'_>) -> Result<Model, ModelError> {
    with_vision(keys, read_sparse)
}

/// The language model under `text_config` behind the tower under `vision_config`.
fn with_vision(
    keys: &Keys<'_>,
    decoder: fn(&Keys<'_>, Option<bool>) -> Result<Decoder, ModelError>,
) -> Result<Model, ModelError> {
    let part = |name: &str| keys.part(name)?.ok_or_else(|| keys.missing(name));
    let (text, vision) = (part("text_config")?, part("vision_config")?);
    let key = "tie_word_embeddings";
    let tied = keys
        .has(key)
        .then(|| keys.flag(&[key], false))
        .transpose()?;
    let mut decoder = decoder(&text, tied)?;
    decoder.embedding.name = "model.language_model.embed_tokens";
    decoder.layers_prefix = "model.language_model.layers";
    if let Some(norm) = &mut decoder.final_norm {
        norm.name = "model.language_model.norm";
    }
    for table in &mut decoder.tables {
        table.name = "model.language_model.rotary_emb";
    }
    let tower = qwen3_5_tower(&vision, decoder.hidden)?;
    let model = finish_model(keys, Some(Vision::Qwen(Box::new(tower))), Some(decoder))?;
    // Published configs state the format beside the sizes of the language model.
    let stated = ["dtype", "torch_dtype"].iter().any(|name| keys.has(name));
    let dtype = if stated { model.dtype } else { text.dtype()? };
    Ok(Model { dtype, ..model })
}

/// `tied`: what the config around the language model says of its head, where it does.
fn read_dense(keys: &Keys<'_>, tied: Option<bool>) -> Result<Decoder, ModelError> {
    let mut base = Base::read_keys(keys, &QWEN3_5)?;
    base.tied = tied.unwrap_or(base.tied);
    let mixers = Mixers::read_mixers(&base, Fusion::Separate)?;
    let mlp = base.build_mlp(false);
    Ok(mixers.build_decoder(&base, |_| FeedForward::Dense(mlp)))
}

fn read_sparse(keys: &Keys<'_>, tied: Option<bool>) -> Result<Decoder, ModelError> {
    let mut base = Base::read_keys(keys, &QWEN3_5_MOE)?;
    base.tied = tied.unwrap_or(base.tied);
    let mixers = Mixers::read_mixers(&base, Fusion::Separate)?;
    let moe = read_moe(&base, [256, 8], true)?;
    Ok(mixers.build_decoder(&base, |_| FeedForward::Moe(Box::new(moe))))
}

/// Routed experts, and a shared one behind a gate.
fn read_moe(
    base: &Base<'_, '_>,
    [count, top_k]: [u64; 2],
    normalize: bool,
) -> Result<Moe, ModelError> {
    let keys = base.keys;
    let count = keys.size(&["num_experts"], Some(count))?;
    let top_k = keys.size(&["num_experts_per_tok"], Some(top_k))?;
    check_top_k(keys, top_k, count)?;
    let inner = keys.size(&["moe_intermediate_size"], Some(512))?;
    let shared = keys.size(&["shared_expert_intermediate_size"], Some(512))?;
    let router = build_router(base, count, normalize);
    Ok(gated_moe(base, router, [count, top_k], [inner, shared]))
}

/// Whether a checkpoint has the projections of a gated delta layer in two matrices or in four.
#[derive(Clone, Copy, PartialEq)]
enum Fusion {
    Fused,
    Separate,
}

/// Both kinds of layers, and which is where.
struct Mixers {
    attention: Attention,
    delta: GatedDelta,
    /// True for each layer that attends.
    attends: Vec<bool>,
    rope: Rope,
    /// Position indices of a token: Qwen3.5 has one for time, height and width each.
    axes: u64,
}

impl Mixers {
    fn read_mixers(base: &Base<'_, '_>, fusion: Fusion) -> Result<Self, ModelError> {
        let keys = base.keys;
        let rope = read_rope(
            keys,
            base.head_dim,
            &RopeDefaults {
                partial: ROTATED,
                ..RopeDefaults::default()
            },
        )?;
        Ok(Self {
            attention: gated_attention(base, &rope)?,
            delta: gated_delta(base, fusion)?,
            attends: attending_layers(keys, base.layers)?,
            rope,
            axes: if fusion == Fusion::Separate { 3 } else { 1 },
        })
    }

    fn build_decoder(&self, base: &Base<'_, '_>, feed: impl Fn(u32) -> FeedForward) -> Decoder {
        let mut tables = shared_table(&self.rope);
        for table in &mut tables {
            table.axes = self.axes;
        }
        let mut decoder = base.build_decoder(tables, |layer| {
            let mixer = if self.attends[layer as usize] {
                Mixer::Attention(self.attention.clone())
            } else {
                Mixer::GatedDelta(Box::new(self.delta.clone()))
            };
            zero_centred(base.build_layer(mixer, feed(layer)))
        });
        decoder.final_norm = decoder.final_norm.map(unit_offset);
        decoder
    }
}

fn unit_offset(norm: Norm) -> Norm {
    Norm {
        kind: NormKind::RmsUnitOffset,
        ..norm
    }
}

fn zero_centred(layer: Layer) -> Layer {
    Layer {
        mixer_norm: unit_offset(layer.mixer_norm),
        feed_norm: unit_offset(layer.feed_norm),
        ..layer
    }
}

/// Attention whose query projection gives a gate beside each query.
fn gated_attention(base: &Base<'_, '_>, rope: &Rope) -> Result<Attention, ModelError> {
    let keys = base.keys;
    if !keys.flag(&["attn_output_gate"], true)? {
        return Err(keys.unsupported("attn_output_gate", &Value::Bool(false), "`true`"));
    }
    let bias = keys.flag(&["attention_bias"], false)?;
    let mut attention = base.attention_with_qk_norm(rope.clone(), bias);
    if let Projections::Separate { q, .. } = &mut attention.projections {
        q.outputs *= 2;
    }
    Ok(Attention {
        q_norm: attention.q_norm.map(unit_offset),
        k_norm: attention.k_norm.map(unit_offset),
        gate: Some("self_attn.gate"),
        ..attention
    })
}

fn gated_delta(base: &Base<'_, '_>, fusion: Fusion) -> Result<GatedDelta, ModelError> {
    let keys = base.keys;
    let key_heads = keys.size(&["linear_num_key_heads"], Some(16))?;
    let value_heads = keys.size(&["linear_num_value_heads"], Some(32))?;
    check_divides(
        keys,
        "linear_num_key_heads",
        key_heads,
        "linear_num_value_heads",
        value_heads,
    )?;
    let key_dim = keys.size(&["linear_key_head_dim"], Some(128))?;
    let value_dim = keys.size(&["linear_value_head_dim"], Some(128))?;
    let (queries, values) = (key_heads * key_dim, value_heads * value_dim);
    let linear = |name, outputs| Linear::new(name, base.hidden, outputs, false);
    // Quantized checkpoints leave the narrow projections as they are: a head is one column of each.
    let narrow = |name, outputs| linear(name, outputs).without_quantization();
    Ok(GatedDelta {
        name: "linear_attn",
        key_heads,
        value_heads,
        key_dim,
        value_dim,
        projections: match fusion {
            Fusion::Fused => DeltaProjections::Fused {
                qkvz: linear("linear_attn.in_proj_qkvz", 2 * (queries + values)),
                ba: narrow("linear_attn.in_proj_ba", 2 * value_heads),
            },
            Fusion::Separate => DeltaProjections::Separate {
                qkv: linear("linear_attn.in_proj_qkv", 2 * queries + values),
                z: linear("linear_attn.in_proj_z", values),
                b: narrow("linear_attn.in_proj_b", value_heads),
                a: narrow("linear_attn.in_proj_a", value_heads),
            },
        },
        conv: "linear_attn.conv1d",
        kernel: keys.size(&["linear_conv_kernel_dim"], Some(4))?,
        activation: base.activation,
        decays: ["linear_attn.A_log", "linear_attn.dt_bias"],
        norm: Norm::rms_norm("linear_attn.norm", value_dim, base.epsilon),
        gate: "linear_attn.gate",
        output: Linear::new("linear_attn.out_proj", values, base.hidden, false),
        state: read_state_dtype(keys)?,
    })
}

/// The format that states are kept in: 32 bits unless the config says otherwise.
fn read_state_dtype(keys: &Keys<'_>) -> Result<DType, ModelError> {
    let key = "mamba_ssm_dtype";
    match keys.text(&[key])? {
        None => Ok(DType::F32),
        Some(name) => match name.parse::<DType>() {
            Ok(dtype) if dtype.is_float() => Ok(dtype),
            _ => {
                let stated_name = Value::String(name.to_owned());
                Err(keys.invalid(key, &stated_name, "a floating-point dtype such as float32"))
            }
        },
    }
}

/// True for each layer that attends: by `layer_types`, else every `full_attention_interval`-th.
fn attending_layers(keys: &Keys<'_>, layers: u32) -> Result<Vec<bool>, ModelError> {
    let Some((name, value)) = keys.get(&["layer_types"]) else {
        let interval = keys.size(&["full_attention_interval"], Some(4))?;
        let attends = (1..=u64::from(layers)).map(|layer| layer.is_multiple_of(interval));
        return Ok(attends.collect());
    };
    let expected = "a list of `linear_attention` and `full_attention`";
    let list = value
        .as_array()
        .ok_or_else(|| keys.invalid(name, value, expected))?;
    if list.len() != layers as usize {
        return Err(keys.contradiction(
            name,
            format!("a list of {}", list.len()),
            format!("`num_hidden_layers` = {layers}"),
        ));
    }
    let attends = list.iter().map(|entry| match entry.as_str() {
        Some("linear_attention") => Ok(false),
        Some("full_attention") => Ok(true),
        Some(_) => {
            let supported = "`linear_attention` and `full_attention`";
            Err(keys.unsupported(name, entry, supported))
        }
        None => Err(keys.invalid(name, entry, expected)),
    });
    attends.collect()
}
