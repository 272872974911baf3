//! `llmprof predict`: software, traced models, predictions from runs; `llmprof hardware measure --gpu`.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

/// A Python with torch and transformers; absent where there is none.
fn python() -> Option<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = std::env::var_os("LLMPROF_PYTHON")
        .map_or_else(|| root.join(".venv/bin/python"), PathBuf::from);
    let probe = Command::new(&path)
        .args(["-c", "import torch, transformers"])
        .output();
    let works = probe.is_ok_and(|output| output.status.success());
    let required = std::env::var("LLMPROF_REQUIRE_PYTHON").is_ok_and(|value| value == "1");
    assert!(works || !required, "{}", path.display());
    works.then(|| path.to_string_lossy().into_owned())
}

/// The model of `tiny.json`, as PyTorch runs it on an H200.
const TINY: [&str; 4] = [
    "model=local",
    "model.config=tiny.json",
    "hardware.spec=h200",
    "runtime=pytorch",
];

fn points(folder: &Path, args: &[&str]) -> Vec<Value> {
    let all: Vec<&str> = ["predict", "--format=json"]
        .iter()
        .chain(args)
        .copied()
        .collect();
    let found: Value = serde_json::from_str(&common::works(folder, &all)).unwrap();
    found["points"].as_array().unwrap().clone()
}

/// The runtime chooses the software; a sweep over it has each.
#[test]
fn runtimes_are_predicted_as_their_software_runs() {
    let folder = tempfile::tempdir().unwrap();
    let request = [
        "model=qwen2_5_0_5b",
        "hardware.spec=h200",
        "workload.prompt_tokens=128",
    ];
    let with = |more: &[&str]| {
        let all: Vec<&str> = request.iter().chain(more).copied().collect();
        points(folder.path(), &all)
    };
    let graphs = with(&["runtime=pytorch", "runtime.cuda_graph=false,true"]);
    let compiled = with(&["runtime=pytorch", "runtime.compile=reduce-overhead"]);
    let served = with(&["runtime=vllm"]);
    let named = with(&["runtime=vllm", "--efficiency=hf_eager"]);
    let all: Vec<&Value> = graphs
        .iter()
        .chain(&compiled)
        .chain(&served)
        .chain(&named)
        .collect();
    let names: Vec<&str> = all
        .iter()
        .map(|point| point["efficiencies"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["hf_eager", "hf_graph", "torch_compile", "vllm", "hf_eager"]
    );
    let tpot: Vec<f64> = all
        .iter()
        .map(|point| point["tpot_ns"].as_f64().unwrap())
        .collect();
    // Host-bound, then captured, then fused, then served.
    assert!(
        tpot[0] > 3.0 * tpot[1] && tpot[1] > tpot[2] && tpot[2] > tpot[3],
        "{tpot:?}"
    );
    assert_eq!(all[0]["tpot_ns"], all[4]["tpot_ns"]);
}

/// Lines come in the order of the sweep, whichever thread made them.
#[test]
fn grids_are_the_same_by_many_threads() {
    let folder = tempfile::tempdir().unwrap();
    let text = common::works(
        folder.path(),
        &[
            "predict",
            "--format=csv",
            "hardware.spec=h200",
            "runtime.batch_size=range(1,41)",
            "workload.prompt_tokens=range(64,4224,64)",
        ],
    );
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let (batch, prompt) = (place("batch_size"), place("prompt_tokens"));
    let found: Vec<(u64, u64)> = lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            (
                cells[batch].parse().unwrap(),
                cells[prompt].parse().unwrap(),
            )
        })
        .collect();
    let expected: Vec<(u64, u64)> = (1..41)
        .flat_map(|batch| (1..66).map(move |step| (batch, step * 64)))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn kernels_of_a_device_are_measured_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let missing = common::refused(
        folder.path(),
        &["hardware", "measure", "--gpu", "--python=/no/such/python"],
    );
    assert!(
        missing.contains("cannot measure kernels") && missing.contains("--python"),
        "{missing}"
    );
    let alone = common::refused(folder.path(), &["hardware", "measure", "--quick"]);
    assert!(alone.contains("--gpu"), "{alone}");
    let Some(python) = python() else { return };
    let python = format!("--python={python}");
    let no_gpu = common::refused(
        folder.path(),
        &["hardware", "measure", "--gpu", "--device=cuda:63", &python],
    );
    assert!(
        no_gpu.contains("CUDA device") || no_gpu.contains("there is no device"),
        "{no_gpu}"
    );
    let args = [
        "hardware",
        "measure",
        "--gpu",
        "--quick",
        "--device=cpu",
        "-o",
        "cpu.yaml",
        &python,
    ];
    let said = common::works(folder.path(), &args);
    assert!(
        said.contains("host time of a launch") && said.contains("kept in cpu.yaml"),
        "{said}"
    );
    let shown = common::works(folder.path(), &["hardware", "show", "cpu.yaml", "--json"]);
    let device: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(device["name"], "cpu");
    let text = std::fs::read_to_string(folder.path().join("cpu.curves.json")).unwrap();
    let curves: Value = serde_json::from_str(&text).unwrap();
    assert!(
        curves["source"]
            .as_str()
            .unwrap()
            .contains("hardware measure --gpu")
    );
    assert_eq!(curves["gemm"]["m"], json!([1.0, 16.0]));
}

