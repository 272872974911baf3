//! Qwen2 (biases on queries, keys and values), Qwen3 (norms on queries and keys), and their mixtures of experts.

use super::{
    base::{Base, Defaults, shared_table},
    keys::Keys,
    moe::{build_experts, check_top_k, expert_layers},
};
use crate::{
    block::{ActivationKind, Attention, FeedForward, Linear, Mixer, Moe, Router, Scoring},
    error::ModelError,
    model::{Decoder, Model},
};

pub(super) const QWEN2: Defaults = Defaults {
    vocabulary: 151_936,
    hidden: 4096,
    intermediate: 22_016,
    layers: 32,
    heads: 32,
    kv_heads: Some(32),
    head_dim: None,
    epsilon: 1e-6,
    theta: 10_000.0,
    tied: false,
    positions: 32_768,
    activation: ActivationKind::Silu,
};

const QWEN3: Defaults = Defaults {
    head_dim: Some(128),
    ..QWEN2
};

const QWEN2_MOE: Defaults = Defaults {
    hidden: 2048,
    intermediate: 5632,
    layers: 24,
    heads: 16,
    kv_heads: Some(16),
    ..QWEN2
};

const QWEN3_MOE: Defaults = Defaults {
    hidden: 2048,
    intermediate: 6144,
    layers: 24,
    heads: 32,
    kv_heads: Some(4),
    ..QWEN2
};

const QWEN2_5_VL: Defaults = Defaults {
    vocabulary: 152_064,
    hidden: 8192,
    intermediate: 29_568,
    layers: 80,
    heads: 64,
    kv_heads: Some(8),
    epsilon: 1e-5,
    theta: 1_000_000.0,
    ..QWEN2
};

/// The window, where the config switches it on.
fn read_window(keys: &Keys<'_>) -> Result<Option<u64>, ModelError> {
    if !keys.flag(&["use_sliding_window"], false)? {
        return Ok(None);
    }
    Ok(Some(keys.positions(&["sliding_window"])?.unwrap_or(4096)))
}

/// Layers from `max_window_layers` on slide.
fn upper_layers(base: &Base<'_, '_>, default: u64) -> Result<Vec<Option<u64>>, ModelError> {
    let first = base.keys.count(&["max_window_layers"], default)?;
    base.layer_windows(read_window(base.keys)?, |layer| u64::from(layer) >= first)
}

fn build_dense(base: &Base<'_, '_>, attention: &Attention, windows: &[Option<u64>]) -> Decoder {
    let mlp = base.build_mlp(false);
    let rope = attention.rope.as_ref().expect("Qwen's attention rotates");
    base.build_decoder(shared_table(rope), |layer| {
        base.build_layer(
            Mixer::Attention(Attention {
                window: windows[layer as usize],
                ..attention.clone()
            }),
            FeedForward::Dense(mlp),
        )
    })
}

pub(crate) fn build_qwen2(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read_keys(keys, &QWEN2)?;
    let attention = base.build_attention(base.read_rope()?, true, false);
    base.build_model(build_dense(&base, &attention, &upper_layers(&base, 28)?))
}

pub(crate) fn build_qwen3(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read_keys(keys, &QWEN3)?;
    let bias = keys.flag(&["attention_bias"], false)?;
    let attention = base.attention_with_qk_norm(base.read_rope()?, bias);
    base.build_model(build_dense(&base, &attention, &upper_layers(&base, 28)?))
}

/// The language model of Qwen2.5-VL: Qwen2 with three position indices per token.
pub(crate) fn qwen2_5_vl_decoder(keys: &Keys<'_>, tied: bool) -> Result<Decoder, ModelError> {
    let mut base = Base::read_keys(keys, &QWEN2_5_VL)?;
    base.tied = tied;
    let attention = base.build_attention(base.read_rope()?, true, false);
    let mut decoder = build_dense(&base, &attention, &upper_layers(&base, 80)?);
    for table in &mut decoder.tables {
        table.axes = 3;
    }
    Ok(decoder)
}

