//! Gated delta layers: states, work and traffic of Qwen3.5-397B-A17B worked by hand, and configs that make no sense.

use llmprof_theory::{
    Cost, Kind, Model, Part, Pass, Precision, Sequences, Span, Step, Workload,
    block::{Mixer, Projections},
};
use serde_json::{Value, json};

use crate::support::{config, published};

/// Of 60 layers every fourth attends.
const DELTA: u64 = 45;
const ATTENTION: u64 = 15;
const KEY_HEADS: u64 = 16;
const VALUE_HEADS: u64 = 64;
const SIZE: u64 = 128;
/// A matrix of 128 × 128 in 32 bits for each value head.
const MATRICES: u64 = VALUE_HEADS * SIZE * SIZE * 4;
/// Three tokens of queries, keys and values in 16 bits.
const KEPT: u64 = 3 * (2 * KEY_HEADS + VALUE_HEADS) * SIZE * 2;
/// Keys and values of a token in the layers that attend: 2 heads of 256 in 16 bits.
const TOKEN: u64 = ATTENTION * 2 * 2 * 256 * 2;

fn model() -> Model {
    published("qwen3_5_397b_a17b")
}

fn of_kind(pass: &Pass, kind: Kind) -> Cost {
    let mut cost = Cost::default();
    model().lower_pass(&Workload::default(), pass, &mut |operator| {
        if operator.kind == kind {
            cost.add_operator(operator);
        }
    });
    cost
}

#[test]
fn every_fourth_layer_attends() {
    let model = model();
    let decoder = model.decoder.as_ref().unwrap();
    for (number, layer) in decoder.numbered_layers() {
        let attends = matches!(layer.mixer, Mixer::Attention(_));
        assert_eq!(attends, number % 4 == 3, "{number}");
    }
    // The same by the interval alone.
    let mut text = config("qwen3_5_397b_a17b")["text_config"].clone();
    text.as_object_mut().unwrap().remove("layer_types");
    let flat = Model::from_config(&text, None).unwrap();
    assert_eq!(flat.decoder.unwrap().layer_count(), 60);
    // The other two in five: a config may state any order.
    text["full_attention_interval"] = json!(5);
    let wider = Model::from_config(&text, None).unwrap().decoder.unwrap();
    let attending = wider
        .numbered_layers()
        .filter(|(_, layer)| matches!(layer.mixer, Mixer::Attention(_)));
    assert_eq!(attending.count(), 12);
}

#[test]
fn states_do_not_grow_with_the_context() {
    let model = model();
    let workload = Workload {
        batch: 3,
        ..Workload::default()
    };
    let states = DELTA * (MATRICES + KEPT);
    assert_eq!(states, 192_061_440);
    for tokens in [0, 1, 1000, 100_000] {
        assert_eq!(
            model.kv_cache_bytes(&workload, tokens),
            3 * (states + tokens * TOKEN)
        );
    }
    // An 8-bit KV cache leaves states as they are.
    let narrow = Workload {
        precision: Precision {
            kv: Some("fp8".parse().unwrap()),
            ..Precision::default()
        },
        ..workload
    };
    assert_eq!(
        model.kv_cache_bytes(&narrow, 1000),
        3 * (states + 1000 * TOKEN / 2)
    );
}

#[test]
fn a_state_in_16_bits_is_half_as_large() {
    let mut text = config("qwen3_5_397b_a17b")["text_config"].clone();
    text["mamba_ssm_dtype"] = json!("bfloat16");
    let model = Model::from_config(&text, None).unwrap();
    let bytes = model.kv_cache_bytes(&Workload::default(), 0);
    assert_eq!(bytes, DELTA * (MATRICES / 2 + KEPT));
}

#[test]
fn decode_reads_and_writes_every_state_once_a_step() {
    let (batch, steps) = (5, 7);
    for context in [10, 10_000] {
        let cost = of_kind(&Pass::decode_steps(batch, context, steps), Kind::DeltaRule);
        let states = DELTA * batch * steps * MATRICES;
        assert_eq!(cost.traffic.kv_read, states);
        assert_eq!(cost.traffic.kv_write, states);
        assert_eq!(cost.tensor.total(), 0);
        // Seven operations an element of the state and two an element of a value; norms of queries and keys; gates.
        let token =
            VALUE_HEADS * (7 * SIZE * SIZE + 2 * SIZE) + 6 * SIZE * KEY_HEADS + 8 * VALUE_HEADS;
        assert_eq!(cost.vector.total(), DELTA * batch * steps * token);
        let conv = of_kind(&Pass::decode_steps(batch, context, steps), Kind::Conv1d);
        assert_eq!(conv.traffic.kv_read, DELTA * batch * steps * KEPT);
        assert_eq!(conv.traffic.kv_write, DELTA * batch * steps * KEPT);
    }
}

