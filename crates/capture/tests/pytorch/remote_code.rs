//! Code that a model's directory brings runs only where that was asked for.

use llmprof_capture::{pytorch::Package, runner::protocol::FailureKind};
use serde_json::json;

use super::support::{Worker, batch, dummy, python, tokens};

const CONFIGURATION: &str = "
from transformers import Qwen2Config
class OwnConfig(Qwen2Config):
    model_type = 'llmprof_own'
";

const MODELING: &str = "
import os
from transformers import Qwen2ForCausalLM
from .configuration_own import OwnConfig
open(os.environ['OWN_CODE_RAN'], 'w').close()
class OwnModel(Qwen2ForCausalLM):
    config_class = OwnConfig
";

#[test]
#[ignore = "live: needs torch and transformers"]
fn code_of_a_directory_runs_only_when_trusted() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    std::fs::create_dir(&model).unwrap();
    let config = json!({
        "model_type": "llmprof_own", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "tie_word_embeddings": true,
        "auto_map": {"AutoConfig": "configuration_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnModel"}
    });
    std::fs::write(model.join("config.json"), config.to_string()).unwrap();
    std::fs::write(model.join("configuration_own.py"), CONFIGURATION).unwrap();
    std::fs::write(model.join("modeling_own.py"), MODELING).unwrap();
    let ran = folder.path().join("ran");
    let package = Package::unpack().unwrap();
    let launch = package
        .launch_worker(&python)
        .env("HF_HOME", folder.path().join("cache").to_string_lossy())
        .env("OWN_CODE_RAN", ran.to_string_lossy());
    let mut worker = Worker::launch(package, &launch).unwrap();

    let mut load = dummy(&config);
    load.path = Some(model);
    let failure = worker.load(&load).unwrap_err();
    assert_eq!(
        failure.kind,
        FailureKind::Unsupported,
        "{}",
        failure.message
    );
    assert!(failure.hint.unwrap().contains("trust_remote_code"));
    assert!(!ran.exists());

    load.options.trust_remote_code = true;
    let loaded = worker.load(&load).unwrap();
    assert_eq!(loaded.facts["model_class"], "OwnModel");
    assert!(ran.exists());
    let own = worker.generate(&batch(&[&[1, 2, 3]], 4)).unwrap();
    // The same design without code of its own has the same dummy weights.
    let mut known = config;
    known["model_type"] = json!("qwen2");
    known.as_object_mut().unwrap().remove("auto_map");
    worker.load(&dummy(&known)).unwrap();
    let plain = worker.generate(&batch(&[&[1, 2, 3]], 4)).unwrap();
    assert_eq!(tokens(&own), tokens(&plain));
    worker.finish();
}
