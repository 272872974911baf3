//! Qwen2.5-VL: a windowed vision transformer for images of any size in front of Qwen2; and the tower of Qwen3.5, which has no windows.

use super::{
    base::{check_divides, finish_model},
    keys::Keys,
    qwen::qwen2_5_vl_decoder,
};
use crate::{
    block::{
        ActivationKind, Attention, Conv, FeedForward, Layer, Linear, Mixer, Mlp, MlpInput, Norm,
        PositionTable, Projections, QkvOrder, Rope, RopePairing, RopeScaling, WindowVit,
    },
    error::ModelError,
    model::Model,
    vision::Vision,
};

/// Limits of the preprocessor: 4 and 16,384 tokens of 28 × 28 pixels.
const PIXELS: (u64, u64) = (3136, 12_845_056);

/// The same of Qwen3.5: 64 and 16,384 tokens of 32 × 32 pixels.
const PIXELS_3_5: (u64, u64) = (65_536, 16_777_216);

/// The towers' norms have a fixed epsilon.
const EPSILON: f64 = 1e-6;

pub(crate) fn qwen2_5_vl(keys: &Keys<'_>) -> Result<Model, ModelError> {
    // Published configs are flat; transformers 5 writes the language model under `text_config`.
    let text = keys.part("text_config")?;
    let inner = text.as_ref().unwrap_or(keys);
    let tied = keys.flag(&["tie_word_embeddings"], false)?
        || inner.flag(&["tie_word_embeddings"], false)?;
    let decoder = qwen2_5_vl_decoder(inner, tied)?;
    let vision = keys
        .part("vision_config")?
        .ok_or_else(|| keys.missing("vision_config"))?;
    let tower = read_tower(&vision, decoder.hidden)?;
    finish_model(keys, Some(Vision::Qwen(Box::new(tower))), Some(decoder))
}

/// A linear layer of a vision tower; quantized checkpoints leave those as they are.
fn plain_linear(name: &'static str, inputs: u64, outputs: u64) -> Linear {
    Linear::new(name, inputs, outputs, true).without_quantization()
}

/// Attention of a tower: all heads have keys and values of their own, and rotate as a whole.
fn tower_attention(width: u64, heads: u64) -> Attention {
    let head_dim = width / heads;
    Attention {
        rope: Some(Rope {
            dims: head_dim,
            theta: 10_000.0,
            scaling: RopeScaling::None,
            pairing: RopePairing::Halves,
        }),
        ..Attention::new(
            ["attn", "attn.rope"],
            [heads, heads, head_dim],
            Projections::Fused {
                qkv: plain_linear("attn.qkv", width, 3 * width),
                order: QkvOrder::Concatenated,
            },
            plain_linear("attn.proj", width, width),
        )
    }
}

fn tower_layer([width, heads, inner]: [u64; 3], activation: ActivationKind) -> Layer {
    let feed = Mlp {
        activation_name: "mlp.act_fn",
        input: MlpInput::Gated {
            gate: plain_linear("mlp.gate_proj", width, inner),
            up: plain_linear("mlp.up_proj", width, inner),
        },
        down: plain_linear("mlp.down_proj", inner, width),
        activation,
    };
    let norms = ["norm1", "norm2"];
    Layer::new(
        width,
        norms.map(|name| Norm::rms_norm(name, width, EPSILON)),
        Mixer::Attention(tower_attention(width, heads)),
        FeedForward::Dense(feed),
    )
}

