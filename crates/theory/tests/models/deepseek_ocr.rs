//! DeepSeek-OCR against the vendor's model under torch's counter: 96 sweep points and the table of layers.

use std::path::PathBuf;

use crate::support::{config, published};
use llmprof_theory::{
    AttentionConvention, Images, Kind, Logits, Model, Operator, Pass, Span, Workload,
};
use serde_json::Value;

/// Text tokens of the prompt in the sweeps: the context less the image's tokens.
const TEXT: u64 = 10;

fn workload(wide: u64, high: u64) -> Workload {
    Workload {
        prompt: TEXT,
        attention: AttentionConvention::Full,
        logits: Logits::All,
        images: Images {
            count: 1,
            crops_wide: wide,
            crops_high: high,
            ..Images::default()
        },
        ..Workload::default()
    }
}

fn tera(flops: u64) -> f64 {
    flops as f64 / 1e12
}

fn prefill(model: &Model, workload: &Workload) -> u64 {
    model
        .prefill_passes(workload)
        .map(|pass| model.cost_of(workload, &pass).tensor.total())
        .sum()
}

#[test]
fn all_sweep_points_are_reproduced_exactly() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/ancestor/deepseek_ocr_vendor_flops.json");
    let points: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(points.len(), 96);
    let model = published("deepseek_ocr");
    for point in &points {
        let number = |key: &str| point[key].as_u64();
        let workload = workload(
            number("width_crop_num").unwrap(),
            number("height_crop_num").unwrap(),
        );
        let tokens = model.prompt_tokens(&workload);
        assert_eq!(Some(tokens - TEXT), number("image_tokens_total"), "{point}");
        let vision = model.cost_span(&workload, Span::Vision).tensor.total();
        let (flops, key) = if point.get("vision_vendor_tflops").is_some() {
            (vision, "vision_vendor_tflops")
        } else if point.get("prefill_vendor_tflops").is_some() {
            // The sweep's prefill starts from pixels.
            (vision + prefill(&model, &workload), "prefill_vendor_tflops")
        } else {
            assert_eq!(Some(tokens), number("context_len"));
            let steps = number("decode_steps").unwrap();
            let pass = Pass::decode_steps(1, tokens, steps);
            let decode = model.cost_of(&workload, &pass).tensor.total();
            (decode, "decode_vendor_tflops")
        };
        assert_eq!(Some(tera(flops)), point[key].as_f64(), "{point}");
    }
}

/// The closed form of the sweeps, for a grid of crops that they do not hold.
#[test]
fn other_crop_grids_follow_the_closed_form() {
    let model = published("deepseek_ocr");
    for (wide, high) in [(4, 5), (7, 2), (1, 12)] {
        let workload = workload(wide, high);
        let sam = |side: u64| -> u64 {
            let n = side / 16;
            let t = n * n;
            let block = |tok: u64, attention: u64, k: u64| {
                tok * (2 * 768 * 2304 + 2 * 768 * 768)
                    + attention
                    + 4 * 12 * tok * k * 64
                    + 4 * t * 768 * 3072
            };
            let windows = n.div_ceil(14).pow(2);
            let windowed = block(196 * windows, 4 * 196 * 196 * 768 * windows, 14);
            let global = block(t, 4 * t * t * 768, n);
            let neck = 2 * t * 768 * 256 + 2 * t * 256 * 256 * 9;
            let nets = t / 4 * 2 * 256 * 9 * 512 + t / 16 * 2 * 512 * 9 * 1024;
            2 * t * 256 * 3 * 768 + 8 * windowed + 4 * global + neck + nets
        };
        let view = |side: u64| {
            let t = (side / 64).pow(2);
            let s = t + 1;
            let clip = 24 * (s * (8 * 1024 * 1024 + 4 * 1024 * 4096) + 4 * s * s * 1024);
            sam(side) + clip + 2 * t * 2048 * 1280
        };
        assert_eq!(sam(1024), 976_909_172_736);
        let vision = view(1024) + wide * high * view(640);
        assert_eq!(
            model.cost_span(&workload, Span::Vision).tensor.total(),
            vision
        );
        let s = 273 + (10 * wide + 1) * 10 * high + TEXT;
        assert_eq!(model.prompt_tokens(&workload), s);
        let h = 1280;
        let language = 12 * (8 * h * h * s + 4 * h * s * s + 128 * s)
            + s * (6 * h * 6848 + 11 * (8 * 6 * h * 896 + 2 * h * 64))
            + 2 * h * 129_280 * s;
        assert_eq!(prefill(&model, &workload), language);
    }
}

#[test]
fn parameters_are_those_of_the_checkpoint() {
    let model = published("deepseek_ocr");
    assert_eq!(model.parameter_count(), 3_336_106_240);
    let sum = |prefix: &str| -> u64 {
        model
            .checkpoint_tensors()
            .iter()
            .filter(|tensor| tensor.name.starts_with(prefix))
            .map(|tensor| tensor.shape.elements())
            .sum()
    };
    for (prefix, expected) in [
        ("model.embed_tokens", 165_478_400),
        ("lm_head", 165_478_400),
        ("model.layers.0.self_attn", 6_553_600),
        ("model.layers.1.mlp", 227_164_160),
        ("model.sam_model", 95_569_152),
        ("model.vision_model", 303_177_728),
        ("model.projector", 2_622_720),
        ("model.image_newline", 1280),
        ("model.view_seperator", 1280),
    ] {
        assert_eq!(sum(prefix), expected, "{prefix}");
    }
    // 2 × 12 layers × 1280 × 2 bytes per token.
    let workload = Workload::default();
    assert_eq!(model.kv_cache_bytes(&workload, 1), 61_440);
    assert_eq!(model.kv_cache_bytes(&workload, 493), 493 * 61_440);
}

