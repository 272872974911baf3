//! Configs and workloads that make no sense: errors that name the key, never a panic.

use crate::support::{config, names, published};
use llmprof_theory::{
    Images, Model, ModelError, Precision, Routing, Workload, WorkloadError, family_names,
};
use llmprof_units::DType;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The error of a published config with one key changed.
fn changed(name: &str, key: &str, value: Value) -> ModelError {
    let mut config = config(name);
    config[key] = value;
    Model::from_config(&config, None).expect_err(key)
}

#[test]
fn errors_name_the_field() {
    for (name, key, value) in [
        ("llama3_1_8b", "num_attention_heads", json!(31)),
        ("llama3_1_8b", "num_key_value_heads", json!(64)),
        ("llama3_1_8b", "num_key_value_heads", json!(7)),
        (
            "llama3_1_8b",
            "num_hidden_layers",
            json!(1_000_000_000_000u64),
        ),
        ("llama3_1_8b", "num_hidden_layers", json!(0)),
        ("llama3_1_8b", "num_hidden_layers", json!(-3)),
        ("llama3_1_8b", "hidden_size", json!(-4096)),
        ("llama3_1_8b", "hidden_size", json!("wide")),
        ("llama3_1_8b", "hidden_size", json!(4096.5)),
        ("llama3_1_8b", "hidden_size", json!(1e30)),
        ("llama3_1_8b", "vocab_size", json!(1e15)),
        ("llama3_1_8b", "rms_norm_eps", json!(-1e-5)),
        ("llama3_1_8b", "rope_theta", json!(0)),
        ("llama3_1_8b", "hidden_act", json!("mish")),
        ("llama3_1_8b", "head_dim", json!(7)),
        ("llama3_1_8b", "partial_rotary_factor", json!(0.29)),
        ("llama3_1_8b", "torch_dtype", json!("int8")),
        ("llama3_1_8b", "torch_dtype", json!(16)),
        ("llama3_1_8b", "attention_bias", json!("yes")),
        ("llama3_1_8b", "rope_scaling", json!([8])),
        ("llama3_1_8b", "quantization_config", json!("fp8")),
        ("mixtral_8x7b", "num_experts_per_tok", json!(9)),
        ("qwen3_30b_a3b", "num_experts_per_tok", json!(129)),
        ("gpt_oss_20b", "num_experts_per_tok", json!(33)),
        ("gpt_oss_20b", "layer_types", json!(["full_attention"])),
        ("deepseek_v3", "num_experts_per_tok", json!(300)),
        ("deepseek_v3", "n_group", json!(7)),
        ("deepseek_v3", "topk_group", json!(9)),
        ("deepseek_v3", "qk_rope_head_dim", json!(0)),
        ("gpt2", "n_head", json!(7)),
        ("opt_1_3b", "num_attention_heads", json!(31)),
        ("gemma2_9b", "query_pre_attn_scalar", json!(0)),
        ("gemma3_1b", "sliding_window_pattern", json!(0)),
        ("clip_vit_l_14", "patch_size", json!(400)),
        ("clip_vit_l_14", "num_attention_heads", json!(7)),
        ("sam_vit_b", "image_size", json!([1024, 512])),
    ] {
        let error = changed(name, key, value.clone()).to_string();
        assert!(error.contains(key), "{name} with {key} = {value}: {error}");
    }
    for (name, pointer, value, expected) in [
        (
            "llama3_1_8b",
            "/rope_scaling/rope_type",
            json!("spiral"),
            "rope_scaling.rope_type",
        ),
        (
            "llama3_1_8b",
            "/rope_scaling/factor",
            json!(-1),
            "rope_scaling.factor",
        ),
        (
            "deepseek_v3",
            "/quantization_config/quant_method",
            json!("int3"),
            "quantization_config.quant_method",
        ),
        (
            "deepseek_v3",
            "/quantization_config/weight_block_size",
            json!([0, 128]),
            "weight_block_size",
        ),
        (
            "qwen2_5_vl_7b",
            "/vision_config/out_hidden_size",
            json!(4096),
            "vision_config.out_hidden_size",
        ),
        (
            "qwen2_5_vl_7b",
            "/vision_config/window_size",
            json!(8),
            "vision_config.window_size",
        ),
        (
            "deepseek_ocr",
            "/vision_config/image_size",
            json!(5),
            "vision_config.image_size",
        ),
        (
            "deepseek_ocr",
            "/projector_config/input_dim",
            json!(1),
            "projector_config.input_dim",
        ),
        (
            "deepseek_ocr",
            "/language_config/num_key_value_heads",
            json!(11),
            "language_config.num_key_value_heads",
        ),
        (
            "deepseek_ocr",
            "/vision_config/width/sam_vit_b/heads",
            json!(5),
            "sam_vit_b.heads",
        ),
    ] {
        let mut config = config(name);
        *config.pointer_mut(pointer).expect(pointer) = value;
        let error = Model::from_config(&config, None)
            .expect_err(pointer)
            .to_string();
        assert!(error.contains(expected), "{name} {pointer}: {error}");
    }
}