fn read_tower(keys: &Keys<'_>, decoder: u64) -> Result<WindowVit, ModelError> {
    let width = keys.size(&["hidden_size"], Some(3584))?;
    let heads = keys.size(&["num_heads"], Some(16))?;
    check_divides(keys, "num_heads", heads, "hidden_size", width)?;
    let head_dim = width / heads;
    check_divides(keys, "num_heads", 4, "the width of a head", head_dim)?;
    let inner = keys.size(&["intermediate_size"], Some(3420))?;
    let patch = keys.side("patch_size", 14)?;
    let merge = keys.size(&["spatial_merge_size"], Some(2))?;
    let window = keys.size(&["window_size"], Some(112))? / (patch * merge);
    if window == 0 {
        return Err(keys.contradiction(
            "window_size",
            "smaller than a merged patch",
            format!("{} pixels", patch * merge),
        ));
    }
    let output = output_width(keys, decoder)?;
    let depth = keys.layers(&["depth"], Some(32))?;
    let global = keys
        .integers("fullatt_block_indexes")?
        .unwrap_or_else(|| vec![7, 15, 23, 31]);
    let (full, windowed) = (0..depth).partition(|layer| global.contains(&u64::from(*layer)));
    let merged = merge * merge * width;
    Ok(WindowVit {
        patches: Conv {
            name: "visual.patch_embed.proj",
            inputs: keys.size(&["in_channels", "in_chans"], Some(3))?,
            outputs: width,
            depth: keys.size(&["temporal_patch_size"], Some(2))?,
            kernel: patch,
            stride: patch,
            bias: false,
        },
        positions: None,
        rope_name: "visual.rotary_pos_emb",
        layers_prefix: "visual.blocks",
        windowed,
        full,
        layer: tower_layer(
            [width, heads, inner],
            keys.activation(&["hidden_act"], ActivationKind::Silu)?,
        ),
        merge,
        window,
        merge_norm: Norm::rms_norm("visual.merger.ln_q", width, EPSILON),
        merger: Mlp {
            activation_name: "visual.merger.mlp.1",
            input: MlpInput::Plain(plain_linear("visual.merger.mlp.0", merged, merged)),
            down: plain_linear("visual.merger.mlp.2", merged, output),
            activation: ActivationKind::Gelu,
        },
        pixels: PIXELS,
    })
}

fn output_width(keys: &Keys<'_>, decoder: u64) -> Result<u64, ModelError> {
    let output = keys.size(&["out_hidden_size"], Some(3584))?;
    if output == decoder {
        return Ok(output);
    }
    Err(keys.contradiction(
        "out_hidden_size",
        output,
        format!("the decoder's `hidden_size` = {decoder}"),
    ))
}

/// The tower of Qwen3.5: that of Qwen3-VL without the features that go to deeper layers.
pub(crate) fn qwen3_5_tower(keys: &Keys<'_>, decoder: u64) -> Result<WindowVit, ModelError> {
    if let Some(deep) = keys.integers("deepstack_visual_indexes")?
        && !deep.is_empty()
    {
        let stated_indexes = serde_json::json!(deep);
        return Err(keys.unsupported("deepstack_visual_indexes", &stated_indexes, "an empty list"));
    }
    let width = keys.size(&["hidden_size"], Some(1152))?;
    let heads = keys.size(&["num_heads"], Some(16))?;
    check_divides(keys, "num_heads", heads, "hidden_size", width)?;
    check_divides(keys, "num_heads", 4, "the width of a head", width / heads)?;
    let inner = keys.size(&["intermediate_size"], Some(4304))?;
    let patch = keys.side("patch_size", 16)?;
    let merge = keys.size(&["spatial_merge_size"], Some(2))?;
    let merged = merge * merge * width;
    let feed = Mlp {
        activation_name: "mlp.act_fn",
        input: MlpInput::Plain(plain_linear("mlp.linear_fc1", width, inner)),
        down: plain_linear("mlp.linear_fc2", inner, width),
        activation: keys.activation(&["hidden_act"], ActivationKind::GeluTanh)?,
    };
    Ok(WindowVit {
        patches: Conv {
            name: "model.visual.patch_embed.proj",
            inputs: keys.size(&["in_channels"], Some(3))?,
            outputs: width,
            depth: keys.size(&["temporal_patch_size"], Some(2))?,
            kernel: patch,
            stride: patch,
            bias: true,
        },
        positions: Some(PositionTable {
            name: "model.visual.pos_embed",
            rows: keys.size(&["num_position_embeddings"], Some(2304))?,
            width,
            offset: 0,
        }),
        rope_name: "model.visual.rotary_pos_emb",
        layers_prefix: "model.visual.blocks",
        windowed: Vec::new(),
        full: (0..keys.layers(&["depth"], Some(27))?).collect(),
        layer: Layer::new(
            width,
            ["norm1", "norm2"].map(|name| Norm::layer_norm(name, width, EPSILON)),
            Mixer::Attention(tower_attention(width, heads)),
            FeedForward::Dense(feed),
        ),
        merge,
        window: 1,
        merge_norm: Norm::layer_norm("model.visual.merger.norm", width, EPSILON),
        merger: Mlp {
            activation_name: "model.visual.merger.act_fn",
            input: MlpInput::Plain(plain_linear(
                "model.visual.merger.linear_fc1",
                merged,
                merged,
            )),
            down: plain_linear(
                "model.visual.merger.linear_fc2",
                merged,
                output_width(keys, decoder)?,
            ),
            activation: ActivationKind::Gelu,
        },
        pixels: PIXELS_3_5,
    })
}
