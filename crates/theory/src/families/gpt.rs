//! The older decoders with layer norms and biases: GPT-2, GPT-NeoX, OPT.

use super::{
    base::{check_divides, finish_model, group_layers, shared_table},
    keys::Keys,
    rope::{RopeDefaults, read_rope},
};
use crate::{
    block::{
        ActivationKind, Arrangement, Attention, Embedding, FeedForward, Head, Layer, Linear, Mixer,
        Mlp, MlpInput, Norm, PositionTable, Projections, QkvOrder,
    },
    error::ModelError,
    model::{Decoder, Model},
};

pub(crate) fn build_gpt2(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let hidden = keys.size(&["n_embd", "hidden_size"], Some(768))?;
    let heads = keys.size(&["n_head", "num_attention_heads"], Some(12))?;
    check_divides(keys, "n_head", heads, "n_embd", hidden)?;
    let layers = keys.layers(&["n_layer", "num_hidden_layers"], Some(12))?;
    let inner = keys.size(&["n_inner"], Some(4 * hidden))?;
    let positions = keys.size(&["n_positions", "max_position_embeddings"], Some(1024))?;
    let vocabulary = keys.vocabulary(Some(50_257))?;
    let epsilon = keys.positive(&["layer_norm_epsilon"], 1e-5)?;
    let activation = keys.activation(&["activation_function"], ActivationKind::GeluTanh)?;
    let scaled = keys.flag(&["scale_attn_weights"], true)?;
    let by_layer = keys.flag(&["scale_attn_by_inverse_layer_idx"], false)?;
    let norm = |name| Norm::layer_norm(name, hidden, epsilon);
    let layer = |index: u32| {
        let mut attention = Attention::new(
            ["attn", "attention.rope"],
            [heads, heads, hidden / heads],
            Projections::Fused {
                qkv: Linear::new("attn.c_attn", hidden, 3 * hidden, true).in_out(),
                order: QkvOrder::Concatenated,
            },
            Linear::new("attn.c_proj", hidden, hidden, true).in_out(),
        );
        if !scaled {
            attention.scale = 1.0;
        }
        if by_layer {
            attention.scale /= f64::from(index + 1);
        }
        Layer::new(
            hidden,
            [norm("ln_1"), norm("ln_2")],
            Mixer::Attention(attention),
            FeedForward::Dense(Mlp {
                activation_name: "mlp.act",
                input: MlpInput::Plain(Linear::new("mlp.c_fc", hidden, inner, true).in_out()),
                down: Linear::new("mlp.c_proj", inner, hidden, true).in_out(),
                activation,
            }),
        )
    };
    finish_model(
        keys,
        None,
        Some(Decoder {
            hidden,
            embedding: Embedding::new(["transformer.wte", "transformer.scale"], vocabulary, hidden),
            positions: Some(PositionTable {
                name: "transformer.wpe",
                rows: positions,
                width: hidden,
                offset: 0,
            }),
            project_in: None,
            tables: Vec::new(),
            bias: None,
            layers_prefix: "transformer.h",
            groups: group_layers(layers, layer),
            final_norm: Some(norm("transformer.ln_f")),
            project_out: None,
            head: Head::new(
                "lm_head",
                hidden,
                vocabulary,
                keys.flag(&["tie_word_embeddings"], true)?,
            ),
            max_positions: Some(positions),
            optional_prefix: Some("transformer."),
        }),
    )
}

