//! DeepSeek-V2 and V3: latent attention, dense first layers, then shared and routed experts.

use super::{
    base::{Base, Defaults, finish_model, shared_table},
    keys::Keys,
    llama::LLAMA,
    moe::{build_experts, check_top_k},
    quantization::is_left_plain,
    rope::{RopeDefaults, read_rope},
};
use crate::{
    block::{
        Attention, FeedForward, Linear, Mixer, Mla, MlaQuery, Mlp, Moe, Norm, Rope, RopePairing,
        RopeScaling, RopeTable, Router, Scoring,
    },
    error::ModelError,
    model::{Decoder, Model},
};

const V2: Defaults = Defaults {
    vocabulary: 102_400,
    ..LLAMA
};

const V3: Defaults = Defaults {
    vocabulary: 129_280,
    hidden: 7168,
    intermediate: 18_432,
    layers: 61,
    heads: 128,
    positions: 4096,
    ..V2
};

/// Where the two generations differ.
struct DeepSeekGeneration {
    defaults: Defaults,
    dense_layers: u64,
    moe_intermediate: u64,
    routed: u64,
    shared: u64,
    top_k: Option<u64>,
    scaling: f64,
    normalize: bool,
    groups: Option<(u64, u64)>,
    scoring: Scoring,
    correction: Option<&'static str>,
    /// Whether attention works on latents where the config does not say.
    latent: bool,
}

pub(crate) fn deepseek_v2(keys: &Keys<'_>) -> Result<Model, ModelError> {
    finish_model(keys, None, Some(v2_decoder(keys)?))
}

const V2_GENERATION: DeepSeekGeneration = DeepSeekGeneration {
    defaults: V2,
    dense_layers: 0,
    moe_intermediate: 1407,
    routed: 64,
    shared: 2,
    top_k: None,
    scaling: 1.0,
    normalize: false,
    groups: None,
    scoring: Scoring::Softmax,
    correction: None,
    latent: true,
};

/// The decoder by itself, for models that put towers before it.
pub(crate) fn v2_decoder(keys: &Keys<'_>) -> Result<Decoder, ModelError> {
    read_decoder(keys, &V2_GENERATION)
}

/// That of DeepSeek-OCR-2 as transformers has it: plain attention, one table of angles for all layers.
pub(crate) fn ocr2_decoder(keys: &Keys<'_>) -> Result<Decoder, ModelError> {
    let mut decoder = read_decoder(
        keys,
        &DeepSeekGeneration {
            latent: false,
            ..V2_GENERATION
        },
    )?;
    for group in &mut decoder.groups {
        if let Mixer::Attention(attention) = &mut group.layer.mixer
            && let Some(table) = attention.rope_table.take()
        {
            decoder.tables = shared_table(&table.rope);
        }
    }
    Ok(decoder)
}

pub(crate) fn deepseek_v3(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let decoder = read_decoder(
        keys,
        &DeepSeekGeneration {
            defaults: V3,
            dense_layers: 3,
            moe_intermediate: 2048,
            routed: 256,
            shared: 1,
            top_k: Some(8),
            scaling: 2.5,
            normalize: true,
            groups: Some((8, 4)),
            scoring: Scoring::Sigmoid,
            correction: Some("mlp.gate.e_score_correction_bias"),
            latent: true,
        },
    )?;
    finish_model(keys, None, Some(decoder))
}

fn read_decoder(keys: &Keys<'_>, generation: &DeepSeekGeneration) -> Result<Decoder, ModelError> {
    let base = Base::read_keys(keys, &generation.defaults)?;
    let (mixer, tables) = if keys.flag(&["use_mla"], generation.latent)? {
        let mut attention = read_mla(keys, &base)?;
        if is_left_plain(keys, "self_attn")? {
            attention = without_quantization(attention);
        }
        let tables = shared_table(&attention.rope);
        (Mixer::Mla(attention), tables)
    } else {
        (Mixer::Attention(plain_attention(&base)?), Vec::new())
    };
    let mut moe = read_experts(keys, &base, generation)?;
    if is_left_plain(keys, "shared_experts")? {
        moe.shared = moe.shared.map(Mlp::without_quantization);
    }
    let dense = keys.count(&["first_k_dense_replace"], generation.dense_layers)?;
    let every = keys.size(&["moe_layer_freq"], Some(1))?;
    let listed = sparse_layers(keys, base.layers)?;
    let mut mlp = base.build_mlp(keys.flag(&["mlp_bias"], false)?);
    if is_left_plain(keys, "gate_up")? {
        mlp = mlp.without_quantization();
    }
    Ok(base.build_decoder(tables, |layer| {
        let sparse = match &listed {
            Some(listed) => listed[layer as usize],
            None => u64::from(layer) >= dense && u64::from(layer).is_multiple_of(every),
        };
        let feed = if sparse {
            FeedForward::Moe(Box::new(moe))
        } else {
            FeedForward::Dense(mlp)
        };
        base.build_layer(mixer.clone(), feed)
    }))
}

/// True per layer with experts, where the config lists them.
fn sparse_layers(keys: &Keys<'_>, layers: u32) -> Result<Option<Vec<bool>>, ModelError> {
    let Some((_, value)) = keys.get(&["mlp_layer_types"]) else {
        return Ok(None);
    };
    let expected = "a list of `dense` and `sparse`";
    let list = value
        .as_array()
        .ok_or_else(|| keys.invalid("mlp_layer_types", value, expected))?;
    if list.len() != layers as usize {
        return Err(keys.contradiction(
            "mlp_layer_types",
            format!("a list of {}", list.len()),
            format!("`num_hidden_layers` = {layers}"),
        ));
    }
    let sparse = list.iter().map(|entry| match entry.as_str() {
        Some("dense") => Ok(false),
        Some("sparse") => Ok(true),
        _ => Err(keys.invalid("mlp_layer_types", entry, expected)),
    });
    sparse.collect::<Result<_, _>>().map(Some)
}

