//! DeepSeek-OCR: SAM and CLIP towers in sequence, a linear projector, and a small DeepSeek-V2 decoder without latents.

use super::{
    base::{check_divides, finish_model},
    deepseek,
    keys::Keys,
    vision::{SamNames, SamSizes, VitSizes, patches_per_side, sam_encoder, vit_layer},
};
use crate::{
    block::{ActivationKind, Conv, ImageEncoder, Linear, Norm, SamEncoder},
    error::ModelError,
    model::Model,
    vision::{DeepseekOcrVision, Vision},
};

/// Side of a local crop: the preprocessor's constant.
const CROP_SIDE: u64 = 640;

/// Pixels down and across that become one feature: patches of 16, compressed fourfold.
const IMAGE_SIDE_MIN_PIXELS: u64 = 64;

const SAM: SamNames = SamNames {
    patches: "model.sam_model.patch_embed.proj",
    positions: "model.sam_model.pos_embed",
    layers: "model.sam_model.blocks",
    norms: ["norm1", "norm2"],
    neck: [
        "model.sam_model.neck.0",
        "model.sam_model.neck.1",
        "model.sam_model.neck.2",
        "model.sam_model.neck.3",
    ],
};

pub(crate) fn deepseek_ocr(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let language = keys.part("language_config")?;
    let language = language.as_ref().unwrap_or(keys);
    let decoder = deepseek::v2_decoder(language)?;
    let vision = keys
        .part("vision_config")?
        .ok_or_else(|| keys.missing("vision_config"))?;
    let widths = vision
        .part("width")?
        .ok_or_else(|| vision.missing("width"))?;
    let base_side = vision.side("image_size", 1024)?;
    if base_side < IMAGE_SIDE_MIN_PIXELS {
        return Err(vision.contradiction(
            "image_size",
            base_side,
            format!("the {IMAGE_SIDE_MIN_PIXELS} pixels that SAM and its neck make one feature of"),
        ));
    }
    let sam = read_sam_tower(&widths, base_side)?;
    let clip = read_clip_tower(&widths)?;
    let features = clip.layer.width + sam.neck.last().map_or(0, |(conv, _)| conv.outputs);
    let hidden = decoder.hidden;
    if let Some(projector) = keys.part("projector_config")? {
        for (name, expected) in [("input_dim", features), ("n_embed", hidden)] {
            let stated = projector.size(&[name], Some(expected))?;
            if stated != expected {
                return Err(projector.contradiction(
                    name,
                    stated,
                    format!("the {expected} that the towers and the decoder have"),
                ));
            }
        }
    }
    let towers = DeepseekOcrVision {
        sam,
        clip,
        projector: Linear::new("model.projector.layers", features, hidden, true)
            .without_quantization(),
        newline: "model.image_newline",
        separator: "model.view_seperator",
        base_side,
        crop_side: CROP_SIDE,
    };
    finish_model(
        keys,
        Some(Vision::DeepseekOcr(Box::new(towers))),
        Some(decoder),
    )
}

fn read_sam_tower(widths: &Keys<'_>, side: u64) -> Result<SamEncoder, ModelError> {
    let keys = widths
        .part("sam_vit_b")?
        .ok_or_else(|| widths.missing("sam_vit_b"))?;
    let width = keys.size(&["width"], Some(768))?;
    let heads = keys.size(&["heads"], Some(12))?;
    check_divides(&keys, "heads", heads, "width", width)?;
    let sizes = SamSizes {
        width,
        heads,
        inner: 4 * width,
        layers: keys.layers(&["layers"], Some(12))?,
        window: 14,
        global: keys
            .integers("global_attn_indexes")?
            .unwrap_or_else(|| vec![2, 5, 8, 11]),
        side,
        patch: 16,
        channels: 3,
        output: 256,
        epsilon: 1e-6,
        activation: ActivationKind::Gelu,
        qkv_bias: true,
        absolute: true,
        relative: true,
    };
    let mut encoder = sam_encoder(&sizes, &SAM);
    let names = ["model.sam_model.net_2", "model.sam_model.net_3"];
    add_compression(&keys, &mut encoder, names, sizes.output, [512, 1024])?;
    Ok(encoder)
}

/// Adds two more convolutions of stride 2, which compress the features of the encoder's `inputs` channels.
pub(crate) fn add_compression(
    keys: &Keys<'_>,
    encoder: &mut SamEncoder,
    names: [&'static str; 2],
    inputs: u64,
    default: [u64; 2],
) -> Result<(), ModelError> {
    let channels = keys
        .integers("downsample_channels")?
        .unwrap_or_else(|| default.to_vec());
    let &[first, second] = channels.as_slice() else {
        return Err(keys.contradiction(
            "downsample_channels",
            format!("a list of {}", channels.len()),
            "the two convolutions after the neck",
        ));
    };
    if !(1..=65536).contains(&first) || !(1..=65536).contains(&second) {
        return Err(keys.contradiction("downsample_channels", first.max(second), "a width"));
    }
    let convolution = |name, inputs, outputs| Conv {
        name,
        inputs,
        outputs,
        depth: 1,
        kernel: 3,
        stride: 2,
        bias: false,
    };
    encoder.neck.extend([
        (convolution(names[0], inputs, first), None),
        (convolution(names[1], first, second), None),
    ]);
    Ok(())
}

fn read_clip_tower(widths: &Keys<'_>) -> Result<ImageEncoder, ModelError> {
    let keys = widths
        .part("clip-l-14-224")?
        .ok_or_else(|| widths.missing("clip-l-14-224"))?;
    let width = keys.size(&["width"], Some(1024))?;
    let heads = keys.size(&["heads"], Some(16))?;
    check_divides(&keys, "heads", heads, "width", width)?;
    let (side, patch) = (keys.side("image_size", 224)?, keys.side("patch_size", 14)?);
    let across = patches_per_side(&keys, side, patch)?;
    Ok(ImageEncoder {
        patches: Conv {
            name: "model.vision_model.embeddings.patch_embedding",
            inputs: 3,
            outputs: width,
            depth: 1,
            kernel: patch,
            stride: patch,
            bias: false,
        },
        class_token: Some("model.vision_model.embeddings.class_embedding"),
        positions: "model.vision_model.embeddings.position_embedding",
        position_rows: across * across + 1,
        before: Some(Norm::layer_norm(
            "model.vision_model.pre_layrnorm",
            width,
            1e-5,
        )),
        layers_prefix: "model.vision_model.transformer.layers",
        layers: (0..keys.layers(&["layers"], Some(24))?).collect(),
        layer: vit_layer(&VitSizes {
            width,
            heads,
            inner: 4 * width,
            epsilon: 1e-5,
            activation: ActivationKind::QuickGelu,
            fused: true,
        }),
        after: None,
        pooling: None,
        side,
    })
}
