//! Checkpoints and requests that are wrong, and what is said of them.

use std::{error::Error, fs, path::Path};

use crate::support::{data, engine, model};
use llmprof_engine::{EngineError, EngineOptions, NativeEngine, Recorder, WeightSource};
use llmprof_theory::Model;
use llmprof_units::DType;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A copy of a tiny model that a test may spoil.
fn copy(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(data().join(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

fn load(directory: &Path) -> Result<NativeEngine, EngineError> {
    let source = WeightSource::Directory(directory.to_owned());
    NativeEngine::load(&model(directory), &source, EngineOptions::default())
}

fn refusal(directory: &Path) -> String {
    let error = load(directory).unwrap_err();
    let source = error
        .source()
        .map(|source| format!(": {source}"))
        .unwrap_or_default();
    format!("{error}{source}")
}

/// The header of a safetensors file with `change` made to it, then its data.
fn rewrite(path: &Path, change: impl Fn(&str) -> String) {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = change(std::str::from_utf8(&bytes[8..8 + length]).unwrap());
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(&bytes[8 + length..]);
    fs::write(path, out).unwrap();
}

#[test]
fn a_header_that_is_broken_is_refused_with_its_file() {
    let folder = copy("qwen3");
    let path = folder.path().join("model.safetensors");
    rewrite(&path, |header| header.replace("\"dtype\"", "\"dtpye\""));
    let text = refusal(folder.path());
    assert!(
        text.contains("model.safetensors` has a broken safetensors header"),
        "{text}"
    );
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let folder = copy("qwen3");
    let path = folder.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len())
        .step_by(911)
        .chain([1, 7, 8, 9, whole.len() - 1])
    {
        fs::write(&path, &whole[..length]).unwrap();
        let error = load(folder.path()).unwrap_err();
        let named = matches!(
            error,
            EngineError::BrokenHeader { .. } | EngineError::Read { .. }
        );
        assert!(named, "{length} bytes: {error}");
    }
}

/// A header whose first tensor in the order of its data begins and ends elsewhere.
fn with_offsets(header: &str, change: impl Fn(u64, u64) -> [Value; 2]) -> String {
    let mut header: Value = serde_json::from_str(header).unwrap();
    let tensors = header.as_object_mut().unwrap();
    let first = tensors
        .values_mut()
        .find(|tensor| tensor["data_offsets"][0] == 0)
        .unwrap();
    let end = first["data_offsets"][1].as_u64().unwrap();
    first["data_offsets"] = json!(change(0, end));
    header.to_string()
}

type Change = Box<dyn Fn(u64, u64) -> [Value; 2]>;

#[test]
fn offsets_that_lie_are_refused() {
    let folder = copy("qwen3");
    let path = folder.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let file_size = whole.len() as u64;
    let cases: Vec<(&str, Change)> = vec![
        (
            "overlap",
            Box::new(|start, end| [json!(start), json!(end + 4)]),
        ),
        ("gap", Box::new(|start, end| [json!(start + 4), json!(end)])),
        (
            "backward",
            Box::new(|start, end| [json!(end), json!(start)]),
        ),
        (
            "beyond",
            Box::new(move |start, _| [json!(start), json!(file_size * 2)]),
        ),
        ("end", Box::new(|start, _| [json!(start), json!(u64::MAX)])),
        (
            "start",
            Box::new(|_, _| [json!(u64::MAX - 7), json!(u64::MAX)]),
        ),
        ("wrapped", Box::new(|_, end| [json!(u64::MAX), json!(end)])),
        ("negative", Box::new(|_, end| [json!(-4), json!(end)])),
        ("wide", Box::new(|start, _| [json!(start), json!(1e300)])),
    ];
    for (name, change) in cases {
        fs::write(&path, &whole).unwrap();
        rewrite(&path, |header| with_offsets(header, &change));
        let error = load(folder.path()).unwrap_err();
        assert!(
            matches!(error, EngineError::BrokenHeader { .. }),
            "{name}: {error}"
        );
    }
}

#[test]
fn a_shape_whose_size_overflows_is_refused() {
    let folder = copy("qwen3");
    let path = folder.path().join("model.safetensors");
    rewrite(&path, |header| {
        let mut header: Value = serde_json::from_str(header).unwrap();
        for tensor in header.as_object_mut().unwrap().values_mut() {
            if tensor["shape"].is_array() {
                tensor["shape"] = json!([u64::MAX, 8]);
            }
        }
        header.to_string()
    });
    let error = load(folder.path()).unwrap_err();
    assert!(matches!(error, EngineError::BrokenHeader { .. }), "{error}");
}

#[test]
fn a_header_longer_than_its_file_is_refused() {
    let folder = copy("qwen3");
    let path = folder.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let file_size = bytes.len() as u64;
    for length in [
        0,
        1,
        file_size - 8,
        file_size,
        100_000_000,
        u64::MAX - 7,
        u64::MAX,
    ] {
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        let error = load(folder.path()).unwrap_err();
        assert!(
            matches!(error, EngineError::BrokenHeader { .. }),
            "{length}: {error}"
        );
    }
}

#[test]
fn a_missing_tensor_is_named() {
    let folder = copy("qwen3");
    rewrite(&folder.path().join("model.safetensors"), |header| {
        header.replace(
            "model.layers.1.self_attn.q_norm.weight",
            "model.layers.1.self_attn.q_nrom.weight",
        )
    });
    let text = refusal(folder.path());
    assert!(
        text.contains("no tensor `model.layers.1.self_attn.q_norm.weight`"),
        "{text}"
    );
}

#[test]
fn a_tensor_of_another_shape_is_named_with_both_shapes() {
    let folder = copy("qwen3");
    let config = folder.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        text.replace("\"intermediate_size\": 48", "\"intermediate_size\": 40"),
    )
    .unwrap();
    let text = refusal(folder.path());
    assert!(
        text.contains("mlp.down_proj.weight` has the shape [32, 48]"),
        "{text}"
    );
    assert!(text.contains("asks for [32, 40]"), "{text}");
}

#[test]
fn a_tensor_of_integers_is_refused() {
    let folder = copy("qwen3");
    rewrite(&folder.path().join("model.safetensors"), |header| {
        header.replace("\"F32\"", "\"I32\"")
    });
    let text = refusal(folder.path());
    assert!(text.contains("stored as I32"), "{text}");
}

#[test]
fn a_missing_shard_is_named() {
    let folder = copy("sharded");
    fs::remove_file(folder.path().join("model-00002-of-00004.safetensors")).unwrap();
    let text = refusal(folder.path());
    assert!(text.contains("model-00002-of-00004.safetensors"), "{text}");
    assert!(text.contains("index.json"), "{text}");
}

#[test]
fn an_index_that_is_broken_is_refused() {
    let folder = copy("sharded");
    let index = folder.path().join("model.safetensors.index.json");
    for (text, said) in [
        ("{", "EOF"),
        ("{}", "weight_map"),
        (r#"{"weight_map": {"a": 3}}"#, "`a`"),
        (r#"{"weight_map": {"a": "../outside.safetensors"}}"#, "`a`"),
    ] {
        fs::write(&index, text).unwrap();
        let message = refusal(folder.path());
        assert!(message.contains(said), "{text}: {message}");
    }
}

#[test]
fn directories_without_weights_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(
        data().join("qwen3/config.json"),
        folder.path().join("config.json"),
    )
    .unwrap();
    let text = refusal(folder.path());
    assert!(text.contains("no `*.safetensors`"), "{text}");
    let source = WeightSource::Directory(folder.path().join("nowhere"));
    let error =
        NativeEngine::load(&model(folder.path()), &source, EngineOptions::default()).unwrap_err();
    assert!(matches!(error, EngineError::Read { .. }), "{error}");
}

#[test]
fn gpt2_checkpoints_may_leave_their_prefix_out() {
    let folder = copy("gpt2");
    rewrite(&folder.path().join("model.safetensors"), |header| {
        header.replace("\"transformer.", "\"")
    });
    let off = &mut Recorder::off();
    let logits = |directory: &Path| {
        let engine = engine(directory);
        let mut cache = engine.new_cache(1, 4).unwrap();
        engine
            .decode_step(&mut cache, &[5], &mut Recorder::off())
            .unwrap()
            .to_vec()
    };
    assert_eq!(logits(folder.path()), logits(&data().join("gpt2")));
    let engine = engine(folder.path());
    let mut cache = engine.new_cache(1, 100).unwrap();
    let error = engine
        .prefill(&mut cache, &[vec![0; 65]], None, off)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("64 is the most that the model takes"),
        "{error}"
    );
}

#[test]
fn weights_become_bf16_on_request() {
    let directory = data().join("qwen3");
    let options = EngineOptions {
        weights: Some(DType::Bf16),
        threads: Some(1),
        ..EngineOptions::default()
    };
    let source = WeightSource::Directory(directory.clone());
    let half = NativeEngine::load(&model(&directory), &source, options).unwrap();
    let full = engine(&directory);
    let logits = |engine: &NativeEngine| {
        let mut cache = engine.new_cache(1, 16).unwrap();
        let prompt: Vec<u32> = (0..16).collect();
        let logits = engine.prefill(
            &mut cache,
            &[prompt],
            Some(llmprof_theory::Logits::Last),
            &mut Recorder::off(),
        );
        logits.unwrap().to_vec()
    };
    let (half, full) = (logits(&half), logits(&full));
    let largest = full
        .iter()
        .fold(0.0f32, |most, value| most.max(value.abs()));
    let apart = half
        .iter()
        .zip(&full)
        .fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
    // Eight bits of mantissa: near, but not the same.
    assert!(
        apart > 0.0 && apart < 0.05 * largest,
        "{apart} of {largest}"
    );
}

#[test]
fn dummy_weights_depend_on_the_seed_alone_and_stay_finite() {
    for name in ["llama", "gemma2", "gpt2", "qwen3_moe"] {
        let model = model(&data().join(name));
        let logits = |seed, threads, weights| {
            let options = EngineOptions {
                weights: Some(weights),
                threads: Some(threads),
                ..EngineOptions::default()
            };
            let engine =
                NativeEngine::load(&model, &WeightSource::Dummy { seed }, options).unwrap();
            let mut cache = engine.new_cache(1, 4).unwrap();
            engine
                .decode_step(&mut cache, &[5], &mut Recorder::off())
                .unwrap()
                .to_vec()
        };
        for weights in [DType::F32, DType::Bf16] {
            let first = logits(1, 1, weights);
            assert!(
                first
                    .iter()
                    .all(|logit| logit.is_finite() && logit.abs() < 1e3),
                "{name}"
            );
            assert_eq!(first, logits(1, 2, weights), "{name}");
            assert_ne!(first, logits(2, 1, weights), "{name}");
        }
    }
}

#[test]
fn requests_that_cannot_run_are_refused() {
    let engine = engine(&data().join("qwen3"));
    let off = &mut Recorder::off();
    let mut cache = engine.new_cache(2, 4).unwrap();
    let mut refused = |tokens: &[Vec<u32>]| {
        engine
            .prefill(&mut cache, tokens, None, off)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(&[vec![1]]).contains("holds 2 sequences, but 1"));
    assert!(refused(&[vec![1], vec![]]).contains("sequence 1 has no token"));
    assert!(refused(&[vec![1], vec![64]]).contains("token 64 of sequence 1"));
    assert!(refused(&[vec![1; 5], vec![1]]).contains("grow to 5 tokens, but 4"));
    let error = engine.new_cache(usize::MAX, usize::MAX).unwrap_err();
    assert!(matches!(error, EngineError::Memory { .. }), "{error}");
    let model = Model::from_config(&serde_json::json!({ "model_type": "gpt2" }), None).unwrap();
    for bad in [DType::F16, DType::I8] {
        let options = EngineOptions {
            weights: Some(bad),
            ..EngineOptions::default()
        };
        let error =
            NativeEngine::load(&model, &WeightSource::Dummy { seed: 0 }, options).unwrap_err();
        assert!(
            matches!(error, EngineError::UnsupportedDtype { .. }),
            "{error}"
        );
    }
}
