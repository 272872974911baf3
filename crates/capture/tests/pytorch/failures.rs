//! What the worker cannot do it says in the protocol's kinds, and goes on.

use llmprof_capture::{
    process::ProcessError,
    pytorch::Package,
    runner::{
        Problem,
        protocol::{FailureKind, LoadOptions, Prompt},
    },
};
use llmprof_record::plan::{Compile, LoadFormat};
use serde_json::json;

use super::support::{Worker, batch, dummy, python, root, tiny_qwen2};

#[test]
#[ignore = "live: needs torch and transformers"]
fn an_interpreter_without_torch_says_what_to_install() {
    let python = python();
    let package = Package::unpack().unwrap();
    let mut launch = package.launch_worker(&python);
    // Without the folder of installed packages.
    launch.args.insert(0, "-S".to_owned());
    match Worker::launch(package, &launch).err().unwrap() {
        Problem::Failed(failure) => {
            assert_eq!(failure.kind, FailureKind::Missing);
            assert!(failure.message.contains("`torch`"), "{}", failure.message);
            let hint = failure.hint.unwrap();
            assert!(hint.contains("pip install torch transformers"), "{hint}");
        }
        other => panic!("{other}"),
    }
}

/// Packages that are too old, or that do not come whole, are reported like missing ones.
#[test]
#[ignore = "live: needs torch and transformers"]
fn packages_that_do_not_do_are_named() {
    let python = python();
    for (source, words) in [
        (
            "__version__ = '1.13.1'",
            "torch 1.13.1; 2.4 or newer is needed",
        ),
        (
            "raise OSError('libcublas.so.12: cannot open shared object file')",
            "cannot import `torch`: libcublas.so.12",
        ),
        ("", "torch of no version"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("torch")).unwrap();
        std::fs::write(folder.path().join("torch/__init__.py"), source).unwrap();
        let package = Package::unpack().unwrap();
        let launch = package.launch_worker(&python);
        let launch = launch.env("PYTHONPATH", folder.path().to_string_lossy());
        match Worker::launch(package, &launch).err().unwrap() {
            Problem::Failed(failure) => {
                assert_eq!(failure.kind, FailureKind::Missing);
                assert!(failure.message.contains(words), "{}", failure.message);
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn an_interpreter_that_is_not_there_is_named() {
    let package = Package::unpack().unwrap();
    let launch = package.launch_worker("no-such-python");
    match Worker::launch(package, &launch).err().unwrap() {
        Problem::Start(ProcessError::NotFound { program }) => assert_eq!(program, "no-such-python"),
        other => panic!("{other}"),
    }
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn failures_have_kinds_and_the_worker_goes_on() {
    let mut worker = Worker::start();
    let early = worker.generate(&batch(&[&[1]], 1)).unwrap_err();
    assert_eq!(early.kind, FailureKind::Protocol);

    let mut refused = |load, kind, word: &str| {
        let failure = worker.load(&load).unwrap_err();
        assert_eq!(failure.kind, kind, "{}", failure.message);
        assert!(failure.message.contains(word), "{}", failure.message);
    };
    let unknown = json!({"model_type": "no_such_family"});
    refused(dummy(&unknown), FailureKind::Unsupported, "no_such_family");
    let shapeless = json!({"hidden_size": 64});
    refused(dummy(&shapeless), FailureKind::Model, "model_type");
    let mut load = dummy(&tiny_qwen2());
    load.load_format = LoadFormat::Safetensors;
    refused(load.clone(), FailureKind::BadRequest, "directory");
    load.path = Some(root().join("no/such/directory"));
    refused(load.clone(), FailureKind::Model, "no/such/directory");
    // A directory of another model: its tensors have other shapes.
    load.path = Some(root().join("crates/engine/tests/data/llama"));
    refused(load, FailureKind::Model, "cannot load");
    // 4 TiB of embeddings.
    let mut vast = tiny_qwen2();
    vast["vocab_size"] = json!(1 << 24);
    vast["hidden_size"] = json!(1 << 16);
    refused(dummy(&vast), FailureKind::OutOfMemory, "allocate");
    let mut load = dummy(&tiny_qwen2());
    load.device = "cuda:99".to_owned();
    assert!(worker.load(&load).is_err());

    let mut load = dummy(&json!({
        "model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 100, "n_positions": 16
    }));
    load.options = LoadOptions {
        compile: Compile::Off,
        attn_implementation: Some("eager".to_owned()),
        ..LoadOptions::default()
    };
    let loaded = worker.load(&load).unwrap();
    assert_eq!(loaded.facts["attn_implementation"], "eager");
    let mut refused = |batch, word: &str| {
        let failure = worker.generate(&batch).unwrap_err();
        assert_eq!(failure.kind, FailureKind::BadRequest, "{}", failure.message);
        assert!(failure.message.contains(word), "{}", failure.message);
    };
    refused(batch(&[&[1, 100]], 1), "token 100");
    refused(batch(&[&[1; 60]], 5), "65 positions");
    refused(batch(&[&[1; 14]], 4), "learned 16");
    refused(batch(&[&[]], 1), "no tokens");
    refused(batch(&[&[1], &[2], &[3]], 1), "at most 2");
    let mut text = batch(&[&[1]], 1);
    text.requests[0].prompt = Prompt::Text("words".to_owned());
    refused(text, "tokenizer");
    // 14 + 3 tokens, the last of which is never fed.
    let whole = worker.generate(&batch(&[&[1; 14]], 3)).unwrap();
    assert_eq!(whole.requests[0].output_tokens.len(), 3);
    worker.finish();
}
