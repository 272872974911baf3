//! Any decoder, by the keys that most configs of transformers share. Sizes of matrices are those of the config; which norms,
//! gates and biases there are is known for some model types and assumed as in Llama for others. Good enough to predict
//! times, not to run a model.

use serde_json::{Map, Value};

use super::{
    base::{finish_model, group_layers, shared_table},
    deepseek,
    keys::Keys,
    rope::{RopeDefaults, read_rope},
};
use crate::{
    block::{
        ActivationKind, Arrangement, Attention, Embedding, ExpertWeights, Experts, FeedForward,
        Head, Layer, Linear, Mixer, Mlp, MlpInput, Moe, Norm, NormKind, PositionTable, Projections,
        QkvOrder, Rope, Router, Scores, Scoring,
    },
    error::ModelError,
    model::{Decoder, Model},
};

/// The name that such models have in place of a family's.
pub const COMMON_KEYS: &str = "common_keys";

/// Types whose norms subtract the mean.
const LAYER_NORM: &[&str] = &[
    "starcoder2",
    "stablelm",
    "phi",
    "gptj",
    "falcon",
    "bloom",
    "mpt",
    "gpt_bigcode",
    "gpt_neo",
    "codegen",
    "xglm",
    "biogpt",
    "persimmon",
    "nemotron",
    "olmo",
    "phimoe",
    "gpt-sw3",
    "jais2",
    "gpt_neox_japanese",
];
/// Types that transformers has no fused attention for.
const SCORE_TENSORS: &[&str] = &["bloom", "mpt", "gpt_neox_japanese", "cpmant", "xglm"];
/// The same, with scores of queries and keys in 32 bits.
const WIDE_SCORE_TENSORS: &[&str] = &["gptj", "codegen", "gpt_neo"];
/// Types whose feed-forward network has no gate.
const UNGATED: &[&str] = &[
    "starcoder2",
    "phi",
    "gptj",
    "falcon",
    "bloom",
    "mpt",
    "gpt_bigcode",
    "gpt_neo",
    "codegen",
    "xglm",
    "biogpt",
    "persimmon",
    "nemotron",
    "arcee",
    "apertus",
    "gpt-sw3",
    "jais2",
    "gpt_neox_japanese",
    "nanochat",
    "openai-gpt",
];
/// Types that run attention and feed-forward side by side, after one norm.
const PARALLEL: &[&str] = &["phi", "gptj", "cohere", "cohere2", "falcon", "codegen"];
/// Types with norms on queries and keys.
const HEAD_NORMS: &[&str] = &[
    "olmo2",
    "olmo3",
    "olmoe",
    "flex_olmo",
    "exaone4",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "apertus",
    "dots1",
    "minimax_m2",
    "glm4_moe",
];
/// Types with a second norm after each part.
const AFTER_NORMS: &[&str] = &[
    "glm4",
    "gemma2",
    "gemma3",
    "gemma3n_text",
    "gemma4_text",
    "afmoe",
];
/// Types that add position embeddings or biases and rotate nothing.
const UNROTATED: &[&str] = &[
    "bloom",
    "mpt",
    "gpt_bigcode",
    "gpt_neo",
    "xglm",
    "biogpt",
    "gpt-sw3",
    "openai-gpt",
];
/// Types with a learned vector for each position.
const LEARNED_POSITIONS: &[&str] = &["gpt_bigcode", "gpt_neo", "biogpt", "gpt-sw3", "openai-gpt"];
/// Types with one matrix for queries, keys and values.
const FUSED: &[&str] = &[
    "falcon",
    "bloom",
    "mpt",
    "gpt_bigcode",
    "persimmon",
    "codegen",
    "gpt-sw3",
];

/// Types whose layers these keys do not describe: experts of attention, recurrent cells, decoders within decoders.
const OTHER_LAYERS: &[&str] = &["jetmoe", "xlstm", "moshi", "cpmant", "git"];

/// Name of an activation that transformers runs as eight kernels.
pub const GELU_NEW: &str = "mlp.gelu_new";

