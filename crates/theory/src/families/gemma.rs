//! Gemma 2 (alternating windows, soft caps) and Gemma 3 (five windows to one full layer, norms on queries and keys).

use super::{
    base::{Base, Defaults, shared_table},
    keys::Keys,
};
use crate::{
    block::{ActivationKind, Attention, FeedForward, Layer, Mixer, Norm, NormKind, RopeTable},
    error::ModelError,
    model::{Decoder, Model},
};

const GEMMA2: Defaults = Defaults {
    vocabulary: 256_000,
    hidden: 2304,
    intermediate: 9216,
    layers: 26,
    heads: 8,
    kv_heads: Some(4),
    head_dim: Some(256),
    epsilon: 1e-6,
    theta: 10_000.0,
    tied: true,
    positions: 8192,
    activation: ActivationKind::GeluTanh,
};

const GEMMA3: Defaults = Defaults {
    vocabulary: 262_208,
    theta: 1_000_000.0,
    positions: 131_072,
    ..GEMMA2
};

/// Gemma's norms store their weight less one.
fn with_unit_offset(norm: Norm) -> Norm {
    Norm {
        kind: NormKind::RmsUnitOffset,
        ..norm
    }
}

fn read_window(keys: &Keys<'_>) -> Result<Option<u64>, ModelError> {
    if keys.states("sliding_window") {
        keys.positions(&["sliding_window"])
    } else {
        Ok(Some(4096))
    }
}

/// `hidden_activation`; old configs keep a `hidden_act` beside it that the model never used.
fn read_activation(keys: &Keys<'_>) -> Result<ActivationKind, ModelError> {
    keys.activation(&["hidden_activation"], ActivationKind::GeluTanh)
}

/// Four norms per layer, two of them on the results.
fn build_layer(base: &Base<'_, '_>, attention: Attention) -> Layer {
    let norm = |name| with_unit_offset(base.rms_norm(name));
    Layer {
        mixer_norm: norm("input_layernorm"),
        after_mixer_norm: Some(norm("post_attention_layernorm")),
        feed_norm: norm("pre_feedforward_layernorm"),
        after_feed_norm: Some(norm("post_feedforward_layernorm")),
        ..base.build_layer(
            Mixer::Attention(attention),
            FeedForward::Dense(base.build_mlp(false)),
        )
    }
}

/// Embeddings are scaled by the root of the width; the last norm is like the others.
fn finish_gemma(base: &Base<'_, '_>, mut decoder: Decoder) -> Result<Model, ModelError> {
    decoder.embedding.scale = Some((base.hidden as f64).sqrt());
    decoder.final_norm = decoder.final_norm.map(with_unit_offset);
    base.build_model(decoder)
}

/// What scores are multiplied by, and their cap.
fn read_score_scale(keys: &Keys<'_>, cap: Option<f64>) -> Result<(f64, Option<f64>), ModelError> {
    let scalar = keys.positive(&["query_pre_attn_scalar"], 256.0)?;
    Ok((scalar.powf(-0.5), keys.cap("attn_logit_softcapping", cap)?))
}

pub(crate) fn build_gemma2(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let mut base = Base::read_keys(keys, &GEMMA2)?;
    base.activation = read_activation(keys)?;
    let rope = base.read_rope()?;
    let bias = keys.flag(&["attention_bias"], false)?;
    let (scale, softcap) = read_score_scale(keys, Some(50.0))?;
    let attention = Attention {
        softcap,
        scale,
        ..base.build_attention(rope.clone(), bias, bias)
    };
    let windows = base.layer_windows(read_window(keys)?, |index| index.is_multiple_of(2))?;
    let mut decoder = base.build_decoder(shared_table(&rope), |index| {
        build_layer(
            &base,
            Attention {
                window: windows[index as usize],
                ..attention.clone()
            },
        )
    });
    decoder.head.softcap = keys.cap("final_logit_softcapping", Some(30.0))?;
    finish_gemma(&base, decoder)
}

pub(crate) fn gemma3_text(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let mut base = Base::read_keys(keys, &GEMMA3)?;
    base.activation = read_activation(keys)?;
    let full = base.rope_of(Some("full_attention"))?;
    let local_theta = keys.positive(&["rope_local_base_freq"], 10_000.0)?;
    let mut local = base.rope_of(Some("sliding_attention"))?;
    let by_type = keys
        .part("rope_parameters")?
        .is_some_and(|part| part.has("sliding_attention"));
    if !by_type {
        // RoPE scaling applies to the full layers only.
        local.scaling = crate::block::RopeScaling::None;
        local.theta = local_theta;
    }
    let bias = keys.flag(&["attention_bias"], false)?;
    let (scale, softcap) = read_score_scale(keys, None)?;
    let head_norm = |name| {
        Some(with_unit_offset(Norm::rms_norm(
            name,
            base.head_dim,
            base.epsilon,
        )))
    };
    let attention = Attention {
        q_norm: head_norm("self_attn.q_norm"),
        k_norm: head_norm("self_attn.k_norm"),
        softcap,
        scale,
        ..base.build_attention(full.clone(), bias, bias)
    };
    let pattern = keys.size(
        &["sliding_window_pattern", "_sliding_window_pattern"],
        Some(6),
    )?;
    let windows = base.layer_windows(read_window(keys)?, |index| {
        !u64::from(index + 1).is_multiple_of(pattern)
    })?;
    let mut tables = Vec::new();
    let mut table = |name, rope: &crate::block::Rope, used: bool| {
        if used {
            tables.push(RopeTable {
                name,
                rope: rope.clone(),
                axes: 1,
            });
        }
    };
    table("model.rotary_emb.full", &full, windows.contains(&None));
    table(
        "model.rotary_emb.sliding",
        &local,
        windows.iter().any(Option::is_some),
    );
    let mut decoder = base.build_decoder(tables, |index| {
        let window = windows[index as usize];
        let rope = if window.is_some() { &local } else { &full };
        build_layer(
            &base,
            Attention {
                window,
                rope: Some(rope.clone()),
                ..attention.clone()
            },
        )
    });
    decoder.head.softcap = keys.cap("final_logit_softcapping", None)?;
    finish_gemma(&base, decoder)
}
