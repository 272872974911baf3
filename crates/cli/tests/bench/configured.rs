//! Servers that a config describes, with a stand-in for their programs.

use std::{path::Path, process::Command};

use serde_json::{Value, json};

use super::{SERVER, free_port, json, read};

/// Writes down how it was started, and serves on its `--port`.
const STAND_IN: &str = r#"
import json, os, runpy, sys
words = sys.argv[1:]
names = ["SGLANG_TORCH_PROFILER_DIR", "MINE"]
said = {"words": words, "env": {name: os.environ.get(name) for name in names}}
json.dump(said, open("said.json", "w"))
server = os.environ["STAND_IN_SERVER"]
sys.argv = [server, words[words.index("--port") + 1], "1"]
runpy.run_path(server, run_name="__main__")
"#;

const MODEL: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 512, "max_position_embeddings": 256, "torch_dtype": "bfloat16"}"#;

struct Started {
    dir: tempfile::TempDir,
    words: Vec<String>,
    env: Value,
    port: u16,
}

impl Started {
    /// The words with what differs from run to run replaced.
    fn line(&self) -> String {
        let model = self.dir.path().join("model").display().to_string();
        let run = std::path::absolute(self.dir.path().join("run")).unwrap();
        let run = run.display().to_string();
        let line = self.words.join(" ");
        let line = line.replace(&model, "MODEL").replace(&run, "RUN");
        line.replace(&self.port.to_string(), "PORT")
    }

    fn issues(&self) -> String {
        json(&self.dir.path().join("run/run.json"))["issues"].to_string()
    }
}

fn start(runtime: &str, program: &str, more: &[&str]) -> Started {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::create_dir(path("model")).unwrap();
    std::fs::write(path("model/config.json"), MODEL).unwrap();
    // trtllm-serve has no random weights; the stand-in does not read them.
    std::fs::write(path("model/model.safetensors"), b"").unwrap();
    std::fs::write(path("stand_in.py"), STAND_IN).unwrap();
    let port = free_port();
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(["run", &format!("runtime={runtime}"), "model=local"])
        .arg(format!("model.path={}", path("model")))
        .arg(format!(
            "runtime.serving.program=[python3,{}{program}]",
            path("stand_in.py")
        ))
        .arg(format!("runtime.serving.port={port}"))
        .args(["runtime.serving.requests=3", "runtime.warmup=0"])
        .args([
            "infer.max_new_tokens=1",
            "workload.prompt_tokens=4",
            "hydra.run.dir=run",
        ])
        .args(more)
        .current_dir(dir.path())
        .env("STAND_IN_SERVER", SERVER)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(json(&dir.path().join("run/bench.json"))["completed"], 3);
    let child = read(&dir.path().join("child.pid"));
    assert!(!super::runs(&child), "what the server started still runs");
    let said = json(&dir.path().join("said.json"));
    let words = said["words"].as_array().unwrap().iter();
    Started {
        words: words
            .map(|word| word.as_str().unwrap().to_owned())
            .collect(),
        env: said["env"].clone(),
        dir,
        port,
    }
}

const NOT_RUN: &str = "bench.not_run_on_the_real_thing";

#[test]
fn vllm_is_started_with_what_the_config_says() {
    let plain = start("vllm", ",serve", &[]);
    assert_eq!(
        plain.line(),
        "serve MODEL --port PORT --tensor-parallel-size 1"
    );
    assert!(!plain.issues().contains(NOT_RUN));
    let full = start(
        "vllm",
        ",serve",
        &[
            "model.load_format=dummy",
            "model.dtype=fp16",
            "model.max_seq_len=128",
            "runtime.serving.tensor_parallel=2",
            "runtime.serving.extra_args=[--max-num-seqs,8]",
            "+runtime.serving.env.MINE=1",
            "runtime.serving.profile=true",
        ],
    );
    let profiler = json!({
        "profiler": "torch",
        "torch_profiler_dir": "RUN/server/profile",
        "torch_profiler_with_stack": false,
        "detailed_trace_annotation": true,
    });
    assert_eq!(
        full.line(),
        format!(
            "serve MODEL --port PORT --tensor-parallel-size 2 --load-format dummy --dtype float16 --max-model-len 128 \
             --max-num-seqs 8 --profiler-config {profiler}"
        )
    );
    assert_eq!(full.env["MINE"], "1");
    let command = read(&full.dir.path().join("run/server/cmd.txt"));
    assert!(command.contains("--max-num-seqs 8"), "{command}");
}

#[test]
fn sglang_is_started_with_what_the_config_says_and_is_marked() {
    let started = start(
        "sglang",
        ",-m,sglang.launch_server",
        &[
            "model.load_format=dummy",
            "model.dtype=bf16",
            "model.max_seq_len=128",
            "runtime.serving.tensor_parallel=2",
            "runtime.serving.extra_args=[--mem-fraction-static,0.8]",
            "runtime.serving.profile=true",
        ],
    );
    assert_eq!(
        started.line(),
        "-m sglang.launch_server --model-path MODEL --port PORT --tp 2 --load-format dummy --dtype bfloat16 \
         --context-length 128 --enable-metrics --mem-fraction-static 0.8"
    );
    let folder = started.env["SGLANG_TORCH_PROFILER_DIR"].as_str().unwrap();
    assert!(
        Path::new(folder).ends_with("run/server/profile"),
        "{folder}"
    );
    is_marked(&started, "SGLang");
}

#[test]
fn tensorrt_llm_is_started_with_what_the_config_says_and_is_marked() {
    let started = start(
        "tensorrtllm",
        "",
        &[
            "model.load_format=safetensors",
            "model.max_seq_len=128",
            "runtime.serving.tensor_parallel=4",
            "runtime.serving.extra_args=[--backend,pytorch]",
        ],
    );
    assert_eq!(
        started.line(),
        "MODEL --port PORT --tp_size 4 --max_seq_len 128 --backend pytorch"
    );
    is_marked(&started, "TensorRT-LLM");
}

/// Its run and its report say that it was never run on the real thing.
fn is_marked(started: &Started, server: &str) {
    let issues = started.issues();
    assert!(
        issues.contains(NOT_RUN) && issues.contains(server),
        "{issues}"
    );
    let report = read(&started.dir.path().join("run/report.md"));
    assert!(
        report.contains(&format!(
            "runtime for {server}: never run against a real server"
        )),
        "{report}"
    );
}