/// Names of the number of experts.
const EXPERTS: [&str; 4] = [
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
];

struct Sizes {
    hidden: u64,
    inner: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
}

impl Model {
    /// Reads a config of a type that no family knows. The result has [`COMMON_KEYS`] for its family.
    pub fn from_common_keys(config: &Value) -> Result<Self, ModelError> {
        let decoder = decoder_of(config);
        let keys = &Keys::new(COMMON_KEYS, &decoder)?;
        let kind = keys.text(&["model_type"])?.unwrap_or_default();
        if OTHER_LAYERS.contains(&kind) {
            return Err(keys.unsupported(
                "model_type",
                &kind.into(),
                "decoders of attention layers only,",
            ));
        }
        if keys.flag(&["is_encoder_decoder"], false)? {
            let supported = "t5 and whisper among models with an encoder";
            return Err(keys.unsupported("model_type", &kind.into(), supported));
        }
        for state in [
            "state_size",
            "ssm_state_size",
            "mamba_d_state",
            "conv_L_cache",
            "decoder_layers",
            "lru_width",
            "linear_num_key_heads",
            "linear_attn_config",
            "hidden_size_per_layer_input",
            "zero_expert_num",
            "num_layers_per_stack",
        ] {
            if let Some((name, value)) = keys.get(&[state]) {
                return Err(keys.unsupported(name, value, "decoders of attention layers only,"));
            }
        }
        if let Some((name, value)) = other_mixer(keys) {
            return Err(keys.unsupported(name, value, "decoders of attention layers only,"));
        }
        if keys.has("kv_lora_rank") {
            return deepseek::deepseek_v3(keys);
        }
        build_model(keys, kind)
    }
}

/// The part of a config that describes the decoder, with what it has from the whole: its type and its formats.
fn decoder_of(config: &Value) -> Value {
    let mut decoder = config
        .get("text_config")
        .filter(|part| part.is_object())
        .unwrap_or(config)
        .clone();
    let Some(keys) = decoder.as_object_mut() else {
        return decoder;
    };
    let lacks = |keys: &Map<String, Value>, name: &str| keys.get(name).is_none_or(Value::is_null);
    // Of the two names of a dtype, the part may have the one and the whole the other.
    if lacks(keys, "dtype") && lacks(keys, "torch_dtype") {
        let stated = ["dtype", "torch_dtype"].iter();
        let stated = stated.filter_map(|name| config.get(*name));
        if let Some(dtype) = stated.into_iter().find(|value| !value.is_null()) {
            keys.insert("dtype".to_owned(), dtype.clone());
        }
    }
    for name in ["model_type", "quantization_config"] {
        if let Some(value) = config.get(name).filter(|_| lacks(keys, name)) {
            keys.insert(name.to_owned(), value.clone());
        }
    }
    // Latent attention without experts: all layers are dense.
    let has_experts = EXPERTS.iter().any(|name| !lacks(keys, name));
    let layers = keys.get("num_hidden_layers").cloned();
    if let Some(layers) = layers.filter(|_| !has_experts && !lacks(keys, "kv_lora_rank")) {
        keys.insert("first_k_dense_replace".to_owned(), layers);
    }
    decoder
}

/// Refuses `layer_types` that name layers other than attention.
fn other_mixer<'a>(keys: &Keys<'a>) -> Option<(&'static str, &'a Value)> {
    let (name, types) = keys.get(&["layer_types"])?;
    let of_attention = |kind: &Value| {
        let kind = kind.as_str().unwrap_or_default();
        kind.ends_with("attention") && kind != "linear_attention"
    };
    let all = types.as_array()?.iter().all(of_attention);
    (!all).then_some((name, types))
}

