//! `llmprof predict`: software, traced models, predictions from runs; `llmprof hardware measure --gpu`.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// A Python with torch and transformers.
fn python() -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = std::env::var_os("LLMPROF_PYTHON")
        .map_or_else(|| root.join(".venv/bin/python"), PathBuf::from);
    path.to_string_lossy().into_owned()
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
    let grid: Value = serde_json::from_str(&common::works(folder, &all)).unwrap();
    grid["points"].as_array().unwrap().clone()
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
    let sizes: Vec<(u64, u64)> = lines
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
    assert_eq!(sizes, expected);
}

#[test]
#[ignore = "live: needs torch and transformers"]
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
    let python = python();
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
#[ignore = "live: needs torch and transformers"]
fn models_without_a_family_are_traced_and_said_to_be() {
    let python = python();
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
    let points = points(folder.path(), &args);
    for point in &points {
        assert_eq!(point["family"], "traced");
        assert!(point["decode_step_gpu_low_ns"].as_i64() < point["decode_step_gpu_ns"].as_i64());
        assert_eq!(point["weights_bytes"], 2 * 72_752);
    }
    assert!(points[1]["prefill_gpu_ns"].as_i64() > points[0]["prefill_gpu_ns"].as_i64());
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
#[ignore = "live: needs torch and transformers"]
fn gated_delta_models_are_traced_in_eager_mode_alone() {
    let python = python();
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
#[ignore = "live: needs torch and transformers"]
fn attention_other_than_the_default_is_traced() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1024, "max_position_embeddings": 2048});
    std::fs::write(folder.path().join("tiny.json"), config.to_string()).unwrap();
    let predicted = |python: &str| {
        let python = format!("runtime.python={python}");
        let own = [
            "workload.prompt_tokens=1024",
            "runtime.attn_implementation=sdpa,eager",
            &python,
        ];
        points(folder.path(), &[&TINY[..], &own].concat())
    };
    let [default, eager] = predicted(&python).try_into().unwrap();
    assert_eq!(
        (&default["family"], &eager["family"]),
        (&json!("llama"), &json!("traced"))
    );
    // Scores are tensors, read and written by many kernels.
    assert!(eager["prefill_gpu_ns"].as_i64() > default["prefill_gpu_ns"].as_i64());
    let [same, stood_in] = predicted("/no/such/python").try_into().unwrap();
    assert_eq!(same["prefill_gpu_ns"], default["prefill_gpu_ns"]);
    assert_eq!(stood_in["prefill_gpu_ns"], default["prefill_gpu_ns"]);
}

/// The same request is predicted as the plain passes measured it: with the profiled pass, it was half as long again.
#[test]
fn a_run_corrects_predictions() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = PathBuf::from(fixture("h200/runs/eager05"));
    let wire = recorded.join("cupti.wire.gz");
    let import = ["import", "-o=run", wire.to_str().unwrap()];
    common::works(folder.path(), &import);
    let run = folder.path().join("run");
    std::fs::copy(recorded.join("record.json"), run.join("record.json")).unwrap();
    common::works(folder.path(), &["analyze", "run"]);
    let analysis = std::fs::read_to_string(run.join("analysis.json")).unwrap();
    let analysis: Value = serde_json::from_str(&analysis).unwrap();
    let predicted = |device: &str| {
        let words = [
            "predict",
            "--from=run",
            device,
            "runtime.batch_size=1,4",
            "--format=json",
        ];
        let grid: Value = serde_json::from_str(&common::works(folder.path(), &words)).unwrap();
        grid
    };
    let grid = predicted("hardware.spec=h200");
    let note = grid["notes"][0].as_str().unwrap();
    assert!(note.contains("measured without a profiler"), "{note}");
    assert!(note.contains("Measured ÷ predicted on h200"), "{note}");
    // Errors of predictions that start from no run are not theirs.
    assert_eq!(grid["held_out"], Value::Null);
    let point = &grid["points"][0];
    assert_eq!(
        [&point["prompt_tokens"], &point["new_tokens"]],
        [128, 16],
        "{grid}"
    );
    for (time, phase, steps) in [("ttft_ns", "prefill", 1.0), ("tpot_ns", "decode", 15.0)] {
        let mut phases = analysis["phases"].as_array().unwrap().iter();
        let found = phases.find(|one| one["phase"] == phase).unwrap();
        let measured = found["plain_wall_ns"].as_f64().unwrap() / steps;
        let off = point[time].as_f64().unwrap() / measured - 1.0;
        assert!(off.abs() < 0.02, "{time}: {off}");
    }
    // The device that the run was judged by need not be named again.
    assert_eq!(predicted("hardware.spec=auto")["points"], grid["points"]);
    // On another device the run's factors hold, and no error is known.
    let other = &predicted("hardware.spec=b200")["points"][0];
    assert_ne!(other["prefill_gpu_ns"], point["prefill_gpu_ns"]);
    assert_eq!(other["prefill_gpu_low_ns"], Value::Null);
    let none = common::refused(
        folder.path(),
        &["predict", "--from=nowhere", "hardware.spec=h200"],
    );
    assert!(none.contains("nowhere"), "{none}");
}

