//! Image files: read, prepared and shown to a model; and models whose own code reads a page.

use std::{path::Path, process::Command};

use llmprof_capture::{
    pytorch::Package,
    runner::protocol::{FailureKind, Image, Prompt},
};
use serde_json::{Value, json};

use super::support::{Worker, batch, dummy, phases, python, root};

/// Whether the interpreter can read images.
fn has_pillow(python: &str) -> bool {
    let probe = Command::new(python)
        .args(["-c", "import PIL.Image"])
        .output();
    let has_pillow = probe.is_ok_and(|output| output.status.success());
    let required = std::env::var("LLMPROF_REQUIRE_PYTHON").is_ok_and(|value| value == "1");
    assert!(has_pillow || !required, "{python} has no pillow");
    has_pillow
}

fn page(folder: &Path, name: &str, width: u32, height: u32) -> Image {
    let path = folder.join(name);
    image::RgbImage::from_pixel(width, height, image::Rgb([250, 250, 240]))
        .save(&path)
        .unwrap();
    Image {
        height: u64::from(height),
        width: u64::from(width),
        path: Some(path),
    }
}

fn tiny_ocr2() -> Value {
    let path = root().join("crates/theory/tests/data/deepseek_ocr2.json");
    let truth: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    truth["tiny"]["config"].clone()
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn pages_are_prepared_as_the_processor_of_the_model_does_it() {
    let python = python();
    if !has_pillow(&python) {
        return;
    }
    let mut worker = Worker::start();
    let folder = tempfile::tempdir().unwrap();
    let mut load = dummy(&tiny_ocr2());
    load.max_positions = 4096;
    worker.load(&load).unwrap();
    let mut asked = batch(&[&[1, 2, 3, 4], &[5, 6]], 2);
    asked.max_prompt_tokens = Some(3);
    // One page with 2 × 3 crops, one without.
    asked.requests[0].images = vec![page(folder.path(), "large.jpg", 1000, 1500)];
    asked.requests[1].images = vec![page(folder.path(), "small.png", 300, 400)];
    let seen = worker.generate(&asked).unwrap();
    assert_eq!(phases(&seen), ["vision", "prefill", "decode"]);
    let [large, small] = seen.requests.as_slice() else {
        panic!("two requests")
    };
    assert_eq!(large.prompt_tokens, 256 + 6 * 144 + 1 + 3);
    assert_eq!((large.cut_prompt_tokens, small.cut_prompt_tokens), (1, 0));
    assert_eq!(large.images[0].crops_wide * large.images[0].crops_high, 6);
    assert_eq!(small.prompt_tokens, 256 + 1 + 2);
    assert_eq!(small.images[0].tokens, 257);

    // A file that ends early is the sample's own failure; the worker goes on.
    let whole = std::fs::read(folder.path().join("small.png")).unwrap();
    std::fs::write(folder.path().join("small.png"), &whole[..whole.len() / 2]).unwrap();
    let failure = worker.generate(&asked).unwrap_err();
    assert_eq!(failure.kind, FailureKind::BadRequest);
    assert!(failure.message.contains("small.png"), "{}", failure.message);

    // Without crops the whole page is as small as one.
    let settings = json!({"crop_mode": false, "base_size": 1024});
    load.options.preprocess = settings.as_object().cloned();
    worker.load(&load).unwrap();
    asked.requests.truncate(1);
    let seen = worker.generate(&asked).unwrap();
    assert_eq!(seen.requests[0].images[0].tokens, 145);
    // The map of older projects: numbers of the design are those of the model, and `enable: false` leaves the processor's own settings.
    let older = json!({"enable": true, "base_size": 1024, "image_size": 768, "crop_mode": true, "patch_size": 16, "downsample_ratio": 4});
    for (change, tokens) in [("enable", 256 + 6 * 144 + 1), ("crop_mode", 145)] {
        let mut settings = older.as_object().cloned();
        if let Some(settings) = &mut settings {
            settings.insert(change.to_owned(), json!(false));
        }
        load.options.preprocess = settings;
        worker.load(&load).unwrap();
        let seen = worker.generate(&asked).unwrap();
        assert_eq!(seen.requests[0].images[0].tokens, tokens, "{change}");
    }
    load.options.preprocess = json!({"patch_size": 14}).as_object().cloned();
    worker.load(&load).unwrap();
    let failure = worker.generate(&asked).unwrap_err();
    assert!(
        failure.message.contains("the model has patch_size 16"),
        "{}",
        failure.message
    );
    let settings = json!({"sise": 5});
    load.options.preprocess = settings.as_object().cloned();
    worker.load(&load).unwrap();
    let failure = worker.generate(&asked).unwrap_err();
    assert!(
        failure.message.contains("model.preprocess.sise"),
        "{}",
        failure.message
    );
    worker.finish();
}

const CONFIGURATION: &str = "
from transformers import Qwen2Config
class ReaderConfig(Qwen2Config):
    model_type = 'llmprof_reader'
";

/// As the vendor's DeepSeek-OCR: `infer` prepares the page itself and calls `generate`.
const MODELING: &str = "
import torch
from transformers import Qwen2ForCausalLM
from .configuration_reader import ReaderConfig
class Reader(Qwen2ForCausalLM):
    config_class = ReaderConfig
    def infer(self, tokenizer, prompt='', image_file='', output_path='', base_size=1024, eval_mode=False):
        size = len(open(image_file, 'rb').read())
        ids = torch.tensor([[len(prompt) % 200, size % 200, base_size % 200]])
        self.generate(ids, do_sample=False, max_new_tokens=500)
        return 'read'
";

#[test]
#[ignore = "live: needs torch and transformers"]
fn a_model_whose_own_code_reads_pages_is_called_through_it() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    std::fs::create_dir(&model).unwrap();
    let config = json!({
        "model_type": "llmprof_reader", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "tie_word_embeddings": true,
        "auto_map": {"AutoConfig": "configuration_reader.ReaderConfig", "AutoModelForCausalLM": "modeling_reader.Reader"}
    });
    std::fs::write(model.join("config.json"), config.to_string()).unwrap();
    std::fs::write(model.join("configuration_reader.py"), CONFIGURATION).unwrap();
    std::fs::write(model.join("modeling_reader.py"), MODELING).unwrap();
    let package = Package::unpack().unwrap();
    let launch = package
        .launch_worker(&python)
        .env("HF_HOME", folder.path().join("cache").to_string_lossy());
    let mut worker = Worker::launch(package, &launch).unwrap();
    let mut load = dummy(&config);
    load.path = Some(model);
    load.options.trust_remote_code = true;
    load.options.preprocess = json!({"base_size": 1030}).as_object().cloned();
    worker.load(&load).unwrap();
    let mut asked = batch(&[&[1]], 4);
    asked.requests[0].prompt = Prompt::Text("Read it.".to_owned());
    asked.requests[0].images = vec![page(folder.path(), "page.png", 20, 30)];
    let seen = worker.generate(&asked).unwrap();
    let read = &seen.requests[0];
    assert_eq!((read.prompt_tokens, read.output_tokens.len()), (3, 4));
    assert_eq!(read.text.as_deref(), Some("read"));
    assert_eq!(phases(&seen), ["prefill", "decode"]);
    worker.finish();
}