/// 1000 tokens are 15 chunks of 64 and one that is not full.
#[test]
fn prefill_works_by_chunks() {
    let workload = Workload::default();
    let pass = |chunk| Pass::prefill_chunks(2, 1000, 0, chunk, workload.logits);
    let [whole] = pass(None).collect::<Vec<_>>()[..] else {
        panic!("one pass");
    };
    let cost = of_kind(&whole, Kind::DeltaRule);
    // 2 × 64² × 384 of scores, 64 × 63 × 256 of solves and 6 × 64 × 128² with the state.
    let chunk = 3_145_728 + 1_032_192 + 6_291_456;
    assert_eq!(cost.tensor.total(), DELTA * 2 * 16 * VALUE_HEADS * chunk);
    // Sequences begin without a state and leave one.
    assert_eq!(cost.traffic.kv_read, 0);
    assert_eq!(cost.traffic.kv_write, DELTA * 2 * MATRICES);
    // A convolution of 4 tokens is 8 operations an element, its activation 4.
    let conv = of_kind(&whole, Kind::Conv1d);
    let channels = (2 * KEY_HEADS + VALUE_HEADS) * SIZE;
    assert_eq!(conv.vector.total(), DELTA * 2 * 1000 * channels * 12);
    assert_eq!(conv.tensor.total(), 0);
    // In passes of 512, the second goes on from the first one's state.
    let [_, second] = pass(Some(512)).collect::<Vec<_>>()[..] else {
        panic!("two passes");
    };
    let cost = of_kind(&second, Kind::DeltaRule);
    assert_eq!(cost.tensor.total(), DELTA * 2 * 8 * VALUE_HEADS * chunk);
    assert_eq!(cost.traffic.kv_read, DELTA * 2 * MATRICES);
}

#[test]
fn a_mixed_step_scans_prompts_and_goes_on_with_the_others() {
    let model = model();
    let sequences = |count, new, cached| Sequences { count, new, cached };
    let prompts = vec![sequences(2, 100, 0), sequences(1, 64, 64)];
    let decode = vec![sequences(30, 1, 500)];
    let cost = |step: &Step| {
        let mut operators = Vec::new();
        let mut cost = Cost::default();
        model.lower_step(&Workload::default(), step, &mut |operator| {
            if operator.kind == Kind::DeltaRule {
                operators.push(operator.layers);
                cost.add_operator(operator);
            }
        });
        (operators.len(), cost)
    };
    let (both, mixed) = cost(&Step {
        prefill: Part::Groups(prompts.clone()),
        decode: Part::Groups(decode.clone()),
        logits: None,
    });
    let (one, alone) = cost(&Step::all_prefill(Part::Groups(prompts)));
    let (_, steps) = cost(&Step::all_decode(Part::Groups(decode)));
    assert_eq!(both, 2 * one);
    assert_eq!(mixed.tensor.total(), alone.tensor.total());
    assert_eq!(
        mixed.vector.total(),
        alone.vector.total() + steps.vector.total()
    );
    // One prompt and all that decode have a state.
    assert_eq!(mixed.traffic.kv_read, DELTA * 31 * MATRICES);
    assert_eq!(mixed.traffic.kv_write, DELTA * 33 * MATRICES);
}