#[test]
fn models_without_a_family_are_traced_and_said_to_be() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"model_type": "mamba2", "hidden_size": 64, "num_heads": 8, "head_dim": 16, "state_size": 16,
        "num_hidden_layers": 2, "vocab_size": 128, "n_groups": 1, "expand": 2, "chunk_size": 16});
    // Infinity as Python writes it.
    let text = config
        .to_string()
        .replacen('{', "{\"time_step_limit\": [0.0, Infinity],", 1);
    std::fs::write(folder.path().join("tiny.json"), text).unwrap();
    let request = |python: &str| {
        [
            "model=local",
            "model.config=tiny.json",
            "hardware.spec=h200",
            "runtime=pytorch",
            "workload.prompt_tokens=32",
        ]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("runtime.python={python}")])
        .collect::<Vec<String>>()
    };
    let own = request(&python);
    let mut args: Vec<&str> = own.iter().map(String::as_str).collect();
    args.push("runtime.batch_size=1,4");
    let found = points(folder.path(), &args);
    for point in &found {
        assert_eq!(point["family"], "traced");
        assert!(point["decode_step_gpu_low_ns"].as_i64() < point["decode_step_gpu_ns"].as_i64());
        assert_eq!(point["weights_bytes"], 2 * 72_752);
    }
    assert!(found[1]["prefill_gpu_ns"].as_i64() > found[0]["prefill_gpu_ns"].as_i64());
    let other = request("/no/such/python");
    let mut args: Vec<&str> = other.iter().map(String::as_str).collect();
    args.insert(0, "predict");
    let refused = common::refused(folder.path(), &args);
    assert!(
        refused.contains("mamba2") && refused.contains("runtime.python=PATH"),
        "{refused}"
    );
}

/// A family counts them; what transformers launches for them in eager mode is traced, and nothing stands in for a trace.
#[test]
fn gated_delta_models_are_traced_in_eager_mode_alone() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"model_type": "qwen3_5_text", "dtype": "bfloat16", "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 96, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 12, "max_position_embeddings": 256,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 0], "partial_rotary_factor": 0.25}});
    std::fs::write(folder.path().join("tiny.json"), config.to_string()).unwrap();
    let point = |python: &str, efficiency: &str| {
        let python = format!("runtime.python={python}");
        let own = [&python, "--efficiency", efficiency];
        points(folder.path(), &[&TINY[..], &own].concat())[0].clone()
    };
    let eager = point(&python, "hf_eager");
    assert_eq!(eager["family"], "traced");
    assert!(eager["decode_step_gpu_low_ns"].is_i64(), "{eager}");
    // The same weights, traced and counted.
    let served = point("/no/such/python", "vllm");
    assert_eq!(served["family"], "qwen3_5_text");
    assert_eq!(served["calibration"], "public_tables");
    assert_eq!(served["weights_bytes"], eager["weights_bytes"]);
    for (python, efficiency) in [
        ("/no/such/python", "hf_eager"),
        (python.as_str(), "hf_graph"),
    ] {
        let python = format!("runtime.python={python}");
        let own = [&python, "--efficiency", efficiency];
        let refused = common::refused(folder.path(), &[&["predict"][..], &TINY[..], &own].concat());
        assert!(refused.contains("known from a trace"), "{refused}");
    }
}