/// The rotation that a config states; Llama's where it states none that can be read.
fn read_rope_or_default(keys: &Keys<'_>, head_dim: u64) -> Result<Rope, ModelError> {
    let partial = keys.optional_float(&["partial_rotary_factor", "rotary_pct"])?;
    let defaults = RopeDefaults {
        partial: partial.unwrap_or(1.0).clamp(0.1, 1.0),
        ..RopeDefaults::default()
    };
    Ok(read_rope(keys, head_dim, &defaults).unwrap_or(Rope {
        dims: head_dim,
        theta: 10_000.0,
        scaling: crate::block::RopeScaling::None,
        pairing: crate::block::RopePairing::Halves,
    }))
}

/// A norm without bias, as this type has it.
fn build_norm(kind: &str, name: &'static str, width: u64) -> Norm {
    Norm {
        name,
        width,
        kind: if LAYER_NORM.contains(&kind) {
            NormKind::Layer
        } else if kind.contains("gemma") {
            NormKind::RmsUnitOffset
        } else {
            NormKind::Rms
        },
        epsilon: 1e-5,
        bias: false,
    }
}

fn build_model(keys: &Keys<'_>, kind: &str) -> Result<Model, ModelError> {
    let is = |list: &[&str]| list.contains(&kind);
    let norm = |name, width| build_norm(kind, name, width);
    let sizes = read_sizes(keys)?;
    let layers = keys.layers(
        &["num_hidden_layers", "n_layer", "n_layers", "num_layers"],
        None,
    )?;
    let vocabulary = keys.vocabulary(None)?;
    let rope = if is(UNROTATED) {
        None
    } else {
        Some(read_rope_or_default(keys, sizes.head_dim)?)
    };
    let window = keys
        .positions(&["sliding_window"])?
        .filter(|window| *window > 0);
    let slides = sliding_layers(keys, layers, window.is_some());
    let head_norms = is(HEAD_NORMS).then(|| {
        // OLMo and MiniMax-M2 normalize all heads at once, the others each by itself.
        let at_once = kind.starts_with("olmo") || ["flex_olmo", "minimax_m2"].contains(&kind);
        let [q, k] = if at_once {
            [sizes.heads, sizes.kv_heads]
        } else {
            [1, 1]
        };
        [
            norm("q_norm", q * sizes.head_dim),
            norm("k_norm", k * sizes.head_dim),
        ]
    });
    let attention = build_attention(&sizes, is(FUSED), rope.clone(), head_norms);
    let activation = read_activation(keys)?;
    let moe = read_experts(keys, &sizes, activation)?;
    // Llama 4 says the width of layers without experts apart from that of an expert.
    let dense_inner = keys.size(&["intermediate_size_mlp"], Some(sizes.inner))?;
    let mut dense = build_mlp(&sizes, dense_inner, !is(UNGATED), activation);
    if keys.text(&["hidden_act", "activation_function"])? == Some("gelu_new") {
        dense.activation_name = GELU_NEW;
    }
    let every = keys.size(&["interleave_moe_layer_step"], Some(1))?;
    let first = keys.count(&["first_k_dense_replace", "moe_layer_start_index"], 0)?;
    let layer = |index: u32| {
        let feed = match &moe {
            Some(moe)
                if u64::from(index) >= first && u64::from(index + 1).is_multiple_of(every) =>
            {
                FeedForward::Moe(Box::new(*moe))
            }
            _ => FeedForward::Dense(dense),
        };
        let after = is(AFTER_NORMS).then(|| norm("after", sizes.hidden));
        let mixer = Mixer::Attention(Attention {
            window: window.filter(|_| slides.get(index as usize).copied().unwrap_or(false)),
            scores: if is(SCORE_TENSORS) {
                Scores::Tensors
            } else if is(WIDE_SCORE_TENSORS) {
                Scores::WideTensors
            } else {
                Scores::Fused
            },
            ..attention.clone()
        });
        // Side by side, both parts take the result of one norm.
        let (arrangement, feed_norm_width) = if is(PARALLEL) {
            (Arrangement::Parallel, 0)
        } else {
            (Arrangement::PreNorm, sizes.hidden)
        };
        let norms = [
            norm("mixer_norm", sizes.hidden),
            norm("feed_norm", feed_norm_width),
        ];
        Layer {
            arrangement,
            after_mixer_norm: after,
            after_feed_norm: after,
            ..Layer::new(sizes.hidden, norms, mixer, feed)
        }
    };
    let decoder = Decoder {
        hidden: sizes.hidden,
        embedding: Embedding {
            scale: kind.contains("gemma").then_some(1.0),
            ..Embedding::new(["embedding", "embedding_scale"], vocabulary, sizes.hidden)
        },
        positions: read_positions(keys, kind, sizes.hidden)?,
        project_in: None,
        tables: rope.as_ref().map(shared_table).unwrap_or_default(),
        bias: None,
        layers_prefix: "layers",
        groups: group_layers(layers, layer),
        final_norm: Some(norm("norm", sizes.hidden)),
        project_out: None,
        head: Head::new(
            "lm_head",
            sizes.hidden,
            vocabulary,
            keys.flag(&["tie_word_embeddings"], false)?,
        ),
        max_positions: None,
        optional_prefix: None,
    };
    finish_model(keys, None, Some(decoder))
}