/// Who runs a model that theory cannot count has the last word, but not over what nobody can run.
#[test]
fn what_is_not_counted_differs_from_what_is_absurd() {
    for (key, value) in [
        ("hidden_act", json!("mish")),
        ("num_attention_heads", json!(31)),
        ("rope_scaling", json!({"rope_type": "spiral"})),
        ("quantization_config", json!({"quant_method": "int3"})),
    ] {
        let error = changed("llama3_1_8b", key, value);
        assert!(!error.is_absurd(), "{error}");
    }
    for (key, value) in [
        ("num_hidden_layers", json!(0)),
        ("hidden_size", json!(-4096)),
        ("hidden_size", json!("wide")),
        ("vocab_size", json!(1e15)),
        ("rope_theta", json!(0)),
        ("torch_dtype", json!("int8")),
    ] {
        let error = changed("llama3_1_8b", key, value);
        assert!(error.is_absurd(), "{error}");
    }
}

#[test]
fn a_model_too_large_for_any_machine_is_refused() {
    let mut config = config("mixtral_8x7b");
    config["hidden_size"] = json!(1 << 20);
    config["intermediate_size"] = json!(1 << 20);
    config["num_local_experts"] = json!(1 << 20);
    config["num_hidden_layers"] = json!(4096);
    let error = Model::from_config(&config, None).unwrap_err();
    assert!(error.is_absurd());
    let error = error.to_string();
    assert!(
        error.contains("hidden_size") && error.contains("parameters"),
        "{error}"
    );
}

#[test]
fn unknown_families_list_the_known_ones() {
    let error = Model::from_config(&json!({"model_type": "mamba"}), None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("mamba") && error.contains("qwen3_moe"),
        "{error}"
    );
    for family in family_names() {
        assert!(error.contains(family), "{family} is not in: {error}");
    }
    assert!(matches!(
        Model::from_config(&json!({}), None),
        Err(ModelError::NoModelType { .. })
    ));
    assert_eq!(
        Model::from_config(&json!([1]), None),
        Err(ModelError::NotAnObject)
    );
    // A config of another name that is built like a known one.
    let mut config = config("llama3_1_8b");
    config["model_type"] = json!("yi");
    let model = Model::from_config(&config, Some("llama")).unwrap();
    assert_eq!(
        model.parameter_count(),
        published("llama3_1_8b").parameter_count()
    );
}

#[test]
fn both_spellings_of_a_config_give_the_same_model() {
    let old = config("llama3_1_8b");
    let mut new = old.clone();
    let object = new.as_object_mut().unwrap();
    let mut rope = object.remove("rope_scaling").unwrap();
    rope["rope_theta"] = object.remove("rope_theta").unwrap();
    object.insert("rope_parameters".to_owned(), rope);
    let dtype = object.remove("torch_dtype").unwrap();
    object.insert("dtype".to_owned(), dtype);
    assert_eq!(
        Model::from_config(&old, None),
        Model::from_config(&new, None)
    );
    let old = config("qwen3_30b_a3b");
    let mut new = old.clone();
    let object = new.as_object_mut().unwrap();
    let experts = object.remove("num_experts").unwrap();
    object.insert("num_local_experts".to_owned(), experts);
    assert_eq!(
        Model::from_config(&old, None),
        Model::from_config(&new, None)
    );
}