pub(crate) fn gpt_neox(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let hidden = keys.size(&["hidden_size"], Some(6144))?;
    let heads = keys.size(&["num_attention_heads"], Some(64))?;
    check_divides(keys, "num_attention_heads", heads, "hidden_size", hidden)?;
    let inner = keys.size(&["intermediate_size"], Some(24_576))?;
    let vocabulary = keys.vocabulary(Some(50_432))?;
    let epsilon = keys.positive(&["layer_norm_eps"], 1e-5)?;
    let bias = keys.flag(&["attention_bias"], true)?;
    let activation = keys.activation(&["hidden_act"], ActivationKind::Gelu)?;
    let rope = read_rope(
        keys,
        hidden / heads,
        &RopeDefaults {
            partial: 0.25,
            ..RopeDefaults::default()
        },
    )?;
    let norm = |name| Norm::layer_norm(name, hidden, epsilon);
    let layer = Layer {
        arrangement: if keys.flag(&["use_parallel_residual"], true)? {
            Arrangement::Parallel
        } else {
            Arrangement::PreNorm
        },
        ..Layer::new(
            hidden,
            [norm("input_layernorm"), norm("post_attention_layernorm")],
            Mixer::Attention(Attention {
                rope: Some(rope.clone()),
                ..Attention::new(
                    ["attention", "attention.rope"],
                    [heads, heads, hidden / heads],
                    Projections::Fused {
                        qkv: Linear::new("attention.query_key_value", hidden, 3 * hidden, bias),
                        order: QkvOrder::PerHead,
                    },
                    Linear::new("attention.dense", hidden, hidden, bias),
                )
            }),
            FeedForward::Dense(Mlp {
                activation_name: "mlp.act",
                input: MlpInput::Plain(Linear::new("mlp.dense_h_to_4h", hidden, inner, true)),
                down: Linear::new("mlp.dense_4h_to_h", inner, hidden, true),
                activation,
            }),
        )
    };
    let mut tables = shared_table(&rope);
    for table in &mut tables {
        table.name = "gpt_neox.rotary_emb";
    }
    finish_model(
        keys,
        None,
        Some(Decoder {
            hidden,
            embedding: Embedding::new(["gpt_neox.embed_in", "gpt_neox.scale"], vocabulary, hidden),
            positions: None,
            project_in: None,
            tables,
            bias: None,
            layers_prefix: "gpt_neox.layers",
            groups: group_layers(keys.layers(&["num_hidden_layers"], Some(44))?, |_| {
                layer.clone()
            }),
            final_norm: Some(norm("gpt_neox.final_layer_norm")),
            project_out: None,
            head: Head::new(
                "embed_out",
                hidden,
                vocabulary,
                keys.flag(&["tie_word_embeddings"], false)?,
            ),
            max_positions: Some(
                keys.positions(&["max_position_embeddings"])?
                    .unwrap_or(2048),
            ),
            optional_prefix: None,
        }),
    )
}

pub(crate) fn build_opt(keys: &Keys<'_>) -> Result<Model, ModelError> {
    let hidden = keys.size(&["hidden_size"], Some(768))?;
    let heads = keys.size(&["num_attention_heads"], Some(12))?;
    check_divides(keys, "num_attention_heads", heads, "hidden_size", hidden)?;
    let inner = keys.size(&["ffn_dim"], Some(3072))?;
    let embedded = keys.size(&["word_embed_proj_dim"], Some(hidden))?;
    let vocabulary = keys.vocabulary(Some(50_272))?;
    let positions = keys.size(&["max_position_embeddings"], Some(2048))?;
    let bias = keys.flag(&["enable_bias"], true)?;
    let before = keys.flag(&["do_layer_norm_before"], true)?;
    let activation = keys.activation(&["activation_function"], ActivationKind::Relu)?;
    let norm = |name| Norm::layer_norm(name, hidden, 1e-5);
    let project = |name| Linear::new(name, hidden, hidden, bias);
    let layer = Layer {
        arrangement: if before {
            Arrangement::PreNorm
        } else {
            Arrangement::PostNorm
        },
        ..Layer::new(
            hidden,
            [norm("self_attn_layer_norm"), norm("final_layer_norm")],
            Mixer::Attention(Attention::new(
                ["self_attn", "attention.rope"],
                [heads, heads, hidden / heads],
                Projections::Separate {
                    q: project("self_attn.q_proj"),
                    k: project("self_attn.k_proj"),
                    v: project("self_attn.v_proj"),
                },
                project("self_attn.out_proj"),
            )),
            FeedForward::Dense(Mlp {
                activation_name: "activation_fn",
                input: MlpInput::Plain(Linear::new("fc1", hidden, inner, bias)),
                down: Linear::new("fc2", inner, hidden, bias),
                activation,
            }),
        )
    };
    let projected = embedded != hidden;
    let last_norm = before && !keys.flag(&["_remove_final_layer_norm"], false)?;
    finish_model(
        keys,
        None,
        Some(Decoder {
            hidden,
            embedding: Embedding::new(
                ["model.decoder.embed_tokens", "model.decoder.scale"],
                vocabulary,
                embedded,
            ),
            positions: Some(PositionTable {
                name: "model.decoder.embed_positions",
                rows: positions + 2,
                width: hidden,
                offset: 2,
            }),
            project_in: projected
                .then(|| Linear::new("model.decoder.project_in", embedded, hidden, false)),
            tables: Vec::new(),
            bias: None,
            layers_prefix: "model.decoder.layers",
            groups: group_layers(keys.layers(&["num_hidden_layers"], Some(12))?, |_| {
                layer.clone()
            }),
            final_norm: last_norm.then(|| norm("model.decoder.final_layer_norm")),
            project_out: projected
                .then(|| Linear::new("model.decoder.project_out", hidden, embedded, false)),
            head: Head::new(
                "lm_head",
                embedded,
                vocabulary,
                keys.flag(&["tie_word_embeddings"], true)?,
            ),
            max_positions: Some(positions),
            optional_prefix: Some("model."),
        }),
    )
}