fn read_positions(
    keys: &Keys<'_>,
    kind: &str,
    width: u64,
) -> Result<Option<PositionTable>, ModelError> {
    if !LEARNED_POSITIONS.contains(&kind) {
        return Ok(None);
    }
    let rows = keys.size(&["n_positions", "max_position_embeddings"], Some(1024))?;
    Ok(Some(PositionTable {
        name: "positions",
        rows,
        width,
        offset: 0,
    }))
}

fn read_sizes(keys: &Keys<'_>) -> Result<Sizes, ModelError> {
    let hidden = keys.size(
        &["hidden_size", "n_embd", "d_model", "hidden_dim", "n_embed"],
        None,
    )?;
    let heads = keys.size(
        &["num_attention_heads", "n_head", "n_heads", "num_heads"],
        None,
    )?;
    let multi_query =
        keys.flag(&["multi_query"], false)? && !keys.flag(&["new_decoder_architecture"], false)?;
    let kv_default = if multi_query { 1 } else { heads };
    let kv_heads = keys.size(
        &["num_key_value_heads", "num_kv_heads", "n_head_kv"],
        Some(kv_default),
    )?;
    let kv_heads = if multi_query { 1 } else { kv_heads.min(heads) };
    let head_dim = match keys.optional_size(&["head_dim", "attention_head_dim"])? {
        Some(head_dim) => head_dim,
        None => hidden / heads,
    };
    if head_dim == 0 {
        return Err(keys.contradiction(
            "num_attention_heads",
            heads,
            format!("`hidden_size` = {hidden}"),
        ));
    }
    Ok(Sizes {
        hidden,
        inner: keys.size(
            &[
                "intermediate_size",
                "n_inner",
                "ffn_dim",
                "ffn_hidden_size",
                "d_ff",
                "inner_dim",
            ],
            Some(hidden.saturating_mul(4)),
        )?,
        heads,
        kv_heads,
        head_dim,
    })
}

/// Which layers slide: as listed, else all where there is a window and no pattern.
fn sliding_layers(keys: &Keys<'_>, layers: u32, windowed: bool) -> Vec<bool> {
    let listed = keys
        .get(&["layer_types"])
        .and_then(|(_, value)| value.as_array());
    if let Some(list) = listed {
        return list
            .iter()
            .map(|entry| entry.as_str().is_some_and(|kind| kind.contains("sliding")))
            .collect();
    }
    let pattern = keys
        .optional_size(&["sliding_window_pattern", "_sliding_window_pattern"])
        .ok()
        .flatten();
    (0..layers)
        .map(|index| {
            windowed && pattern.is_none_or(|pattern| !u64::from(index + 1).is_multiple_of(pattern))
        })
        .collect()
}

