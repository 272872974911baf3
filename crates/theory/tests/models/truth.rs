//! Parameters, tensors and FLOPs against what torch and transformers say (`recipes/transformers_truth.py`).

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use crate::support::{data, published};
use llmprof_theory::{
    AttentionConvention, Images, Logits, MlaDecode, Model, Pass, Span, Workload, family_names,
};
use serde_json::Value;

/// What torch's counter sees of eager attention: full squares, latents expanded in every step.
fn eager(batch: u64, prompt: u64) -> Workload {
    Workload {
        batch,
        prompt,
        attention: AttentionConvention::Full,
        logits: Logits::All,
        mla: MlaDecode::Expanded,
        ..Workload::default()
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap()
}

fn check_text(name: &str, model: &Model, expected: &Value) {
    let (batch, prompt) = (number(expected, "batch"), number(expected, "prompt"));
    let workload = eager(batch, prompt);
    if let Some(encoder) = expected.get("encoder") {
        let encoder_flops = model.cost_span(&workload, Span::Encoder).tensor.total();
        assert_eq!(
            Some(encoder_flops),
            encoder.as_u64(),
            "{name}: encoder of {batch}"
        );
    }
    let tensor = |pass: &Pass| model.cost_of(&workload, pass).tensor.total();
    let prefill: u64 = model
        .prefill_passes(&workload)
        .map(|pass| tensor(&pass))
        .sum();
    assert_eq!(
        prefill,
        number(expected, "prefill"),
        "{name}: prefill of {batch} × {prompt}"
    );
    assert_eq!(
        tensor(&model.decode_step(&workload)),
        number(expected, "decode"),
        "{name}: decode of {batch} after {prompt}"
    );
}

fn check_vision(name: &str, model: &Model, expected: &Value) {
    let number = |key: &str| expected[key].as_u64();
    let workload = Workload {
        images: Images {
            count: number("images").unwrap_or(1),
            height: number("height").unwrap_or(0),
            width: number("width").unwrap_or(0),
            ..Images::default()
        },
        ..Workload::default()
    };
    let vision_flops = model.cost_span(&workload, Span::Vision).tensor.total();
    assert_eq!(
        Some(vision_flops),
        number("vision"),
        "{name}: vision of {expected}"
    );
}

fn check_flops(name: &str, model: &Model, expected: &Value) {
    if expected.get("vision").is_some() {
        check_vision(name, model, expected);
    } else {
        check_text(name, model, expected);
    }
}

#[test]
fn published_models_have_the_parameters_of_transformers() {
    let truth = data("transformers.json");
    let parameters = truth["parameters"].as_object().unwrap();
    assert!(parameters.len() >= 20);
    for (name, expected) in parameters {
        assert_eq!(
            Some(published(name).parameter_count()),
            expected.as_u64(),
            "{name}"
        );
    }
}

#[test]
fn absent_keys_have_the_defaults_of_the_config_class() {
    let truth = data("transformers.json");
    let defaults = truth["defaults"].as_object().unwrap();
    assert!(defaults.len() >= 18);
    for (family, expected) in defaults {
        let config = serde_json::json!({ "model_type": family });
        let model = Model::from_config(&config, None).unwrap();
        assert_eq!(Some(model.parameter_count()), expected.as_u64(), "{family}");
    }
}

/// A second source: the counts that the models' publishers state or that their checkpoints hold.
#[test]
fn published_models_have_the_parameters_that_their_checkpoints_hold() {
    for (name, expected) in [
        ("qwen2_5_0_5b", 494_032_768),
        ("qwen2_5_7b", 7_615_616_512),
        ("llama3_1_8b", 8_030_261_248),
        ("llama3_1_70b", 70_553_706_496),
        ("mistral_7b", 7_241_732_096),
        ("mixtral_8x7b", 46_702_792_704),
        ("qwen3_8b", 8_190_735_360),
        ("qwen3_30b_a3b", 30_532_122_624),
        ("gemma2_9b", 9_241_705_984),
        ("gemma3_1b", 999_885_952),
        ("phi3_mini_4k", 3_821_079_552),
        ("gpt_oss_20b", 20_914_757_184),
        ("gpt_oss_120b", 116_829_156_672),
        ("deepseek_v2_lite", 15_706_484_224),
        ("qwen2_5_vl_7b", 8_292_166_656),
        ("gpt2", 124_439_808),
        ("pythia_1b", 1_011_781_632),
        ("t5_small", 60_506_624),
        ("flan_t5_small", 76_961_152),
        ("whisper_tiny", 37_760_640),
        ("whisper_large_v3", 1_543_490_560),
    ] {
        assert_eq!(published(name).parameter_count(), expected, "{name}");
    }
}

#[test]
fn matrix_work_of_published_models_is_what_torch_counts() {
    let truth = data("transformers.json");
    for expected in truth["flops"].as_array().unwrap() {
        let name = expected["model"].as_str().unwrap();
        check_flops(name, &published(name), expected);
    }
}

#[test]
fn matrix_work_of_small_models_is_what_torch_counts() {
    let truth = data("transformers.json");
    for (family, tiny) in truth["tiny"].as_object().unwrap() {
        let model = Model::from_config(&tiny["config"], None).unwrap();
        for expected in tiny["flops"].as_array().unwrap() {
            check_flops(family, &model, expected);
        }
    }
}

#[test]
fn small_models_have_the_tensors_that_transformers_saves() {
    let truth = data("transformers.json");
    let tiny = truth["tiny"].as_object().unwrap();
    for (family, entry) in tiny {
        let model = Model::from_config(&entry["config"], None).unwrap();
        assert_eq!(
            Some(model.parameter_count()),
            entry["parameters"].as_u64(),
            "{family}"
        );
        let tensors: BTreeMap<_, _> = model
            .checkpoint_tensors()
            .into_iter()
            .map(|tensor| (tensor.name, tensor.shape.sizes().to_vec()))
            .collect();
        let expected: BTreeMap<String, Vec<u64>> =
            serde_json::from_value(entry["tensors"].clone()).unwrap();
        assert_eq!(tensors, expected, "{family}");
    }
    for family in family_names() {
        let elsewhere = ["deepseek_ocr", "deepseek_ocr2", "clip", "siglip", "sam"];
        assert!(
            tiny.contains_key(family) || elsewhere.contains(&family),
            "{family} has no test case"
        );
    }
}

/// Runs the recipe's small models again.
#[test]
#[ignore = "live: needs the torch and transformers that the file names"]
fn transformers_still_says_what_the_file_says() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("LLMPROF_PYTHON")
        .map_or_else(|| root.join("../../.venv/bin/python"), PathBuf::from);
    let stored = data("transformers.json");
    let script = "import torch, transformers; print(torch.__version__.split('+')[0], transformers.__version__)";
    let versions = Command::new(&python).args(["-c", script]).output().unwrap();
    let pinned = format!(
        "{} {}",
        stored["torch"].as_str().unwrap(),
        stored["transformers"].as_str().unwrap()
    );
    assert_eq!(String::from_utf8_lossy(&versions.stdout).trim(), pinned);
    let output = Command::new(&python)
        .arg(root.join("tests/recipes/transformers_truth.py"))
        .arg("--tiny")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let live: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(live["tiny"], stored["tiny"]);
}
