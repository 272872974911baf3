//! Phi-3: fused projections, rotation with a factor per dimension.

use super::{
    base::{Base, Defaults, shared_table},
    keys::Keys,
    rope::{RopeDefaults, read_rope},
};
use crate::{
    block::{
        ActivationKind, Attention, FeedForward, Linear, Mixer, Mlp, MlpInput, Projections, QkvOrder,
    },
    error::ModelError,
    model::Model,
};

const PHI3: Defaults = Defaults {
    vocabulary: 32_064,
    hidden: 3072,
    intermediate: 8192,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: None,
    epsilon: 1e-5,
    theta: 10_000.0,
    tied: false,
    positions: 4096,
    activation: ActivationKind::Silu,
};

pub(crate) fn build_phi3(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let base = Base::read_keys(keys, &PHI3)?;
    let rope = read_rope(keys, base.head_dim, &RopeDefaults::default())?;
    let widths = (base.heads + 2 * base.kv_heads) * base.head_dim;
    let attention = Attention {
        projections: Projections::Fused {
            qkv: Linear::new("self_attn.qkv_proj", base.hidden, widths, false),
            order: QkvOrder::Concatenated,
        },
        window: keys
            .positions(&["sliding_window"])?
            .filter(|window| *window > 0),
        ..base.build_attention(rope.clone(), false, false)
    };
    let mlp = Mlp {
        activation_name: "mlp.activation_fn",
        input: MlpInput::Fused(Linear::new(
            "mlp.gate_up_proj",
            base.hidden,
            2 * base.intermediate,
            false,
        )),
        down: Linear::new("mlp.down_proj", base.intermediate, base.hidden, false),
        activation: base.activation,
    };
    base.build_model(base.build_decoder(shared_table(&rope), |_| {
        base.build_layer(Mixer::Attention(attention.clone()), FeedForward::Dense(mlp))
    }))
}