/// An import in `folder/NAME`, and the first row of what is predicted from it, with its notes.
fn predicted_from(folder: &Path, name: &str, import: &[&str], more: &[&str]) -> (Value, String) {
    if !folder.join(name).exists() {
        let words = [&["import", "-o", name], import].concat();
        common::works(folder, &words);
    }
    let from = format!("--from={name}");
    let words = [&["predict", "--format=json", &from], more].concat();
    let grid: Value = serde_json::from_str(&common::works(folder, &words)).unwrap();
    let note = grid["notes"][0].as_str().unwrap().to_owned();
    (grid["points"][0].clone(), note)
}

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    path.join(name).to_string_lossy().into_owned()
}

/// Prefill was half of what was measured where the first of two was left out, and times had the profiler's cost in them.
#[test]
fn a_prediction_of_the_request_of_a_trace_is_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    for (name, file) in [
        ("nsys", "h200/nsys/qwen05.sqlite.gz"),
        ("kineto", "h200/torch_full.json.gz"),
    ] {
        let file = fixture(file);
        let import = [
            file.as_str(),
            "model=qwen2_5_0_5b",
            "workload.prompt_tokens=128",
        ];
        // The device is that of the trace.
        let (point, note) = predicted_from(folder.path(), name, &import, &[]);
        assert_eq!(point["device"], "h200");
        assert!(note.contains("less the profiler's cost"), "{note}");
        let text = std::fs::read_to_string(folder.path().join(name).join("analysis.json")).unwrap();
        let analysis: Value = serde_json::from_str(&text).unwrap();
        let replay = |phase: &str| {
            let mut replays = analysis["replays"].as_array().unwrap().iter();
            replays.find(|one| one["phase"] == phase).unwrap()["plain_ns"]
                .as_f64()
                .unwrap()
        };
        for (time, phase) in [("ttft_ns", "prefill"), ("tpot_ns", "decode")] {
            let off = point[time].as_f64().unwrap() / replay(phase) - 1.0;
            assert!(off.abs() < 0.01, "{name} {time}: {off}");
        }
        // The time of the host is that of this run: the range of all hosts does not hold.
        assert_eq!(point["tpot_low_ns"], Value::Null);
    }
}