/// FLOPs of one layer's operators that `select` picks.
fn layer_flops(operators: &[(String, Kind, u64)], select: impl Fn(&str, Kind) -> bool) -> u64 {
    operators
        .iter()
        .filter(|(path, kind, _)| select(path, *kind))
        .map(|(_, _, flops)| flops)
        .sum()
}

/// Σ of matrix work by path, one layer each.
fn collect(lower: impl FnOnce(&mut dyn FnMut(&Operator<'_>))) -> Vec<(String, Kind, u64)> {
    let mut operators = Vec::new();
    lower(&mut |operator| {
        operators.push((
            operator.path.to_string(),
            operator.kind,
            operator.tensor.flops,
        ));
    });
    operators
}

/// Five significant digits, as the table of layers prints them.
fn agrees(flops: u64, giga: f64, what: &str) {
    let computed = flops as f64 / 1e9;
    assert!(
        (computed - giga).abs() <= giga * 5e-5,
        "{what}: {computed} GFLOP, the counter saw {giga}"
    );
}

#[test]
fn the_table_of_layers_is_reproduced() {
    let model = published("deepseek_ocr");
    // One global view, no crops: the towers at 1024 pixels.
    let view = workload(0, 0);
    let vision = collect(|sink| model.lower_vision(&view, sink));
    let in_block = |block: u32, part: &str| {
        let prefix = format!("model.sam_model.blocks.{block}.{part}");
        layer_flops(&vision, |path, _| path.starts_with(&prefix))
    };
    // The module was measured by itself, where relative positions are off by default.
    let mut bare = config("sam_vit_b");
    bare["use_rel_pos"] = false.into();
    let bare = Model::from_config(&bare, None).unwrap();
    let bare = collect(|sink| bare.lower_vision(&view, sink));
    agrees(
        layer_flops(&bare, |path, _| {
            path.starts_with("vision_encoder.layers.0.attn")
        }),
        26.071,
        "windowed attention",
    );
    agrees(in_block(0, "mlp"), 38.655, "MLP block");
    agrees(in_block(2, ""), 110.33, "global block");
    agrees(
        layer_flops(&vision, |path, _| path.contains("patch_embed")),
        4.8318,
        "patch embedding",
    );
    let sam = model.cost_span(&view, Span::Vision).tensor.total()
        - layer_flops(&vision, |path, _| {
            path.starts_with("model.vision_model") && !path.contains("layers")
        })
        - 24 * layer_flops(&vision, |path, _| {
            path.starts_with("model.vision_model.transformer.layers")
        })
        - layer_flops(&vision, |path, _| path.contains("projector"));
    agrees(sam, 976.91, "image encoder");
    let clip = |part: &str| {
        let prefix = format!("model.vision_model.transformer.layers.0.{part}");
        layer_flops(&vision, |path, _| path.starts_with(&prefix))
    };
    agrees(clip("self_attn"), 2.4264, "CLIP attention");
    agrees(clip("mlp"), 4.3117, "CLIP feed-forward");
    agrees(clip(""), 6.7382, "CLIP block");
    let clip_alone = published("clip_vit_l_14");
    let conv = collect(|sink| clip_alone.lower_vision(&view, sink));
    agrees(
        layer_flops(&conv, |_, kind| kind == Kind::Conv2d),
        0.30828,
        "CLIP patches",
    );
    // The decoder's layers were measured over 512 tokens.
    let text = Workload {
        prompt: 512,
        images: Images::default(),
        ..view
    };
    let pass = model.prefill_passes(&text).next().unwrap();
    let language = collect(|sink| model.lower_in_order(&text, &pass, sink));
    let layer = |index: u32, part: &str| {
        let prefix = format!("model.layers.{index}.{part}");
        layer_flops(&language, |path, kind| {
            path.starts_with(&prefix) && kind != Kind::RopeTable
        })
    };
    let projections = layer_flops(&language, |path, kind| {
        path.starts_with("model.layers.0.self_attn") && kind == Kind::Linear
    });
    agrees(
        projections,
        6.7110,
        "attention, whose flash kernel the counter missed",
    );
    agrees(layer(0, ""), 34.980, "dense layer");
    agrees(layer(1, ""), 36.323, "layer with experts");
    agrees(layer(0, "mlp"), 26.927, "dense MLP");
    agrees(layer(1, "mlp.gate"), 0.083_886, "gate");
    agrees(layer(1, "mlp"), 28.270, "mixture of experts");
    let table = layer_flops(&language, |path, kind| {
        path.starts_with("model.layers.0.") && kind == Kind::RopeTable
    });
    agrees(table, 6.5536e-5, "rotation angles");
}