/// Weights of a token's experts by softmax over all of them.
pub(crate) fn build_router(base: &Base<'_, '_>, count: u64, normalize: bool) -> Router {
    Router {
        gate: Linear::new("mlp.gate", base.hidden, count, false).without_quantization(),
        correction: None,
        scoring: Scoring::Softmax,
        normalize,
        scaling: 1.0,
        groups: None,
    }
}

/// Experts, how many a token uses, and widths inside a routed and inside the shared one, which has a gate.
pub(crate) fn gated_moe(
    base: &Base<'_, '_>,
    router: Router,
    [count, top_k]: [u64; 2],
    [inner, shared]: [u64; 2],
) -> Moe {
    Moe {
        router,
        experts: build_experts(base, count, top_k, inner),
        shared: Some(base.mlp_named(
            [
                "mlp.shared_expert.gate_proj",
                "mlp.shared_expert.up_proj",
                "mlp.shared_expert.act_fn",
                "mlp.shared_expert.down_proj",
            ],
            shared,
            false,
        )),
        shared_gate: Some(
            Linear::new("mlp.shared_expert_gate", base.hidden, 1, false).without_quantization(),
        ),
    }
}

pub(crate) fn qwen2_moe(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read_keys(keys, &QWEN2_MOE)?;
    let bias = keys.flag(&["qkv_bias"], true)?;
    let rope = base.read_rope()?;
    let attention = base.build_attention(rope.clone(), bias, false);
    let count = keys.size(&["num_experts", "num_local_experts"], Some(60))?;
    let top_k = keys.size(&["num_experts_per_tok"], Some(4))?;
    check_top_k(keys, top_k, count)?;
    let shared = keys.size(&["shared_expert_intermediate_size"], Some(5632))?;
    let inner = keys.size(&["moe_intermediate_size"], Some(1408))?;
    let router = build_router(&base, count, keys.flag(&["norm_topk_prob"], false)?);
    let moe = gated_moe(&base, router, [count, top_k], [inner, shared]);
    let sparse = expert_layers(keys, base.layers)?;
    let first = keys.count(&["max_window_layers"], 28)?;
    // Even layers below `max_window_layers` slide in this family, unlike in Qwen2.
    let windows = base.layer_windows(read_window(keys)?, |layer| {
        layer.is_multiple_of(2) && u64::from(layer) < first
    })?;
    let mlp = base.build_mlp(false);
    base.build_model(base.build_decoder(shared_table(&rope), |layer| {
        let feed = if sparse[layer as usize] {
            FeedForward::Moe(Box::new(moe))
        } else {
            FeedForward::Dense(mlp)
        };
        let attention = Attention {
            window: windows[layer as usize],
            ..attention.clone()
        };
        base.build_layer(Mixer::Attention(attention), feed)
    }))
}

pub(crate) fn qwen3_moe(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read_keys(keys, &QWEN3_MOE)?;
    let rope = base.read_rope()?;
    let bias = keys.flag(&["attention_bias"], false)?;
    let attention = Attention {
        window: read_window(keys)?.filter(|window| *window > 0),
        ..base.attention_with_qk_norm(rope.clone(), bias)
    };
    let count = keys.size(&["num_experts", "num_local_experts"], Some(128))?;
    let top_k = keys.size(&["num_experts_per_tok"], Some(8))?;
    check_top_k(keys, top_k, count)?;
    let moe = Moe {
        router: build_router(&base, count, keys.flag(&["norm_topk_prob"], false)?),
        experts: build_experts(
            &base,
            count,
            top_k,
            keys.size(&["moe_intermediate_size"], Some(768))?,
        ),
        shared: None,
        shared_gate: None,
    };
    let sparse = expert_layers(keys, base.layers)?;
    let mlp = base.build_mlp(false);
    base.build_model(base.build_decoder(shared_table(&rope), |layer| {
        let feed = if sparse[layer as usize] {
            FeedForward::Moe(Box::new(moe))
        } else {
            FeedForward::Dense(mlp)
        };
        base.build_layer(Mixer::Attention(attention.clone()), feed)
    }))
}
