//! Llama, and Mistral, which adds a sliding window.

use super::{
    base::{Base, Defaults, shared_table},
    keys::Keys,
};
use crate::{
    block::{ActivationKind, Attention, FeedForward, Mixer},
    error::ModelError,
    model::Model,
};

pub(super) const LLAMA: Defaults = Defaults {
    vocabulary: 32_000,
    hidden: 4096,
    intermediate: 11_008,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: None,
    epsilon: 1e-6,
    theta: 10_000.0,
    tied: false,
    positions: 2048,
    activation: ActivationKind::Silu,
};

const MISTRAL: Defaults = Defaults {
    intermediate: 14_336,
    kv_heads: Some(8),
    positions: 131_072,
    ..LLAMA
};

pub(crate) fn build_llama(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read_keys(keys, &LLAMA)?;
    let rope = base.read_rope()?;
    let bias = keys.flag(&["attention_bias"], false)?;
    let attention = base.build_attention(rope.clone(), bias, bias);
    let mlp = base.build_mlp(keys.flag(&["mlp_bias"], false)?);
    base.build_model(base.build_decoder(shared_table(&rope), |_| {
        base.build_layer(Mixer::Attention(attention.clone()), FeedForward::Dense(mlp))
    }))
}

/// Every layer slides, unless `sliding_window` is null; absent it is 4096, as in the class.
pub(crate) fn build_mistral(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read_keys(keys, &MISTRAL)?;
    let rope = base.read_rope()?;
    let window = if keys.states("sliding_window") {
        keys.positions(&["sliding_window"])?
    } else {
        Some(4096)
    };
    let attention = Attention {
        window: window.filter(|window| *window > 0),
        ..base.build_attention(rope.clone(), false, false)
    };
    let mlp = base.build_mlp(false);
    base.build_model(base.build_decoder(shared_table(&rope), |_| {
        base.build_layer(Mixer::Attention(attention.clone()), FeedForward::Dense(mlp))
    }))
}
