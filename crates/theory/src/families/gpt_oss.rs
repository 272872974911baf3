//! GPT-OSS: alternating windows, a learned sink per head, experts with biases stored in mxfp4.

use super::{
    base::{Base, Defaults, shared_table},
    keys::Keys,
    moe::check_top_k,
};
use crate::{
    block::{
        ActivationKind, Attention, ExpertWeights, Experts, FeedForward, Linear, Mixer, Moe,
        Projections, RopeScaling, Router, Scoring,
    },
    error::ModelError,
    model::Model,
};

const GPT_OSS: Defaults = Defaults {
    vocabulary: 201_088,
    hidden: 2880,
    intermediate: 2880,
    layers: 36,
    heads: 64,
    kv_heads: Some(8),
    head_dim: Some(64),
    epsilon: 1e-5,
    theta: 150_000.0,
    tied: false,
    positions: 131_072,
    activation: ActivationKind::Silu,
};

pub(crate) fn gpt_oss(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read_keys(keys, &GPT_OSS)?;
    let mut rope = base.read_rope()?;
    if !keys.has("rope_parameters") && !keys.has("rope_scaling") {
        rope.scaling = RopeScaling::Yarn {
            factor: 32.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_max_position: 4096,
            attention_factor: None,
            mscale: None,
            mscale_all_dim: None,
            truncate: false,
        };
    }
    let bias = keys.flag(&["attention_bias"], true)?;
    let mut attention = Attention {
        sinks: Some("self_attn.sinks"),
        ..base.build_attention(rope.clone(), bias, bias)
    };
    // The published mxfp4 checkpoints quantize the experts alone.
    attention.output = attention.output.without_quantization();
    if let Projections::Separate { q, k, v } = &mut attention.projections {
        for linear in [q, k, v] {
            *linear = linear.without_quantization();
        }
    }
    let window = if keys.states("sliding_window") {
        keys.positions(&["sliding_window"])?
    } else {
        Some(128)
    };
    let windows = base.layer_windows(window, |layer| layer.is_multiple_of(2))?;
    let count = keys.size(&["num_local_experts", "num_experts"], Some(128))?;
    let top_k = keys.size(&["num_experts_per_tok", "experts_per_token"], Some(4))?;
    check_top_k(keys, top_k, count)?;
    let moe = Moe {
        router: Router {
            gate: Linear::new("mlp.router", base.hidden, count, true).without_quantization(),
            correction: None,
            scoring: Scoring::SoftmaxOfChosen,
            normalize: false,
            scaling: 1.0,
            groups: None,
        },
        experts: Experts {
            name: "mlp.experts",
            count,
            top_k,
            hidden: base.hidden,
            intermediate: base.intermediate,
            activation: ActivationKind::ClampedSwiglu,
            weights: ExpertWeights::PackedInterleaved {
                gate_up: "mlp.experts.gate_up_proj",
                gate_up_bias: "mlp.experts.gate_up_proj_bias",
                down: "mlp.experts.down_proj",
                down_bias: "mlp.experts.down_proj_bias",
            },
            dealt_to: 1,
        },
        shared: None,
        shared_gate: None,
    };
    base.build_model(base.build_decoder(shared_table(&rope), |layer| {
        base.build_layer(
            Mixer::Attention(Attention {
                window: windows[layer as usize],
                ..attention.clone()
            }),
            FeedForward::Moe(Box::new(moe)),
        )
    }))
}
