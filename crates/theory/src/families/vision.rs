//! Vision towers by themselves: CLIP, SigLIP, the SAM encoder.
//!
//! A config of the two-tower model (`clip`, `siglip`, `sam`) gives the tower under its `vision_config`.

use super::{
    base::{check_divides, finish_model},
    keys::Keys,
};
use crate::{
    block::{
        ActivationKind, Attention, AttentionPooling, Conv, FeedForward, ImageEncoder, Layer,
        Linear, Mixer, Mlp, MlpInput, Norm, Projections, QkvOrder, SamEncoder, SamLayer,
    },
    error::ModelError,
    model::Model,
    vision::Vision,
};

/// The tower's own keys, whether the config is the tower's or the whole model's.
fn tower_keys<'a>(keys: &Keys<'a>) -> Result<Option<Keys<'a>>, ModelError> {
    keys.part("vision_config")
}

/// Patches down and across; a side that is not a multiple of the patch is cut.
pub(crate) fn patches_per_side(keys: &Keys<'_>, side: u64, patch: u64) -> Result<u64, ModelError> {
    if patch > side {
        return Err(keys.contradiction("patch_size", patch, format!("`image_size` = {side}")));
    }
    Ok(side / patch)
}

/// The sizes of a plain vision transformer.
pub(crate) struct VitSizes {
    pub(crate) width: u64,
    pub(crate) heads: u64,
    pub(crate) inner: u64,
    pub(crate) epsilon: f64,
    pub(crate) activation: ActivationKind,
    /// One matrix `qkv_proj` instead of three.
    pub(crate) fused: bool,
}

/// A layer with CLIP's names.
pub(crate) fn vit_layer(sizes: &VitSizes) -> Layer {
    let width = sizes.width;
    let square = |name| Linear::new(name, width, width, true).without_quantization();
    let projections = if sizes.fused {
        Projections::Fused {
            qkv: Linear::new("self_attn.qkv_proj", width, 3 * width, true).without_quantization(),
            order: QkvOrder::Concatenated,
        }
    } else {
        Projections::Separate {
            q: square("self_attn.q_proj"),
            k: square("self_attn.k_proj"),
            v: square("self_attn.v_proj"),
        }
    };
    let norms = ["layer_norm1", "layer_norm2"];
    Layer::new(
        width,
        norms.map(|name| Norm::layer_norm(name, width, sizes.epsilon)),
        Mixer::Attention(Attention::new(
            ["self_attn", "self_attn.rope"],
            [sizes.heads, sizes.heads, width / sizes.heads],
            projections,
            square("self_attn.out_proj"),
        )),
        FeedForward::Dense(plain_mlp(
            ["mlp.fc1", "mlp.activation_fn", "mlp.fc2"],
            width,
            sizes.inner,
            sizes.activation,
        )),
    )
}

