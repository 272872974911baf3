//! The PyTorch runtime from the command line, on the CPU: what a run leaves, and what is refused before it starts.
//!
//! Tests that run a model need torch and transformers (`LLMPROF_PYTHON`, default `.venv`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compiled;
mod pages;
mod pairs;
mod ranks;
mod vendor;
mod weights;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

const TINY: &str = r#"{"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": true,
    "use_sliding_window": false, "max_position_embeddings": 128}"#;

fn run(folder: &Path, more: &[&str]) -> Output {
    run_with(folder, &[], more)
}

/// A run with more in its environment.
fn run_with(folder: &Path, environment: &[(&str, &str)], more: &[&str]) -> Output {
    fs::write(folder.join("tiny.json"), TINY).unwrap();
    Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .envs(environment.iter().copied())
        .args([
            "run",
            "runtime=pytorch",
            "model=local",
            "model.config=tiny.json",
            "model.dtype=f32",
        ])
        // The device is named, so that nothing is measured first.
        .args(["hardware.spec=xeon_8480", "hydra.run.dir=out"])
        .args(more)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The codes of the issues in a file of a run.
fn issues(text: &str) -> Vec<String> {
    let manifest: Value = serde_json::from_str(text).unwrap();
    let issues = manifest["issues"].as_array().unwrap().iter();
    issues
        .map(|issue| issue["code"].as_str().unwrap().to_owned())
        .collect()
}

/// The interpreter of the worker, by its absolute path: a virtual environment is known by it, not by what it links to.
fn python() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = std::env::var_os("LLMPROF_PYTHON")
        .map_or_else(|| root.join(".venv/bin/python"), PathBuf::from);
    let path = std::path::absolute(path).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn a_run_is_as_complete_as_a_native_one() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        folder.path(),
        &[
            &format!("runtime.python={python}"),
            "runtime.warmup=1",
            "runtime.repeats=2",
            "runtime.threads=1",
            "workload.prompt_tokens=8",
            "infer.max_new_tokens=6",
            "pipeline.torch_profiler.active_steps=3",
            "pipeline.torch_profiler.repeat=2",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let out = folder.path().join("out");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap_or_else(|_| panic!("{name}"));
    let analysis: Value = serde_json::from_str(&read("analysis.json")).unwrap();
    let phases = analysis["phases"].as_array().unwrap();
    let names: Vec<_> = phases
        .iter()
        .map(|phase| phase["phase"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["prefill", "decode"]);
    for phase in phases {
        let part = |name: &str| phase["waterfall"][name].as_i64().unwrap();
        let parts =
            part("roofline_ns") + part("inefficiency_ns") + part("extra_ns") + part("copies_ns");
        let rest = part("unattributed_ns") + part("idle_ns") - part("overlap_ns");
        assert_eq!(parts + rest, part("wall_ns"));
        assert!(part("roofline_ns") > 0);
        let missing = phase["missing"].as_array().unwrap();
        assert!(
            missing.is_empty(),
            "every operator that is counted is in the trace: {missing:?}"
        );
    }
    // The recorded batch ends after three steps; the plain ones have all five.
    let operators = read("operators.csv");
    let calls = |operator: &str| {
        let row = operators
            .lines()
            .find(|line| line.starts_with(operator))
            .unwrap();
        row.split(',').nth(4).unwrap().to_owned()
    };
    assert_eq!(
        calls("decode,model.layers.*.self_attn.q_proj,linear,f32,"),
        "6"
    );
    assert_eq!(calls("decode,lm_head,linear,f32,"), "3");
    let times = read("token_times.csv");
    assert_eq!(
        times
            .lines()
            .filter(|line| line.contains(",plain,"))
            .count(),
        2 * 6
    );
    assert_eq!(
        times
            .lines()
            .filter(|line| line.contains(",captured,"))
            .count(),
        4
    );

    let traces = fs::read_dir(out.join("torch_profiler")).unwrap();
    let traces = traces.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".pt.trace.json")
    });
    assert_eq!(traces.count(), 2);
    let text = read("report.md");
    let overhead: Value = serde_json::from_str(&read("torch_profiler/overhead.json")).unwrap();
    // What recording cost is one figure, wherever it is reported: of the first batch's three recorded steps.
    for phase in phases {
        let name = phase["phase"].as_str().unwrap();
        let ratio = phase["capture_ratio"].as_f64().unwrap();
        let reported = overhead[name]["ratio"].as_f64().unwrap();
        assert!(
            (reported / ratio - 1.0).abs() < 1e-9,
            "{name}: {reported} {ratio}"
        );
        let captured = &phase["waterfall"]["wall_ns"];
        assert_eq!(&overhead[name]["captured_ns"], captured);
        let decimals = if ratio < 9.995 { 2 } else { 1 };
        assert!(
            text.contains(&format!("{name} {ratio:.decimals$}×")),
            "{ratio}: {text}"
        );
    }
    let env: Value = serde_json::from_str(&read("env.json")).unwrap();
    assert_eq!(env["worker"]["model_class"], "Qwen2ForCausalLM");
    assert!(read("ops.csv").contains("aten::addmm"));
    assert!(read("report.md").contains(
        "Operators and shapes are from a separate torch.profiler pass. Its wall time ÷ mean of "
    ));
    for name in [
        "trace.llmprof",
        "report.html",
        "metrics.json",
        "plots/waterfall_decode.svg",
        "operators.md",
    ] {
        assert!(out.join(name).is_file(), "{name}");
    }
    assert!(!out.join("kernels.csv").exists() && !out.join("allocator.json").exists());
}

