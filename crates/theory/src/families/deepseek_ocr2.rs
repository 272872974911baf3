//! DeepSeek-OCR-2: SAM, a Qwen2-like encoder whose learned queries read SAM's features, a linear projector, and a small
//! DeepSeek-V2 decoder without latents.

use super::{
    base::{Base, finish_model},
    deepseek,
    deepseek_ocr::add_compression,
    keys::Keys,
    qwen::QWEN2,
    vision::{SamNames, read_sam, sam_encoder},
};
use crate::{
    block::{FeedForward, Linear, Mixer, RopeTable, SamEncoder},
    error::ModelError,
    model::Model,
    query_vision::{QueryEncoder, QueryVision},
    vision::Vision,
};

/// Side of a local crop: the preprocessor's constant, and what the smaller table of queries is for.
const CROP_SIDE: u64 = 768;

/// Rows of the two tables of queries: features of a crop, and of a whole image of 1024 pixels.
const QUERIES: [u64; 2] = [144, 256];

const SAM: SamNames = SamNames {
    patches: "model.vision_tower.sam_encoder.patch_embed.projection",
    positions: "model.vision_tower.sam_encoder.pos_embed",
    layers: "model.vision_tower.sam_encoder.layers",
    norms: ["layer_norm1", "layer_norm2"],
    neck: [
        "model.vision_tower.sam_encoder.neck.conv1",
        "model.vision_tower.sam_encoder.neck.layer_norm1",
        "model.vision_tower.sam_encoder.neck.conv2",
        "model.vision_tower.sam_encoder.neck.layer_norm2",
    ],
};

pub(crate) fn deepseek_ocr2(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let text = keys
        .part("text_config")?
        .ok_or_else(|| keys.missing("text_config"))?;
    let decoder = deepseek::ocr2_decoder(&text)?;
    let vision = keys
        .part("vision_config")?
        .ok_or_else(|| keys.missing("vision_config"))?;
    let part = |name| vision.part(name)?.ok_or_else(|| vision.missing(name));
    let (sam_keys, encoder_keys) = (part("sam_config")?, part("encoder_config")?);
    let sam = read_sam_tower(&sam_keys)?;
    let base_side = sam.side;
    let encoder = read_encoder(&encoder_keys)?;
    let features = sam.neck.last().map_or(0, |(conv, _)| conv.outputs);
    if features != encoder.layer.width {
        return Err(encoder_keys.contradiction(
            "hidden_size",
            encoder.layer.width,
            format!("the {features} channels that SAM ends with"),
        ));
    }
    let projector = Linear::new(
        "model.multi_modal_projector",
        encoder.layer.width,
        decoder.hidden,
        true,
    )
    .without_quantization();
    let towers = QueryVision {
        sam,
        encoder,
        projector,
        separator: "model.view_separator",
        base_side,
        crop_side: CROP_SIDE,
    };
    finish_model(keys, Some(Vision::Queries(Box::new(towers))), Some(decoder))
}

fn read_sam_tower(keys: &Keys<'_>) -> Result<SamEncoder, ModelError> {
    let sizes = read_sam(keys)?;
    let mut encoder = sam_encoder(&sizes, &SAM);
    let names = [
        "model.vision_tower.sam_encoder.proj.conv1",
        "model.vision_tower.sam_encoder.proj.conv2",
    ];
    add_compression(keys, &mut encoder, names, sizes.output, [512, 896])?;
    Ok(encoder)
}

fn read_encoder(keys: &Keys<'_>) -> Result<QueryEncoder, ModelError> {
    let base = Base::read_keys(keys, &QWEN2)?;
    let rope = base.read_rope()?;
    let attention = base.build_attention(rope.clone(), true, false);
    let mlp = base.build_mlp(false);
    Ok(QueryEncoder {
        tables: [
            ("model.vision_tower.query_768_resolution", QUERIES[0]),
            ("model.vision_tower.query_1024_resolution", QUERIES[1]),
        ],
        rope: RopeTable {
            name: "model.vision_tower.vision_encoder.rotary_emb",
            rope,
            axes: 1,
        },
        layers_prefix: "model.vision_tower.vision_encoder.layers",
        layers: (0..base.layers).collect(),
        layer: base.build_layer(Mixer::Attention(attention), FeedForward::Dense(mlp)),
        norm: base.rms_norm("model.vision_tower.vision_encoder.norm"),
    })
}
