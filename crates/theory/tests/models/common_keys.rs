//! Models of types without a family, read by the keys that most configs share.

use llmprof_theory::{Model, ModelError};
use llmprof_units::DType;
use serde_json::{Value, json};

use crate::support::data;

/// Biases and norms of some types are not known: a hundredth of the parameters at most.
#[test]
fn parameters_are_those_of_transformers() {
    let cases = data("common_keys.json");
    for case in cases.as_array().unwrap() {
        let kind = &case["config"]["model_type"];
        let model = Model::from_common_keys(&case["config"]).unwrap();
        let truth = case["parameters"].as_f64().unwrap();
        let error = model.parameter_count() as f64 / truth - 1.0;
        assert!(error.abs() < 0.01, "{kind}: {error:+.4}");
    }
}

#[test]
fn a_part_has_the_formats_of_the_whole() {
    let sizes = json!({
        "model_type": "some_text", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 4, "dtype": null
    });
    let dtype = |config: &Value| Model::from_common_keys(config).unwrap().dtype;
    let whole = json!({"model_type": "some", "torch_dtype": "bfloat16", "text_config": sizes});
    assert_eq!(dtype(&whole), DType::Bf16);
    let mut trimmed = whole.clone();
    trimmed["text_config"]["dtype"] = json!("float16");
    assert_eq!(dtype(&trimmed), DType::F16);
    assert_eq!(dtype(&sizes), DType::F32);
}

/// Layers without attention, and weights that these keys do not describe.
#[test]
fn what_the_keys_do_not_describe_is_refused() {
    let plain = json!({
        "model_type": "some", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 4
    });
    assert!(Model::from_common_keys(&plain).is_ok());
    for (key, value) in [
        ("layer_types", json!(["linear_attention", "full_attention"])),
        ("layer_types", json!(["recurrent", "full_attention"])),
        ("linear_num_key_heads", json!(16)),
        ("lru_width", json!(2560)),
        ("hidden_size_per_layer_input", json!(256)),
        ("zero_expert_num", json!(256)),
        ("state_size", json!(16)),
        ("model_type", json!("jetmoe")),
    ] {
        let mut config = plain.clone();
        config[key] = value;
        let error = Model::from_common_keys(&config).unwrap_err();
        assert!(matches!(error, ModelError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(key), "{error}");
    }
    let mut sliding = plain;
    sliding["layer_types"] = json!(["sliding_attention", "chunked_attention"]);
    assert!(Model::from_common_keys(&sliding).is_ok());
}
