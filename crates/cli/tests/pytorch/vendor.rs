//! A model directory with code of its own, as the vendor's DeepSeek-OCR: `infer` prepares the page and generates. Run over a folder of
//! pages, directly and profiled.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

use super::{issues, python, stderr};

const CONFIGURATION: &str = "
from transformers import Qwen2Config
class ReaderConfig(Qwen2Config):
    model_type = 'llmprof_reader'
";

/// The names of the vendor's arguments; a tower that the page goes through; the answer where it is asked for.
const MODELING: &str = "
import torch
from transformers import Qwen2ForCausalLM
from .configuration_reader import ReaderConfig

class Reader(Qwen2ForCausalLM):
    config_class = ReaderConfig
    def __init__(self, config):
        super().__init__(config)
        self.vision_tower = torch.nn.Linear(16, config.hidden_size)
        self.post_init()
    def forward(self, *arguments, **options):
        if getattr(self, 'page', None) is not None:
            self.vision_tower(self.page)
            self.page = None
        return super().forward(*arguments, **options)
    def infer(self, tokenizer, prompt='', image_file='', output_path='', base_size=1024, image_size=640, crop_mode=True,
              test_compress=False, save_results=False, eval_mode=False):
        data = open(image_file, 'rb').read()
        self.page = torch.full((4, 16), len(data) % 7, dtype=torch.float32)
        ids = torch.tensor([tokenizer(prompt)['input_ids'] + [len(data) % 90, base_size % 90]])
        out = self.generate(ids, do_sample=False, max_length=8192, eos_token_id=None)
        text = tokenizer.decode(out[0, ids.shape[1]:])
        return text if eval_mode else None
";

fn tokenizer() -> Value {
    let words: serde_json::Map<String, Value> = (0..100)
        .map(|number| (format!("w{number}"), json!(number)))
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
    })
}

fn scene(root: &Path) {
    let model = root.join("reader");
    fs::create_dir(&model).unwrap();
    let config = json!({
        "model_type": "llmprof_reader", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": true,
        "architectures": ["Reader"],
        "auto_map": {"AutoConfig": "configuration_reader.ReaderConfig", "AutoModelForCausalLM": "modeling_reader.Reader"}
    });
    fs::write(model.join("config.json"), config.to_string()).unwrap();
    fs::write(model.join("configuration_reader.py"), CONFIGURATION).unwrap();
    fs::write(model.join("modeling_reader.py"), MODELING).unwrap();
    fs::write(model.join("tokenizer.json"), tokenizer().to_string()).unwrap();
    fs::create_dir(root.join("pages")).unwrap();
    for (name, side) in [("a.png", 20), ("b.png", 40)] {
        image::RgbImage::from_pixel(side, side, image::Rgb([255, 255, 255]))
            .save(root.join("pages").join(name))
            .unwrap();
    }
}

fn run(root: &Path, python: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(root)
        .env("NO_COLOR", "1")
        .env("HF_HOME", root.join("cache"))
        .args([
            "run",
            "runtime=pytorch",
            &format!("runtime.python={python}"),
        ])
        .args(["model=local", "model.path=reader", "model.dtype=f32"])
        .args(["dataset=images", "dataset.root=pages", "infer.prompt=w1 w2"])
        .args(["hardware.spec=xeon_8480", "infer.max_new_tokens=4"])
        .args(["runtime.threads=1", "runtime.batch_size=1"])
        .args(more)
        .output()
        .unwrap()
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn code_that_reads_pages_is_run_over_a_folder() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    scene(root);
    let trusted = "runtime.trust_remote_code=true";
    let direct = run(
        root,
        &python,
        &["+preset=direct_inference", trusted, "hydra.run.dir=direct"],
    );
    assert!(direct.status.success(), "{}", stderr(&direct));
    let text = fs::read_to_string(root.join("direct/predictions/predictions.jsonl")).unwrap();
    let predictions: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(predictions.len(), 2, "{text}");
    for one in &predictions {
        // Two words, the page and the size.
        assert_eq!(one["prompt_tokens"], 4, "{one}");
        assert!(
            one["text"]
                .as_str()
                .is_some_and(|text| text.starts_with('w'))
        );
    }

    let profiled = run(
        root,
        &python,
        &[
            trusted,
            "hydra.run.dir=profiled",
            "runtime.warmup=1",
            "runtime.repeats=1",
        ],
    );
    assert!(profiled.status.success(), "{}", stderr(&profiled));
    let read = |name: &str| fs::read_to_string(root.join("profiled").join(name)).unwrap();
    let analysis: Value = serde_json::from_str(&read("analysis.json")).unwrap();
    let names: Vec<_> = analysis["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["phase"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["vision", "prefill", "decode"]);
    assert!(!issues(&read("run.json")).contains(&"run.broken_off".to_owned()));

    // Nobody trusted it: its code does not run.
    let refused = run(root, &python, &["hydra.run.dir=refused"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("trust_remote_code"));
}