/// Families know the kernels of the default attention; those of another are traced, and the default stands in where they cannot be.
#[test]
fn attention_other_than_the_default_is_traced() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1024, "max_position_embeddings": 2048});
    std::fs::write(folder.path().join("tiny.json"), config.to_string()).unwrap();
    let found = |python: &str| {
        let python = format!("runtime.python={python}");
        let own = [
            "workload.prompt_tokens=1024",
            "runtime.attn_implementation=sdpa,eager",
            &python,
        ];
        points(folder.path(), &[&TINY[..], &own].concat())
    };
    let [default, eager] = found(&python).try_into().unwrap();
    assert_eq!(
        (&default["family"], &eager["family"]),
        (&json!("llama"), &json!("traced"))
    );
    // Scores are tensors, read and written by many kernels.
    assert!(eager["prefill_gpu_ns"].as_i64() > default["prefill_gpu_ns"].as_i64());
    let [same, stood_in] = found("/no/such/python").try_into().unwrap();
    assert_eq!(same["prefill_gpu_ns"], default["prefill_gpu_ns"]);
    assert_eq!(stood_in["prefill_gpu_ns"], default["prefill_gpu_ns"]);
}

/// A run of the native engine says how fast this CPU is with it: the same request is predicted as it was measured.
#[test]
fn a_run_corrects_predictions() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1024, "max_position_embeddings": 512});
    std::fs::write(folder.path().join("tiny.json"), config.to_string()).unwrap();
    common::works(
        folder.path(),
        &[
            "run",
            "model=local",
            "model.config=tiny.json",
            "model.dtype=f32",
            "workload.prompt_tokens=32",
            "infer.max_new_tokens=16",
            "runtime.repeats=3",
            "hydra.run.dir=run",
            "hardware.spec=xeon_8480",
        ],
    );
    let metrics = std::fs::read_to_string(folder.path().join("run/metrics.json")).unwrap();
    let metrics: Value = serde_json::from_str(&metrics).unwrap();
    let args = [
        "predict",
        "--from=run",
        "hardware.spec=xeon_8480",
        "runtime.batch_size=1,4",
        "--format=json",
    ];
    let found: Value = serde_json::from_str(&common::works(folder.path(), &args)).unwrap();
    let note = found["notes"][0].as_str().unwrap();
    assert!(note.contains("from run, measured ÷ predicted"), "{note}");
    let points = found["points"].as_array().unwrap();
    assert_eq!(points[0]["prompt_tokens"], 32, "{found}");
    // The device that the run was judged by need not be named again.
    let unnamed = args.map(|word| word.replace("xeon_8480", "auto"));
    let unnamed: Vec<&str> = unnamed.iter().map(String::as_str).collect();
    let again: Value = serde_json::from_str(&common::works(folder.path(), &unnamed)).unwrap();
    assert_eq!(again["points"][1]["tpot_ns"], points[1]["tpot_ns"]);
    let tpot = points[0]["tpot_ns"].as_f64().unwrap();
    let measured = metrics["latency"]["tpot_ns"]["mean"].as_f64();
    if let Some(measured) = measured {
        // The captured pass and the plain ones differ.
        assert!((0.4..2.5).contains(&(tpot / measured)), "{tpot} {measured}");
    }
    let none = common::refused(
        folder.path(),
        &["predict", "--from=nowhere", "hardware.spec=h200"],
    );
    assert!(none.contains("nowhere"), "{none}");
}

/// What cannot be predicted is no answer: exit 2 and why, in every format. Tables are bounded; CSV is printed as it comes.
#[test]
fn a_grid_without_a_prediction_fails() {
    let folder = tempfile::tempdir().unwrap();
    let absurd = [
        "predict",
        "model=llama3_1_8b",
        "hardware.spec=h200",
        "workload.prompt_tokens=1000000000000000000",
    ];
    for format in ["table", "csv", "json"] {
        let output = common::llmprof(
            folder.path(),
            &[&absurd[..], &["--format", format]].concat(),
        );
        assert_eq!(output.status.code(), Some(2), "{format}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("workload.prompt_tokens"), "{format}: {said}");
    }
    let one_of_two = ["workload.prompt_tokens=8,1000000000000000000"];
    let output = common::llmprof(folder.path(), &[&absurd[..3], &one_of_two].concat());
    assert_eq!(output.status.code(), Some(0));
}

/// Each combination of such keys is composed before the first point: a hundred thousand take a minute.
#[test]
fn combinations_that_would_be_composed_for_long_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let said = common::refused(
        folder.path(),
        &[
            "predict",
            "model=llama3_1_8b",
            "hardware.spec=h200",
            "model.hidden_size=range(64,3264,64)",
            "model.intermediate_size=range(64,3264,64)",
            "model.vocab_size=range(1000,51000,1000)",
        ],
    );
    assert!(said.contains("125000 combinations"), "{said}");
    assert!(said.contains("at most 100000"), "{said}");
}
