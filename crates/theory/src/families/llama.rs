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

const LLAMA: Defaults = Defaults {
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

pub(crate) fn llama(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read(keys, &LLAMA)?;
    let rope = base.rope()?;
    let bias = keys.flag(&["attention_bias"], false)?;
    let attention = base.attention(rope.clone(), bias, bias);
    let mlp = base.mlp(keys.flag(&["mlp_bias"], false)?);
    base.model(base.decoder(shared_table(&rope), |_| {
        base.layer(Mixer::Attention(attention.clone()), FeedForward::Dense(mlp))
    }))
}

/// Every layer slides, unless `sliding_window` is null; absent it is 4096, as in the class.
pub(crate) fn mistral(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read(keys, &MISTRAL)?;
    let rope = base.rope()?;
    let window = if keys.states("sliding_window") {
        keys.positions(&["sliding_window"])?
    } else {
        Some(4096)
    };
    let attention = Attention {
        window: window.filter(|window| *window > 0),
        ..base.attention(rope.clone(), false, false)
    };
    let mlp = base.mlp(false);
    base.model(base.decoder(shared_table(&rope), |_| {
        base.layer(Mixer::Attention(attention.clone()), FeedForward::Dense(mlp))
    }))
}