#[test]
fn bad_workloads_name_their_key() {
    let llama = published("llama3_1_8b");
    let base = Workload::default();
    let precision = Precision {
        activations: Some(DType::I8),
        ..Precision::default()
    };
    for (workload, key) in [
        (Workload { batch: 0, ..base }, "`workload.batch_size`"),
        (
            Workload {
                batch: u64::MAX,
                ..base
            },
            "`workload.batch_size`",
        ),
        (
            Workload {
                prompt: u64::MAX,
                ..base
            },
            "`workload.prompt_tokens`",
        ),
        (
            Workload {
                new_tokens: u64::MAX,
                ..base
            },
            "workload.new_tokens",
        ),
        (
            Workload {
                cached: u64::MAX,
                ..base
            },
            "`workload.cached_tokens`",
        ),
        (
            Workload {
                chunk: Some(0),
                ..base
            },
            "`workload.chunk_tokens`",
        ),
        (Workload { precision, ..base }, "`workload.dtype`"),
        (
            Workload {
                images: Images {
                    count: 1,
                    ..Images::default()
                },
                ..base
            },
            "workload.images.count",
        ),
        (
            Workload {
                routing: Routing::Measured {
                    prefill: f64::NAN,
                    decode: 1.0,
                },
                ..base
            },
            "workload.routing.prefill",
        ),
        // Inside every single limit, but together beyond exact integers.
        (
            Workload {
                batch: 1 << 24,
                prompt: 1 << 32,
                ..base
            },
            "`workload.batch_size`",
        ),
    ] {
        let error = llama.cost_by_phase(&workload).unwrap_err().to_string();
        assert!(error.contains(key), "{key}: {error}");
    }
    assert!(matches!(
        llama.cost_by_phase(&Workload {
            batch: 1 << 24,
            prompt: 1 << 32,
            ..base
        }),
        Err(WorkloadError::TooLarge { .. })
    ));
    let error = published("gpt2")
        .cost_by_phase(&Workload {
            prompt: 1020,
            ..base
        })
        .unwrap_err();
    assert!(error.to_string().contains("1024"), "{error}");
    let images = Images {
        count: 1,
        ..Images::default()
    };
    let error = published("qwen2_5_vl_7b")
        .cost_by_phase(&Workload { images, ..base })
        .unwrap_err();
    assert!(
        error.to_string().contains("workload.images.height"),
        "{error}"
    );
}

/// Values that a broken or hostile config may hold.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0u64..100_000).prop_map(Value::from),
        // At the limits, where products are largest and quotients smallest.
        prop::sample::select(vec![1u64, 2, 3, 4096, 1 << 16, 1 << 20]).prop_map(Value::from),
        prop::num::f64::ANY.prop_map(Value::from),
        "[a-z_0-9]{0,12}".prop_map(Value::from),
        prop::collection::vec(any::<u16>(), 0..5).prop_map(Value::from),
        Just(json!({"rope_type": "yarn", "factor": 0.1, "mrope_section": [1]})),
        Just(json!({"quant_method": "awq", "bits": 4, "group_size": -1})),
        Just(json!({})),
    ]
}

/// Every place in a config, as a JSON pointer.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    if let Some(object) = value.as_object() {
        for (key, inner) in object {
            let path = format!("{at}/{key}");
            pointers(inner, &path, all);
            all.push(path);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutated_configs_never_panic(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any_value(), any::<bool>()), 1..5),
        batch in any::<u64>(),
        prompt in any::<u64>(),
        image in any::<u16>(),
    ) {
        let names = names();
        let name: &String = which.get(&names);
        let mut config = config(name);
        for (place, value, remove) in edits {
            let mut all = Vec::new();
            pointers(&config, "", &mut all);
            if all.is_empty() {
                break;
            }
            let path: &String = place.get(&all);
            if remove {
                let (parent, key) = path.rsplit_once('/').unwrap();
                if let Some(object) = config.pointer_mut(parent).and_then(Value::as_object_mut) {
                    object.remove(key);
                }
            } else if let Some(slot) = config.pointer_mut(path) {
                *slot = value;
            }
        }
        if let Ok(model) = Model::from_config(&config, None) {
            let images = Images {
                count: u64::from(model.vision.is_some()),
                height: image.into(),
                width: 1,
                crops_wide: image.into(),
                crops_high: 2,
            };
            for workload in [
                Workload { images, ..Workload::default() },
                Workload { batch, prompt, images, ..Workload::default() },
            ] {
                if let Ok(costs) = model.cost_by_phase(&workload) {
                    prop_assert!(costs.prefill.arithmetic_intensity().is_none_or(f64::is_finite));
                }
                let _ = model.count_memory(&workload);
                let _ = model.largest_batch(&workload, 1 << 36);
            }
        }
    }
}