/// Transformers runs more families than can be counted: such a run has its latencies and its operators, and says what it
/// lacks.
#[test]
#[ignore = "live: needs torch and transformers"]
fn a_family_that_cannot_be_counted_runs_all_the_same() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let python = format!("runtime.python={python}");
    let more = [
        python.as_str(),
        "+model.model_type=olmo2",
        "runtime.warmup=1",
        "runtime.repeats=1",
        "runtime.threads=1",
        "workload.prompt_tokens=8",
        "infer.max_new_tokens=3",
    ];
    let output = run(folder.path(), &more);
    assert!(output.status.success(), "{}", stderr(&output));
    let out = folder.path().join("out");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap_or_else(|_| panic!("{name}"));
    let lacks = "model.uncounted".to_owned();
    assert!(issues(&read("run.json")).contains(&lacks));
    assert!(!issues(&read("analysis.json")).contains(&"run.no_model".to_owned()));
    assert!(read("ops.csv").contains("aten::"));
    let metrics: Value = serde_json::from_str(&read("metrics.json")).unwrap();
    assert!(
        metrics["aggregates"]["ttft_ms"]["mean"].as_f64().unwrap() > 0.0,
        "{metrics}"
    );
    assert!(!out.join("static_compute.md").exists());
    // No sentence may rest on what was not counted.
    let reported = ["report.md", "report.html", "operators.md"].map(read);
    let reported = reported.join("\n") + &String::from_utf8_lossy(&output.stdout);
    for words in [
        "no operator needs",
        "of the model needs",
        "no operator of the model",
        "no model was named",
        "without a device",
        "MFU =",
        "Kernel inefficiency",
        "KV cache",
    ] {
        assert!(!reported.contains(words), "{words}: {reported}");
    }
    assert!(read("report.md").contains("Batch 1, prompt 8 tokens, 3 new tokens."));

    let again = |command: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(folder.path())
            .args([command, "out"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", stderr(&output));
    };
    again("analyze");
    assert!(issues(&read("analysis.json")).contains(&lacks));
    again("report");

    // Without any profiler only times are left.
    let more = [
        more.as_slice(),
        &["pipeline.torch_profiler.enable=false", "hydra.run.dir=bare"],
    ];
    let output = run(folder.path(), &more.concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = fs::read_to_string(folder.path().join("bare/report.md")).unwrap();
    assert!(
        report.contains("model type `olmo2` is not supported") && report.contains("TTFT "),
        "{report}"
    );
}

/// A known family with a value that theory has no cost for is one more model that cannot be counted.
#[test]
#[ignore = "live: needs torch and transformers"]
fn a_design_that_cannot_be_counted_runs_all_the_same() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let python = format!("runtime.python={python}");
    let more = [
        python.as_str(),
        "+model.hidden_act=mish",
        "runtime.warmup=0",
        "runtime.repeats=1",
        "runtime.threads=1",
        "workload.prompt_tokens=8",
        "infer.max_new_tokens=2",
    ];
    let output = run(folder.path(), &more);
    assert!(output.status.success(), "{}", stderr(&output));
    let reported = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
    let words = r#"`hidden_act` is "mish"; llmprof counts silu, gelu"#;
    assert!(
        reported.contains(words) && reported.contains("TTFT "),
        "{reported}"
    );
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .args(["analyze", "out"])
        .output()
        .unwrap();
    assert!(stderr(&output).contains(words), "{}", stderr(&output));
}