/// Two layers with biases around an activation; towers are never quantized.
fn plain_mlp(
    [up, act, down]: [&'static str; 3],
    width: u64,
    inner: u64,
    activation: ActivationKind,
) -> Mlp {
    Mlp {
        activation_name: act,
        input: MlpInput::Plain(Linear::new(up, width, inner, true).without_quantization()),
        down: Linear::new(down, inner, width, true).without_quantization(),
        activation,
    }
}

fn read_sizes(
    keys: &Keys<'_>,
    activation: ActivationKind,
    epsilon: f64,
) -> Result<VitSizes, ModelError> {
    let width = keys.size(&["hidden_size"], Some(768))?;
    let heads = keys.size(&["num_attention_heads"], Some(12))?;
    check_divides(keys, "num_attention_heads", heads, "hidden_size", width)?;
    Ok(VitSizes {
        width,
        heads,
        inner: keys.size(&["intermediate_size"], Some(3072))?,
        epsilon: keys.positive(&["layer_norm_eps"], epsilon)?,
        activation: keys.activation(&["hidden_act"], activation)?,
        fused: false,
    })
}

pub(crate) fn build_clip(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let part = tower_keys(keys)?;
    let tower = part.as_ref().unwrap_or(keys);
    let sizes = read_sizes(tower, ActivationKind::QuickGelu, 1e-5)?;
    let (side, patch) = (
        tower.side("image_size", 224)?,
        tower.side("patch_size", 32)?,
    );
    let across = patches_per_side(tower, side, patch)?;
    let norm = |name| Some(Norm::layer_norm(name, sizes.width, sizes.epsilon));
    let encoder = ImageEncoder {
        patches: Conv {
            name: "vision_model.embeddings.patch_embedding",
            inputs: tower.size(&["num_channels"], Some(3))?,
            outputs: sizes.width,
            depth: 1,
            kernel: patch,
            stride: patch,
            bias: false,
        },
        class_token: Some("vision_model.embeddings.class_embedding"),
        positions: "vision_model.embeddings.position_embedding",
        position_rows: across * across + 1,
        // The checkpoint's own spelling.
        before: norm("vision_model.pre_layrnorm"),
        layers_prefix: "vision_model.encoder.layers",
        layers: (0..tower.layers(&["num_hidden_layers"], Some(12))?).collect(),
        layer: vit_layer(&sizes),
        after: norm("vision_model.post_layernorm"),
        pooling: None,
        side,
    };
    finish_model(keys, Some(Vision::Encoder(Box::new(encoder))), None)
}

pub(crate) fn build_siglip(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let part = tower_keys(keys)?;
    let tower = part.as_ref().unwrap_or(keys);
    let sizes = read_sizes(tower, ActivationKind::GeluTanh, 1e-6)?;
    let (side, patch) = (
        tower.side("image_size", 224)?,
        tower.side("patch_size", 16)?,
    );
    let across = patches_per_side(tower, side, patch)?;
    let norm = |name| Norm::layer_norm(name, sizes.width, sizes.epsilon);
    let pooling = AttentionPooling {
        probe: "vision_model.head.probe",
        name: "vision_model.head.attention",
        heads: sizes.heads,
        width: sizes.width,
        output: Linear::new(
            "vision_model.head.attention.out_proj",
            sizes.width,
            sizes.width,
            true,
        )
        .without_quantization(),
        norm: norm("vision_model.head.layernorm"),
        mlp: plain_mlp(
            [
                "vision_model.head.mlp.fc1",
                "vision_model.head.mlp.activation_fn",
                "vision_model.head.mlp.fc2",
            ],
            sizes.width,
            sizes.inner,
            sizes.activation,
        ),
    };
    let encoder = ImageEncoder {
        patches: Conv {
            name: "vision_model.embeddings.patch_embedding",
            inputs: tower.size(&["num_channels"], Some(3))?,
            outputs: sizes.width,
            depth: 1,
            kernel: patch,
            stride: patch,
            bias: true,
        },
        class_token: None,
        positions: "vision_model.embeddings.position_embedding",
        position_rows: across * across,
        before: None,
        layers_prefix: "vision_model.encoder.layers",
        layers: (0..tower.layers(&["num_hidden_layers"], Some(12))?).collect(),
        layer: vit_layer(&sizes),
        after: Some(norm("vision_model.post_layernorm")),
        pooling: tower.flag(&["vision_use_head"], true)?.then_some(pooling),
        side,
    };
    finish_model(keys, Some(Vision::Encoder(Box::new(encoder))), None)
}

/// Module paths of a SAM encoder, which its checkpoints spell differently.
pub(crate) struct SamNames {
    pub(crate) patches: &'static str,
    pub(crate) positions: &'static str,
    pub(crate) layers: &'static str,
    pub(crate) norms: [&'static str; 2],
    /// First convolution, its norm, second convolution, its norm.
    pub(crate) neck: [&'static str; 4],
}

const SAM: SamNames = SamNames {
    patches: "vision_encoder.patch_embed.projection",
    positions: "vision_encoder.pos_embed",
    layers: "vision_encoder.layers",
    norms: ["layer_norm1", "layer_norm2"],
    neck: [
        "vision_encoder.neck.conv1",
        "vision_encoder.neck.layer_norm1",
        "vision_encoder.neck.conv2",
        "vision_encoder.neck.layer_norm2",
    ],
};

/// The sizes of a SAM encoder.
pub(crate) struct SamSizes {
    pub(crate) width: u64,
    pub(crate) heads: u64,
    pub(crate) inner: u64,
    pub(crate) layers: u32,
    pub(crate) window: u64,
    pub(crate) global: Vec<u64>,
    pub(crate) side: u64,
    pub(crate) patch: u64,
    pub(crate) channels: u64,
    pub(crate) output: u64,
    pub(crate) epsilon: f64,
    pub(crate) activation: ActivationKind,
    pub(crate) qkv_bias: bool,
    pub(crate) absolute: bool,
    pub(crate) relative: bool,
}

pub(crate) fn sam_encoder(sizes: &SamSizes, names: &SamNames) -> SamEncoder {
    let width = sizes.width;
    let norm = |name, width| Norm::layer_norm(name, width, sizes.epsilon);
    let across = sizes.side / sizes.patch;
    let layer = |window: u64| {
        let span = if window == 0 { across } else { window };
        SamLayer {
            norm1: norm(names.norms[0], width),
            name: "attn",
            qkv: Linear::new("attn.qkv", width, 3 * width, sizes.qkv_bias).without_quantization(),
            heads: sizes.heads,
            output: Linear::new("attn.proj", width, width, true).without_quantization(),
            window,
            relative: sizes
                .relative
                .then_some((["attn.rel_pos_h", "attn.rel_pos_w"], 2 * span - 1)),
            norm2: norm(names.norms[1], width),
            mlp: plain_mlp(
                ["mlp.lin1", "mlp.act", "mlp.lin2"],
                width,
                sizes.inner,
                sizes.activation,
            ),
        }
    };
    let (global, windowed): (Vec<_>, Vec<_>) =
        (0..sizes.layers).partition(|index| sizes.global.contains(&u64::from(*index)));
    let groups = [(windowed, layer(sizes.window)), (global, layer(0))];
    let conv = |name, inputs, outputs, kernel| Conv {
        name,
        inputs,
        outputs,
        depth: 1,
        kernel,
        stride: 1,
        bias: false,
    };
    SamEncoder {
        patches: Conv {
            stride: sizes.patch,
            bias: true,
            ..conv(names.patches, sizes.channels, width, sizes.patch)
        },
        positions: sizes.absolute.then_some((names.positions, across)),
        layers_prefix: names.layers,
        groups: groups
            .into_iter()
            .filter(|(layers, _)| !layers.is_empty())
            .collect(),
        neck: vec![
            (
                conv(names.neck[0], width, sizes.output, 1),
                Some(norm(names.neck[1], sizes.output)),
            ),
            (
                conv(names.neck[2], sizes.output, sizes.output, 3),
                Some(norm(names.neck[3], sizes.output)),
            ),
        ],
        side: sizes.side,
    }
}

pub(crate) fn build_sam(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let part = tower_keys(keys)?;
    let tower = part.as_ref().unwrap_or(keys);
    let sizes = read_sam(tower)?;
    let encoder = sam_encoder(&sizes, &SAM);
    finish_model(keys, Some(Vision::Sam(Box::new(encoder))), None)
}

/// The sizes that a config of a SAM encoder states.
pub(crate) fn read_sam(keys: &Keys<'_>) -> Result<SamSizes, ModelError> {
    let width = keys.size(&["hidden_size"], Some(768))?;
    let heads = keys.size(&["num_attention_heads"], Some(12))?;
    check_divides(keys, "num_attention_heads", heads, "hidden_size", width)?;
    let ratio = keys.positive(&["mlp_ratio"], 4.0)?;
    let (side, patch) = (keys.side("image_size", 1024)?, keys.side("patch_size", 16)?);
    patches_per_side(keys, side, patch)?;
    let inner = (width as f64 * ratio) as u64;
    Ok(SamSizes {
        width,
        heads,
        inner: keys.size(&["mlp_dim"], Some(inner.max(1)))?,
        layers: keys.layers(&["num_hidden_layers"], Some(12))?,
        window: keys.count(&["window_size"], 14)?,
        global: keys
            .integers("global_attn_indexes")?
            .unwrap_or_else(|| vec![2, 5, 8, 11]),
        side,
        patch,
        channels: keys.size(&["num_channels"], Some(3))?,
        output: keys.size(&["output_channels"], Some(256))?,
        epsilon: keys.positive(&["layer_norm_eps"], 1e-6)?,
        activation: keys.activation(&["hidden_act"], ActivationKind::Gelu)?,
        qkv_bias: keys.flag(&["qkv_bias"], true)?,
        absolute: keys.flag(&["use_abs_pos"], true)?,
        relative: keys.flag(&["use_rel_pos"], true)?,
    })
}
