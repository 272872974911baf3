//! Mixtral: Mistral with eight experts per layer.

use super::{
    base::{Base, Defaults, shared_table},
    keys::Keys,
    moe::check_top_k,
};
use crate::{
    block::{
        ActivationKind, Attention, ExpertWeights, Experts, FeedForward, Linear, Mixer, Moe, Router,
        Scoring,
    },
    error::ModelError,
    model::Model,
};

const MIXTRAL: Defaults = Defaults {
    vocabulary: 32_000,
    hidden: 4096,
    intermediate: 14_336,
    layers: 32,
    heads: 32,
    kv_heads: Some(8),
    head_dim: None,
    epsilon: 1e-5,
    theta: 1_000_000.0,
    tied: false,
    positions: 131_072,
    activation: ActivationKind::Silu,
};

pub(crate) fn build_mixtral(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read_keys(keys, &MIXTRAL)?;
    let rope = base.read_rope()?;
    let attention = Attention {
        window: keys
            .positions(&["sliding_window"])?
            .filter(|window| *window > 0),
        ..base.build_attention(rope.clone(), false, false)
    };
    let count = keys.size(&["num_local_experts", "num_experts"], Some(8))?;
    let top_k = keys.size(&["num_experts_per_tok"], Some(2))?;
    check_top_k(keys, top_k, count)?;
    let moe = Moe {
        router: Router {
            gate: Linear::new("block_sparse_moe.gate", base.hidden, count, false)
                .without_quantization(),
            correction: None,
            scoring: Scoring::Softmax,
            normalize: true,
            scaling: 1.0,
            groups: None,
        },
        experts: Experts {
            name: "block_sparse_moe.experts",
            count,
            top_k,
            hidden: base.hidden,
            intermediate: base.intermediate,
            activation: base.activation,
            weights: ExpertWeights::PerExpert {
                prefix: "block_sparse_moe.experts",
                gate: "w1",
                up: "w3",
                down: "w2",
            },
            dealt_to: 1,
        },
        shared: None,
        shared_gate: None,
    };
    base.build_model(base.build_decoder(shared_table(&rope), |_| {
        base.build_layer(
            Mixer::Attention(attention.clone()),
            FeedForward::Moe(Box::new(moe)),
        )
    }))
}