/// Multi-head attention in place of latents (DeepSeek-OCR); its code makes the table of angles in every layer.
fn plain_attention(base: &Base<'_, '_>) -> Result<Attention, ModelError> {
    let rope = base.read_rope()?;
    Ok(Attention {
        rope_table: Some(RopeTable {
            name: "self_attn.rotary_emb",
            rope: rope.clone(),
            axes: 1,
        }),
        ..base.build_attention(rope, false, false)
    })
}

/// The same attention, never quantized.
fn without_quantization(attention: Mla) -> Mla {
    Mla {
        query: match attention.query {
            MlaQuery::Direct(q) => MlaQuery::Direct(q.without_quantization()),
            MlaQuery::LowRank { down, norm, up } => MlaQuery::LowRank {
                down: down.without_quantization(),
                norm,
                up: up.without_quantization(),
            },
        },
        kv_down: attention.kv_down.without_quantization(),
        kv_up: attention.kv_up.without_quantization(),
        output: attention.output.without_quantization(),
        ..attention
    }
}

fn read_mla(keys: &Keys<'_>, base: &Base<'_, '_>) -> Result<Mla, ModelError> {
    let nope_dim = keys.size(&["qk_nope_head_dim"], Some(128))?;
    let rope_dim = keys.size(&["qk_rope_head_dim"], Some(64))?;
    let value_dim = keys.size(&["v_head_dim"], Some(128))?;
    let rank = keys.size(&["kv_lora_rank"], Some(512))?;
    let bias = keys.flag(&["attention_bias"], false)?;
    let queries = base.heads * (nope_dim + rope_dim);
    // Absent is the class's 1536; a stated null means one full-rank matrix.
    let q_rank = if keys.states("q_lora_rank") {
        keys.optional_size(&["q_lora_rank"])?
    } else {
        Some(1536)
    };
    let rope = Rope {
        pairing: RopePairing::Neighbours,
        ..read_rope(keys, rope_dim, &RopeDefaults::default())?
    };
    let mut scale = ((nope_dim + rope_dim) as f64).powf(-0.5);
    if let RopeScaling::Yarn {
        factor,
        mscale_all_dim: Some(mscale),
        ..
    } = rope.scaling
        && factor > 1.0
    {
        // DeepSeek sharpens scores with the RoPE scaling: (0.1 · mscale · ln(factor) + 1)².
        scale *= (0.1 * mscale * factor.ln() + 1.0).powi(2);
    }
    Ok(Mla {
        name: "self_attn",
        heads: base.heads,
        nope_dim,
        rope_dim,
        value_dim,
        rank,
        query: match q_rank {
            None => MlaQuery::Direct(Linear::new("self_attn.q_proj", base.hidden, queries, false)),
            Some(q_rank) => MlaQuery::LowRank {
                down: Linear::new("self_attn.q_a_proj", base.hidden, q_rank, bias),
                norm: Norm::rms_norm("self_attn.q_a_layernorm", q_rank, base.epsilon),
                up: Linear::new("self_attn.q_b_proj", q_rank, queries, false),
            },
        },
        kv_down: Linear::new(
            "self_attn.kv_a_proj_with_mqa",
            base.hidden,
            rank + rope_dim,
            bias,
        ),
        kv_norm: Norm::rms_norm("self_attn.kv_a_layernorm", rank, base.epsilon),
        kv_up: Linear::new(
            "self_attn.kv_b_proj",
            rank,
            base.heads * (nope_dim + value_dim),
            false,
        ),
        output: Linear::new(
            "self_attn.o_proj",
            base.heads * value_dim,
            base.hidden,
            bias,
        ),
        rope,
        scale,
    })
}

fn read_experts(
    keys: &Keys<'_>,
    base: &Base<'_, '_>,
    generation: &DeepSeekGeneration,
) -> Result<Moe, ModelError> {
    let count = keys.size(
        &["n_routed_experts", "num_experts"],
        Some(generation.routed),
    )?;
    let top_k = keys.size(&["num_experts_per_tok"], generation.top_k)?;
    check_top_k(keys, top_k, count)?;
    let intermediate = keys.size(
        &["moe_intermediate_size"],
        Some(generation.moe_intermediate),
    )?;
    let shared = keys.count(&["n_shared_experts"], generation.shared)?;
    let groups = match (
        keys.optional_size(&["n_group"])?,
        keys.optional_size(&["topk_group"])?,
    ) {
        (Some(groups), Some(kept)) => Some((groups, kept)),
        _ => generation.groups,
    };
    if let Some((groups, kept)) = groups {
        super::base::check_divides(keys, "n_group", groups, "n_routed_experts", count)?;
        if kept > groups {
            return Err(keys.contradiction("topk_group", kept, format!("`n_group` = {groups}")));
        }
    }
    Ok(Moe {
        router: Router {
            gate: Linear::new("mlp.gate", base.hidden, count, false).without_quantization(),
            correction: generation.correction,
            scoring: generation.scoring,
            normalize: keys.flag(&["norm_topk_prob"], generation.normalize)?,
            scaling: keys.positive(&["routed_scaling_factor"], generation.scaling)?,
            groups,
        },
        experts: build_experts(base, count, top_k, intermediate),
        shared: (shared > 0).then(|| {
            base.mlp_named(
                [
                    "mlp.shared_experts.gate_proj",
                    "mlp.shared_experts.up_proj",
                    "mlp.shared_experts.act_fn",
                    "mlp.shared_experts.down_proj",
                ],
                shared * intermediate,
                false,
            )
        }),
        shared_gate: None,
    })
}