/// A gate beside each query: 8192 more columns of width 4096, a sigmoid and a product for each element.
#[test]
fn attention_is_gated() {
    let model = model();
    let decoder = model.decoder.as_ref().unwrap();
    let attention = decoder
        .numbered_layers()
        .find_map(|(_, layer)| match &layer.mixer {
            Mixer::Attention(attention) => Some(attention),
            _ => None,
        });
    let attention = attention.unwrap();
    let Projections::Separate { q, .. } = &attention.projections else {
        panic!("separate projections");
    };
    assert_eq!(q.outputs, 2 * 32 * 256);
    assert_eq!(attention.output.inputs, 32 * 256);
    assert_eq!(attention.rope.as_ref().unwrap().dims, 64);
    let mut gates = 0;
    model.lower_pass(
        &Workload::default(),
        &Pass::decode_steps(4, 10, 1),
        &mut |operator| {
            if operator.path.name == "self_attn.gate" {
                gates += operator.vector.flops * u64::from(operator.layers);
            }
        },
    );
    assert_eq!(gates, ATTENTION * 4 * 32 * 256 * 4);
}

/// 512 × 512 pixels are 16 × 16 tokens; towers limit what they take to 64 and 16,384 tokens.
#[test]
fn images_become_tokens() {
    let model = model();
    for ((height, width), tokens) in [
        ((512, 512), 256),
        ((640, 320), 200),
        ((32, 32), 64),
        ((8192, 8192), 16_384),
    ] {
        let mut workload = Workload {
            prompt: 10,
            ..Workload::default()
        };
        workload.images.count = 1;
        workload.images.height = height;
        workload.images.width = width;
        assert_eq!(
            model.prompt_tokens(&workload),
            10 + tokens,
            "{height} × {width}"
        );
        assert!(model.cost_span(&workload, Span::Vision).total_flops() > 0);
    }
}

#[test]
fn mistakes_are_named() {
    let with = |name: &str, part: Option<&str>, key: &str, value: Value| {
        let mut config = config(name);
        let place = match part {
            Some(part) => &mut config[part],
            None => &mut config,
        };
        place[key] = value;
        Model::from_config(&config, None).unwrap_err().to_string()
    };
    let text = Some("text_config");
    for (name, part, key, value, says) in [
        (
            "qwen3_5_27b",
            None,
            "text_config",
            json!(null),
            "text_config",
        ),
        (
            "qwen3_5_27b",
            None,
            "vision_config",
            json!(null),
            "vision_config",
        ),
        (
            "qwen3_5_27b",
            text,
            "linear_num_key_heads",
            json!(5),
            "`linear_num_value_heads` = 48",
        ),
        (
            "qwen3_5_27b",
            text,
            "linear_num_value_heads",
            json!(0),
            "linear_num_value_heads",
        ),
        (
            "qwen3_5_27b",
            text,
            "linear_conv_kernel_dim",
            json!(0),
            "linear_conv_kernel_dim",
        ),
        (
            "qwen3_5_27b",
            text,
            "layer_types",
            json!(["full_attention"]),
            "`num_hidden_layers` = 64",
        ),
        (
            "qwen3_5_27b",
            text,
            "layer_types",
            json!("full_attention"),
            "a list of",
        ),
        (
            "qwen3_5_27b",
            text,
            "layer_types",
            json!(vec!["sliding_attention"; 64]),
            "linear_attention",
        ),
        (
            "qwen3_5_27b",
            text,
            "layer_types",
            json!(vec![1; 64]),
            "a list of",
        ),
        (
            "qwen3_5_27b",
            text,
            "attn_output_gate",
            json!(false),
            "attn_output_gate",
        ),
        (
            "qwen3_5_27b",
            text,
            "mamba_ssm_dtype",
            json!("int8"),
            "mamba_ssm_dtype",
        ),
        (
            "qwen3_5_27b",
            Some("vision_config"),
            "deepstack_visual_indexes",
            json!([8]),
            "deepstack_visual_indexes",
        ),
        (
            "qwen3_5_27b",
            Some("vision_config"),
            "out_hidden_size",
            json!(4096),
            "`hidden_size` = 5120",
        ),
        (
            "qwen3_5_35b_a3b",
            text,
            "num_experts_per_tok",
            json!(257),
            "256 experts",
        ),
        (
            "qwen3_next_80b_a3b",
            None,
            "full_attention_interval",
            json!(0),
            "full_attention_interval",
        ),
        (
            "qwen3_next_80b_a3b",
            None,
            "linear_num_key_heads",
            json!(7),
            "linear_num_key_heads",
        ),
    ] {
        let error = with(name, part, key, value.clone());
        assert!(error.contains(says), "{name} with {key} = {value}: {error}");
    }
}