fn build_attention(
    sizes: &Sizes,
    fused: bool,
    rope: Option<Rope>,
    norms: Option<[Norm; 2]>,
) -> Attention {
    let queries = sizes.heads * sizes.head_dim;
    let keys = sizes.kv_heads * sizes.head_dim;
    let [q_norm, k_norm] = norms.map_or([None, None], |norms| norms.map(Some));
    let projections = if fused {
        Projections::Fused {
            qkv: Linear::new("attention.qkv", sizes.hidden, queries + 2 * keys, false),
            order: QkvOrder::Concatenated,
        }
    } else {
        Projections::Separate {
            q: Linear::new("attention.q", sizes.hidden, queries, false),
            k: Linear::new("attention.k", sizes.hidden, keys, false),
            v: Linear::new("attention.v", sizes.hidden, keys, false),
        }
    };
    Attention {
        q_norm,
        k_norm,
        rope,
        ..Attention::new(
            ["attention", "attention.rope"],
            [sizes.heads, sizes.kv_heads, sizes.head_dim],
            projections,
            Linear::new("attention.output", queries, sizes.hidden, false),
        )
    }
}

fn read_activation(keys: &Keys<'_>) -> Result<ActivationKind, ModelError> {
    let name = keys.text(&[
        "hidden_act",
        "hidden_activation",
        "activation_function",
        "activation",
    ])?;
    Ok(name
        .and_then(ActivationKind::from_name)
        .unwrap_or(ActivationKind::Silu))
}

fn build_mlp(sizes: &Sizes, inner: u64, gated: bool, activation: ActivationKind) -> Mlp {
    let up = Linear::new("mlp.up", sizes.hidden, inner, false);
    Mlp {
        activation_name: "mlp.activation",
        input: if gated {
            MlpInput::Gated {
                gate: Linear::new("mlp.gate", sizes.hidden, inner, false),
                up,
            }
        } else {
            MlpInput::Plain(up)
        },
        down: Linear::new("mlp.down", inner, sizes.hidden, false),
        activation,
    }
}

fn read_experts(
    keys: &Keys<'_>,
    sizes: &Sizes,
    activation: ActivationKind,
) -> Result<Option<Moe>, ModelError> {
    let count = keys.count(&EXPERTS, 0)?;
    if count < 2 || !keys.flag(&["is_moe"], true)? {
        return Ok(None);
    }
    let top_k = keys.size(
        &[
            "num_experts_per_tok",
            "num_experts_per_token",
            "moe_topk",
            "moe_k",
            "top_k_experts",
        ],
        Some(2),
    )?;
    let inner = keys.size(
        &["moe_intermediate_size", "expert_intermediate_size"],
        Some(sizes.inner),
    )?;
    let shared = keys
        .count(
            &[
                "n_shared_experts",
                "num_shared_experts",
                "moe_num_shared_experts",
            ],
            // Llama 4 has one in every mixture, and no key for it.
            u64::from(keys.text(&["model_type"])? == Some("llama4_text")),
        )?
        .saturating_mul(inner);
    let shared = keys.count(
        &[
            "shared_expert_intermediate_size",
            "shared_intermediate_size",
        ],
        shared,
    )?;
    let scored_by_sigmoid =
        keys.text(&["scoring_func"])? == Some("sigmoid") || keys.has("routed_scaling_factor");
    Ok(Some(Moe {
        router: Router {
            gate: Linear::new("mlp.router", sizes.hidden, count, false).without_quantization(),
            correction: None,
            scoring: if scored_by_sigmoid {
                Scoring::Sigmoid
            } else {
                Scoring::Softmax
            },
            normalize: keys.flag(&["norm_topk_prob"], true)?,
            scaling: 1.0,
            groups: None,
        },
        experts: Experts {
            name: "mlp.experts",
            count,
            top_k: top_k.min(count),
            hidden: sizes.hidden,
            intermediate: inner,
            activation,
            weights: ExpertWeights::PerExpert {
                prefix: "mlp.experts",
                gate: "gate",
                up: "up",
                down: "down",
            },
            dealt_to: 1,
        },
        shared: (shared > 0).then(|| build_mlp(sizes, shared, true, activation)),
        shared_gate: None,
    }))
}