/// Whatever is named in place of an interpreter, the message says what it did and what to name instead.
#[test]
fn what_is_no_interpreter_fails_the_run_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("python2");
    // What Python 2 says of the worker's first file.
    let words = "SyntaxError: future feature annotations is not defined";
    fs::write(&old, format!("#!/bin/sh\necho '{words}' >&2\nexit 1\n")).unwrap();
    fs::set_permissions(&old, PermissionsExt::from_mode(0o755)).unwrap();
    let place = folder.path().to_string_lossy().into_owned();
    let cases = [
        ("no-such-python", "no such program"),
        ("/no/such/python", "no such program"),
        (place.as_str(), "it is a directory"),
        ("/bin/true", "it ended (exit code 0) and wrote nothing"),
        ("/bin/false", "it ended (exit code 1) and wrote nothing"),
        // It reads the directory of the worker.
        ("/bin/cat", "it ended (exit code 1)"),
        (&old.to_string_lossy(), words),
    ];
    for (number, (program, happened)) in cases.into_iter().enumerate() {
        let dir = format!("out_{number}");
        let output = run(
            folder.path(),
            &[
                &format!("runtime.python={program}"),
                &format!("hydra.run.dir={dir}"),
            ],
        );
        assert_eq!(output.status.code(), Some(2));
        let text = stderr(&output);
        let text = text.replace('│', " ");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let advice = "was to be a Python interpreter; runtime.python=PATH names one of Python 3 with torch and transformers";
        for words in [happened, &format!("hint: `{program}` {advice}")] {
            assert!(text.contains(words), "{program}: {text}");
        }
        let manifest = folder.path().join(dir).join("run.json");
        let manifest = fs::read_to_string(manifest).unwrap();
        assert!(manifest.contains("\"failed\""));
    }
}

/// Importing torch takes many seconds: a GPU that the machine does not have is refused before. The torch here fails if it is imported.
#[test]
#[ignore = "live: needs a machine without a GPU"]
fn an_absent_gpu_is_refused_before_torch_is_imported() {
    let folder = tempfile::tempdir().unwrap();
    let torch = folder.path().join("site/torch");
    fs::create_dir_all(&torch).unwrap();
    fs::write(torch.join("__init__.py"), "raise SystemExit('imported')\n").unwrap();
    let site = folder.path().join("site").display().to_string();
    let run_on = |device: &str| {
        let python = ["runtime.python=python3", device];
        let output = run_with(folder.path(), &[("PYTHONPATH", &site)], &python);
        assert_eq!(output.status.code(), Some(2));
        let words = stderr(&output);
        fs::remove_dir_all(folder.path().join("out")).unwrap();
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = run_on("device=cuda:0");
    for words in ["device=cuda:0 needs a GPU", "device=cpu", "llmprof doctor"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let said = run_on("device=cpu");
    assert!(!said.contains("needs a GPU"), "{said}");
}

#[test]
fn mistakes_are_reported_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    for (overrides, words) in [
        (vec!["runtime.cuda_graph=true"], "device=cuda:N"),
        (vec!["runtime.compile=reduce-overhead"], "device=cuda:N"),
        (
            vec![
                "device=cuda:0",
                "runtime.cuda_graph=true",
                "runtime.compile=reduce-overhead",
            ],
            "choose one of the two",
        ),
        (vec!["runtime.compile=fast"], "reduce-overhead"),
        (vec!["workload.dtype=fp8"], "bf16"),
        (vec!["workload.chunk_tokens=4"], "prefills a prompt at once"),
        (
            vec!["pipeline.torch_profiler.activities=[cuda]"],
            "device=cuda:N",
        ),
        (vec!["pipeline.torch_profiler.active_steps=0"], "at least 1"),
        (vec!["pipeline.torch_profiler.preset=huge"], "preset"),
        (vec!["runtime.repeats=0"], "at least 1"),
        (vec!["runtime.threads=100000"], "between 1 and 4096"),
        (vec!["model.load_format=safetensors"], "model.path"),
        // What nobody could run, unlike what is only not counted.
        (
            vec!["+model.num_hidden_layers=0"],
            "`num_hidden_layers` is 0",
        ),
        (vec!["+model.head_dim=wide"], "`head_dim` is \"wide\""),
    ] {
        let output = run(folder.path(), &overrides);
        assert_eq!(output.status.code(), Some(2), "{overrides:?}");
        let text = stderr(&output);
        assert!(text.contains(words), "{overrides:?}: {text}");
        assert!(!folder.path().join("out").exists(), "{overrides:?}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .args([
            "run",
            "runtime=native",
            "pipeline.torch_profiler.enable=true",
        ])
        .output()
        .unwrap();
    assert!(stderr(&output).contains("runtime=pytorch"));
}