/// The model of `import --config` and the request of the trace were those of the default config.
#[test]
fn a_prediction_from_a_run_is_of_its_model_and_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, config) = (
        fixture("faults/control.json.gz"),
        fixture("faults/config.json"),
    );
    let import = [trace.as_str(), "--config", config.as_str()];
    let (own, _) = predicted_from(folder.path(), "run", &import, &[]);
    assert_eq!(own["model"], "local");
    assert_eq!([&own["batch_size"], &own["prompt_tokens"]], [4, 512]);
    let prefill_ms = own["prefill_gpu_ns"].as_f64().unwrap() / 1e6;
    assert!((6.3..6.6).contains(&prefill_ms), "{prefill_ms}");
    // Either name of a key replaces the run's value.
    for key in ["workload.batch_size=8", "runtime.batch_size=8"] {
        let (more, _) = predicted_from(folder.path(), "run", &import, &[key]);
        assert_eq!(
            [&more["batch_size"], &more["prompt_tokens"]],
            [8, 512],
            "{key}"
        );
    }
    let half = ["model.num_hidden_layers=5"];
    let (half, _) = predicted_from(folder.path(), "run", &import, &half);
    let ratio = half["prefill_gpu_ns"].as_f64().unwrap() / prefill_ms / 1e6;
    assert!((0.45..0.7).contains(&ratio), "{ratio}");
}

/// Factors were cut at 10, and the prediction was 20 and 37 times too short.
#[test]
fn a_run_of_something_else_is_no_start() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("h200/torch_full.json.gz");
    let import = ["import", &trace, "model=llama3_1_70b", "-o", "run"];
    common::works(folder.path(), &import);
    let said = common::refused(folder.path(), &["predict", "--from=run"]);
    assert!(
        said.contains("times as long as predicted in prefill"),
        "{said}"
    );
}

/// What cannot be predicted is no answer: exit 2 and why, in every format. Tables are bounded; CSV is printed as it comes.
/// The verdict on a target was of the first step, the table of the mean step.
#[test]
fn a_target_is_judged_by_the_time_in_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "model=llama3_1_8b",
        "hardware.spec=rtx_4090",
        "--efficiency=vllm",
        "--tpot=3ms",
        "--ttft=1ms",
        "infer.max_new_tokens=512",
    ];
    let point = &points(folder.path(), &words)[0];
    let said = common::works(folder.path(), &[&["predict"], &words[..]].concat());
    for time in ["ttft_ns", "tpot_ns"] {
        let predicted = llmprof_units::Nanos(point[time].as_i64().unwrap());
        let judged = format!("(not met: {predicted} predicted");
        assert!(said.contains(&judged), "{judged}: {said}");
    }
    let unchecked =
        "Times on rtx_4090 are scaled by its peaks from those of another GPU and were not checked";
    assert!(said.contains(unchecked), "{said}");
}

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

/// Composing takes a fraction of a millisecond: a grid is counted before that.
#[test]
fn a_grid_is_bounded_before_it_is_composed() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |words: &[&str]| common::refused(folder.path(), words);
    let model = ["predict", "model=llama3_1_8b", "hardware.spec=h200"];
    let said = refused(&[&model[..], &["workload.prompt_tokens=range(1,10002)"]].concat());
    let why = "workload.prompt_tokens has too many values: 10001 requests would be composed, at most 10000 are";
    assert!(
        said.contains(why) && said.contains("fewer values"),
        "{said}"
    );
    let together = [
        "model.hidden_size=range(1024,13824,128)",
        "model.intermediate_size=range(1024,13824,128)",
    ];
    let said = refused(&[&model[..], &together].concat());
    let why =
        "model.hidden_size and model.intermediate_size change the same settings: 10200 requests";
    assert!(said.contains(why), "{said}");
    let apart = [
        "workload.prompt_tokens=range(1,101)",
        "runtime.batch_size=range(1,101)",
        "infer.max_new_tokens=range(1,12)",
    ];
    let said = refused(&[&model[..], &apart].concat());
    assert!(
        said.contains("110000 points are more than a table holds") && said.contains("--format csv"),
        "{said}"
    );
    let sweep = [
        "run",
        "-m",
        "runtime=none",
        "workload.prompt_tokens=range(1,10002)",
    ];
    let said = refused(&sweep);
    let why = "the sweep has 10001 jobs, at most 10000 are composed at once";
    assert!(
        said.contains(why) && said.contains("fewer values"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
