//! The commands as a user runs them: output, errors, exit codes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

const LLMPROF: &str = env!("CARGO_BIN_EXE_llmprof");

fn llmprof(folder: &Path, args: &[&str]) -> Output {
    Command::new(LLMPROF)
        .current_dir(folder)
        .args(args)
        .env("NO_COLOR", "1")
        // No measured device of the machine at hand: every run here sees the same.
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .output()
        .unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Standard output of a command that must succeed.
fn stdout(folder: &Path, args: &[&str]) -> String {
    let output = llmprof(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a command that must fail with code 2 and print nothing else.
fn stderr(folder: &Path, args: &[&str]) -> String {
    let output = llmprof(folder, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn mistakes_are_shown_where_they_were_made() {
    let folder = folder();
    let cases: [(&str, &[&str]); 11] = [
        ("unknown_key", &["run", "workload.promt_tokens=3"]),
        ("wrong_type", &["run", "runtime.batch_size=many"]),
        (
            "interpolated_wrong_type",
            &["run", "infer.max_new_tokens=inf"],
        ),
        ("unknown_option", &["run", "hardware=cpu"]),
        ("added_key", &["run", "+workload.colour=red"]),
        (
            "impossible",
            &[
                "run",
                "runtime.batch_size=0",
                "infer.do_sample=true",
                "infer.temperature=0",
            ],
        ),
        ("not_yet", &["run", "device=cuda:0", "dataset.root=data"]),
        (
            "nothing_to_do",
            &[
                "run",
                "runtime=none",
                "pipeline.static_analysis.enable=false",
            ],
        ),
        ("broken_override", &["run", "model.name='open"]),
        (
            "contradictory_design",
            &["model", "model.num_key_value_heads=3"],
        ),
        ("unknown_device", &["model", "hardware.spec=h300"]),
    ];
    for (name, args) in cases {
        insta::assert_snapshot!(name, stderr(folder.path(), args));
    }
    assert!(
        !folder.path().join("runs").exists(),
        "a mistake leaves nothing behind"
    );
}

/// `record` hands on its command's exit code, so that its own mistakes have another one.
#[test]
fn usage_errors_have_their_exit_codes() {
    let folder = folder();
    for (args, code) in [
        (&["run", "--no-such-option"][..], 2),
        (&["record", "--no-such-option", "--", "true"], 125),
        (&["record", "--for", "0s", "--", "true"], 125),
        (
            &["record", "--for", "99999999999999999999s", "--", "true"],
            125,
        ),
        (
            &[
                "run",
                "runtime=command",
                "runtime.argv=[true]",
                "runtime.timeout_s=1e300",
            ],
            2,
        ),
        (&["record"], 125),
        (&["record", "--help"], 0),
        (&[], 2),
    ] {
        let output = llmprof(folder.path(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_project_tree_comes_before_the_built_in_one() {
    let folder = folder();
    let conf = folder.path().join("conf");
    fs::create_dir_all(conf.join("workload")).unwrap();
    let defaults = "defaults: [{hydra: default}, {model: gpt2}, {dataset: synthetic}, {runtime: none}, {workload: mine}, \
                    {hardware: auto}, {profiling: minimal}, {output: default}, _self_]\n";
    let rest = "experiment: mine\ndevice: cpu\ninfer: {max_new_tokens: 4, do_sample: false, temperature: 1.0, no_repeat_ngram_size: 0}\n";
    fs::write(conf.join("config.yaml"), format!("{defaults}{rest}")).unwrap();
    fs::write(
        conf.join("workload/mine.yaml"),
        "defaults: [default, _self_]\nprompt_tokens: 7\n",
    )
    .unwrap();
    let text = stdout(
        folder.path(),
        &["config", "--package", "workload", "--resolve"],
    );
    assert!(
        text.contains("prompt_tokens: 7") && text.contains("new_tokens: 4"),
        "{text}"
    );
    let mistake = stderr(folder.path(), &["run", "workload.prompt_tokens=-1"]);
    assert!(mistake.contains("workload.prompt_tokens"), "{mistake}");
}

#[test]
fn a_mistake_in_a_file_names_the_file() {
    let folder = folder();
    let extra = folder.path().join("extra/hardware");
    fs::create_dir_all(&extra).unwrap();
    fs::write(extra.join("odd.yaml"), "device_index: 0\nspec: auto\n").unwrap();
    let shown = stderr(
        folder.path(),
        &["run", "--config-dir", "extra", "hardware=odd"],
    );
    assert!(
        shown.contains("odd.yaml:1:15")
            && shown.contains("hardware.device_index")
            && shown.contains("device=cuda:N"),
        "{shown}"
    );
}

/// The built-in file that passes the value on was shown instead.
#[test]
fn a_mistake_that_another_file_passes_on_names_the_file_of_the_user() {
    let folder = folder();
    let conf = folder.path().join("conf");
    fs::create_dir_all(&conf).unwrap();
    let defaults = "defaults: [{hydra: default}, {model: gpt2}, {dataset: synthetic}, {runtime: none}, {workload: default}, \
                    {hardware: auto}, {profiling: minimal}, {output: default}, _self_]\n";
    let rest = "experiment: mine\ndevice: cpu\ninfer: {max_new_tokens: thirty, do_sample: false, temperature: 1.0, no_repeat_ngram_size: 0}\n";
    fs::write(conf.join("config.yaml"), format!("{defaults}{rest}")).unwrap();
    let shown = stderr(folder.path(), &["run"]);
    assert!(shown.contains("conf/config.yaml:4:25"), "{shown}");
    assert!(!shown.contains("workload/default.yaml"), "{shown}");
    // What a command line says comes before the file.
    let shown = stderr(folder.path(), &["run", "infer.max_new_tokens=many"]);
    assert!(shown.contains("command line"), "{shown}");
}

#[test]
fn every_shipped_model_is_analyzed() {
    let folder = folder();
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf/model");
    let mut count = 0;
    for entry in fs::read_dir(conf).unwrap() {
        let name = entry
            .unwrap()
            .path()
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        if ["base", "local"].contains(&name.as_str()) {
            continue;
        }
        count += 1;
        let model = format!("model={name}");
        let text = stdout(
            folder.path(),
            &["model", &model, "hardware.spec=h200", "--json"],
        );
        let statics: Value = serde_json::from_str(&text).unwrap();
        assert!(
            statics["totals"]["parameters"].as_u64().unwrap() > 30_000_000,
            "{name}"
        );
        assert!(
            statics["totals"]["parameter_bytes"].as_u64().unwrap() > 0,
            "{name}"
        );
        for phase in ["prefill", "decode_step"] {
            for key in [
                "flops",
                "weight_bytes",
                "activation_bytes",
                "kv_read_bytes",
                "kv_write_bytes",
                "roofline_ns",
            ] {
                assert!(
                    statics["phases"][phase][key].is_u64(),
                    "{name} {phase} {key}"
                );
            }
            let parts: i64 = statics["phases"][phase]["kinds"]
                .as_array()
                .unwrap()
                .iter()
                .map(|kind| kind["roofline_ns"].as_i64().unwrap())
                .sum();
            let whole = statics["phases"][phase]["roofline_ns"].as_i64().unwrap();
            // Each kind is rounded to a nanosecond.
            assert!(
                (parts - whole).abs() <= 14,
                "{name} {phase}: {parts} {whole}"
            );
        }
    }
    assert!(count >= 12, "{count}");
}

#[test]
fn a_vision_model_has_a_vision_phase() {
    let folder = folder();
    let args = [
        "model",
        "model=deepseek_ocr",
        "workload.images.count=1",
        "hardware.spec=rtx_5090",
        "--json",
    ];
    let statics: Value = serde_json::from_str(&stdout(folder.path(), &args)).unwrap();
    assert!(statics["phases"]["vision"]["flops"].as_u64().unwrap() > 0);
    assert!(statics["phases"]["vision"]["roofline_ns"].as_u64().unwrap() > 0);
}

#[test]
fn a_config_json_is_read_and_edited() {
    let folder = folder();
    let config = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false}"#;
    fs::write(folder.path().join("it's.json"), config).unwrap();
    let parameters = |extra: &[&str]| {
        let mut args = vec!["model", "--config", "it's.json", "--json", "-o", "out"];
        args.extend(extra);
        let statics: Value = serde_json::from_str(&stdout(folder.path(), &args)).unwrap();
        statics["totals"]["parameters"].as_u64().unwrap()
    };
    // Embedding and head 2·100·64; per layer q and o 2·64·64, k and v 2·64·32, three of 64·128, two norms; a last norm.
    let layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64;
    assert_eq!(parameters(&[]), 2 * 100 * 64 + 2 * layer + 64);
    assert_eq!(
        parameters(&["+model.num_hidden_layers=5"]),
        2 * 100 * 64 + 5 * layer + 64
    );
    assert!(folder.path().join("out/static_compute.json").is_file());
    assert!(folder.path().join("out/static_compute.md").is_file());
    // A directory's design is read as another family; it is not forgotten for that.
    fs::create_dir(folder.path().join("dir")).unwrap();
    fs::write(folder.path().join("dir/config.json"), config).unwrap();
    let args = [
        "model",
        "model=local",
        "model.path=dir",
        "+model.model_type=mistral",
        "--json",
    ];
    let statics: Value = serde_json::from_str(&stdout(folder.path(), &args)).unwrap();
    assert_eq!(statics["totals"]["parameters"], parameters(&[]));

    let unknown = r#"{"model_type": "llamma"}"#;
    fs::write(folder.path().join("unknown.json"), unknown).unwrap();
    let shown = stderr(folder.path(), &["model", "--config", "unknown.json"]);
    assert!(
        shown.contains("llamma") && shown.contains("qwen2") && shown.contains("--as"),
        "{shown}"
    );
}

#[test]
fn predictions_do_not_depend_on_how_axes_are_grouped() {
    let folder = folder();
    let grid = |args: &[&str]| {
        let mut all = vec!["predict", "hardware.spec=h200", "--format", "json"];
        all.extend(args);
        let value: Value = serde_json::from_str(&stdout(folder.path(), &all)).unwrap();
        value["points"].as_array().unwrap().clone()
    };
    let all = grid(&[
        "model=qwen2_5_0_5b,qwen2_5_7b",
        "runtime.batch_size=1,8",
        "model.num_hidden_layers=4,24",
        "workload.dtype=bf16,f16",
    ]);
    assert_eq!(all.len(), 16);
    let mut index = 0;
    for model in ["qwen2_5_0_5b", "qwen2_5_7b"] {
        for batch in ["1", "8"] {
            for layers in ["4", "24"] {
                for dtype in ["bf16", "f16"] {
                    let one = grid(&[
                        &format!("model={model}"),
                        &format!("runtime.batch_size={batch}"),
                        &format!("model.num_hidden_layers={layers}"),
                        &format!("workload.dtype={dtype}"),
                    ]);
                    for key in [
                        "model",
                        "ttft_ns",
                        "tpot_ns",
                        "weights_bytes",
                        "kv_bytes",
                        "batch_size",
                    ] {
                        assert_eq!(
                            one[0][key], all[index][key],
                            "{model} {batch} {layers} {dtype} {key}"
                        );
                    }
                    index += 1;
                }
            }
        }
    }
}

#[test]
fn predictions_have_ranges_and_read_unknown_types() {
    let folder = folder();
    let point = |args: &[&str]| {
        let mut all = vec!["predict", "model=llama3_1_8b", "--format", "json"];
        all.extend(args);
        let value: Value = serde_json::from_str(&stdout(folder.path(), &all)).unwrap();
        value["points"][0].clone()
    };
    let known = point(&["hardware.spec=h200"]);
    // Without a Python that traces it.
    let common = point(&[
        "hardware.spec=h200",
        "model.model_type=granite",
        "runtime=pytorch",
        "runtime.python=/no/such/python",
    ]);
    for (point, family) in [(&known, "llama"), (&common, "common_keys")] {
        assert_eq!(point["family"], family);
        assert_eq!(point["calibration"], "measured");
        for name in ["ttft", "tpot", "prefill_gpu", "decode_step_gpu"] {
            let at = |end: &str| point[format!("{name}{end}")].as_i64().unwrap();
            assert!(
                at("_low_ns") <= at("_ns") && at("_ns") < at("_high_ns"),
                "{name} {point}"
            );
        }
    }
    // The same kernels, known less well.
    assert_eq!(common["decode_step_gpu_ns"], known["decode_step_gpu_ns"]);
    assert!(common["decode_step_gpu_high_ns"].as_i64() > known["decode_step_gpu_high_ns"].as_i64());
    // Where nothing was measured, the error is not known.
    let other = point(&["hardware.spec=a100_sxm_80gb"]);
    assert_eq!(other["calibration"], "scaled");
    let far = point(&["hardware.spec=h200", "runtime.batch_size=4096"]);
    for point in [other, far] {
        assert!(
            point["prefill_gpu_low_ns"].is_null() && point["prefill_gpu_ns"].is_i64(),
            "{point}"
        );
    }
}

/// Reports call it `this_cpu`, the config `auto`, users and `device=` `cpu`: `import --device cpu` proposed a Snapdragon.
#[test]
fn the_processor_at_hand_is_shown_once_it_was_measured() {
    let folder = folder();
    for name in ["auto", "this_cpu", "cpu"] {
        let output = llmprof(folder.path(), &["hardware", "show", name]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2));
        assert!(errors.contains("llmprof hardware measure"), "{errors}");
    }
    let cache = folder.path().join("cache/llmprof");
    std::fs::create_dir_all(&cache).unwrap();
    let device = "name: this_cpu\ntitle: A processor\ndriver_names: []\nvendor: unknown\nkind: cpu\nbasis: measured\n\
                  measured_at: 2026-11-15\nsources: { here: measured here }\npeaks:\n  - { dtype: f32, engine: vector, \
                  tflops: 0.5, not_recounted: measured, source: here }\nmemory: { bandwidth_gb_s: { value: 20, source: here } }\n";
    std::fs::write(cache.join("cpu.yaml"), device).unwrap();
    for name in ["auto", "this_cpu", "cpu"] {
        let output = llmprof(folder.path(), &["hardware", "show", name]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("A processor (this_cpu)") && text.contains("20 GB/s"),
            "{text}"
        );
    }
}

/// An unknown device was told to start from `custom_npu`, which no command printed.
#[test]
fn the_template_of_a_device_is_printed_and_read() {
    let folder = folder();
    let output = llmprof(folder.path(), &["hardware", "show", "my_chip"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("show custom_npu"), "{errors}");
    let output = llmprof(folder.path(), &["hardware", "show", "custom_npu", "--yaml"]);
    std::fs::write(folder.path().join("mine.yaml"), &output.stdout).unwrap();
    let output = llmprof(folder.path(), &["hardware", "show", "mine.yaml"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("(custom_npu)"), "{text}");
}

#[test]
fn a_failed_job_does_not_stop_the_sweep() {
    let folder = folder();
    let output = llmprof(
        folder.path(),
        &[
            "run",
            "-m",
            "runtime=command",
            "runtime.argv=[sh,-c,'exit 0'],[sh,-c,'exit 3'],[sh,-c,'echo done']",
            "hydra.sweep.dir=sweep",
            "--jobs",
            "2",
        ],
    );
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("1 of 3 jobs did not complete.\n"),
        "{text}"
    );
    let states: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("JOB "))
        .skip(1)
        .take_while(|line| !line.starts_with("report: "))
        .map(|line| {
            if line.contains("  complete  ") {
                "complete"
            } else {
                "failed"
            }
        })
        .collect();
    assert_eq!(states, ["complete", "failed", "complete"], "{text}");
    assert!(folder.path().join("sweep/multirun.yaml").is_file());
    for job in ["0", "1", "2"] {
        assert!(
            folder
                .path()
                .join("sweep")
                .join(job)
                .join(".hydra/config.yaml")
                .is_file()
        );
        assert!(
            folder
                .path()
                .join("sweep")
                .join(job)
                .join("run.json")
                .is_file()
        );
    }
    let log = fs::read_to_string(folder.path().join("sweep/2/command/command.stdout.log")).unwrap();
    assert_eq!(log, "done\n");
}

#[test]
fn a_native_run_leaves_files_whose_numbers_agree() {
    let folder = folder();
    let config = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false}"#;
    fs::write(folder.path().join("tiny.json"), config).unwrap();
    let text = stdout(
        folder.path(),
        &[
            "run",
            "model=local",
            "model.config=tiny.json",
            "model.dtype=f32",
            "workload.prompt_tokens=16",
            "infer.max_new_tokens=8",
            "runtime.batch_size=2",
            "hardware.spec=xeon_8480",
            "hydra.run.dir=out",
        ],
    );
    // The result comes first, the path of the report last.
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("TTFT ")
            && first.contains(" · TPOT ")
            && first.ends_with(" tok/s · random weights"),
        "{text}"
    );
    assert_eq!(text.lines().last(), Some("report: out/report.html"));
    let out = folder.path().join("out");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let metrics: Value = serde_json::from_str(&read("metrics.json")).unwrap();
    let analysis: Value = serde_json::from_str(&read("analysis.json")).unwrap();
    assert_eq!(
        metrics["requests"].as_array().unwrap().len(),
        6,
        "2 requests in 3 passes"
    );
    for phase in analysis["phases"].as_array().unwrap() {
        assert!(
            phase["unmatched"].as_array().unwrap().is_empty(),
            "every operator that ran is counted"
        );
        assert!(
            phase["missing"].as_array().unwrap().is_empty(),
            "every operator that is counted ran"
        );
        let waterfall = &phase["waterfall"];
        let part = |name: &str| waterfall[name].as_i64().unwrap();
        let parts =
            part("roofline_ns") + part("inefficiency_ns") + part("extra_ns") + part("copies_ns");
        let rest = part("unattributed_ns") + part("idle_ns") - part("overlap_ns");
        assert_eq!(parts + rest, part("wall_ns"));
    }
    // The same numbers in what people read: the wall time of each phase, and tokens per second.
    let (report, page) = (read("report.md"), read("report.html"));
    for phase in analysis["phases"].as_array().unwrap() {
        let wall = phase["waterfall"]["wall_ns"].as_i64().unwrap();
        let wall = llmprof_units::Nanos(wall).to_string();
        assert!(report.contains(&wall) && page.contains(&wall), "{wall}");
    }
    let rate = metrics["aggregates"]["tokens_per_s"]["mean"]
        .as_f64()
        .unwrap();
    let rate = llmprof_units::format_significant(rate);
    assert!(report.contains(&rate) && page.contains(&rate), "{rate}");
    for name in [
        "stakeholder_summary.md",
        "operators.md",
        "operators.csv",
        "ops.csv",
        "ops_by_shape.csv",
        "inputs.yaml",
        "env.json",
        "plots/roofline.svg",
    ] {
        assert!(out.join(name).is_file(), "{name}");
    }
    // 8 steps (prefill and 7 of decode) of as many calls as the model has operators.
    let ops = read("ops.csv");
    let (header, rows) = ops.split_once('\n').unwrap();
    assert_eq!(
        header,
        "key,cuda_time_total_us,cpu_time_total_us,self_cuda_time_total_us,calls,input_shapes,self_cpu_memory_usage_bytes"
    );
    let calls: u64 = rows
        .lines()
        .map(|row| row.split(',').nth(4).unwrap().parse::<u64>().unwrap())
        .sum();
    assert!(calls > 0 && calls.is_multiple_of(8), "{calls}");
    let mut keys: Vec<&str> = rows
        .lines()
        .filter_map(|row| row.split(',').next())
        .collect();
    keys.dedup();
    assert_eq!(keys.len(), rows.lines().count(), "a row per key");
}

#[test]
fn a_truncated_trace_says_so_first_and_its_run_stays_consistent() {
    let folder = folder();
    let event = r#"{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.000, "dur": 2.000},"#;
    let trace = format!(
        "{{\"schemaVersion\": 1, \"traceEvents\": [\n  {event}\n  {event}\n  {{\"ph\": \"X\", \"ca"
    );
    fs::write(folder.path().join("cut"), trace).unwrap();
    let output = llmprof(folder.path(), &["import", "cut", "-o", "run"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let warnings = String::from_utf8(output.stderr).unwrap();
    let line = warnings.lines().next().unwrap();
    assert!(line.contains("[kineto.truncated]"), "{warnings}");
    assert!(!text.contains("kineto.truncated"), "stdout is data: {text}");
    assert!(text.contains("2 host ops"), "{text}");

    let shown: Value = serde_json::from_str(&stdout(
        folder.path(),
        &["import", "cut", "-o", "other", "--json"],
    ))
    .unwrap();
    assert_eq!(shown["issues"][0]["code"], "kineto.truncated");
    stdout(folder.path(), &["analyze", "run", "--device", "h200"]);
    stdout(folder.path(), &["export", "run", "--to", "chrome"]);
    let run: Value =
        serde_json::from_slice(&fs::read(folder.path().join("run/run.json")).unwrap()).unwrap();
    for artifact in run["artifacts"].as_array().unwrap() {
        let file = folder
            .path()
            .join("run")
            .join(artifact["path"].as_str().unwrap());
        assert_eq!(
            fs::metadata(&file).unwrap().len(),
            artifact["bytes"].as_u64().unwrap(),
            "{artifact}"
        );
    }
    assert!(run["artifacts"].to_string().contains("trace.json"));
}

#[test]
fn a_clock_that_runs_backwards_is_reported() {
    let folder = folder();
    let trace = r#"{"schemaVersion": 1, "traceEvents": [
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 50.000, "dur": 2.000, "args": {"correlation": 7}},
  {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 20.000, "dur": 5.000, "args": {"correlation": 7, "device": 0, "stream": 7}}
]}"#;
    fs::write(folder.path().join("trace"), trace).unwrap();
    let output = llmprof(folder.path(), &["import", "trace", "-o", "run"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("by 30 µs") && text.contains("[analysis.before_launch]"),
        "{text}"
    );
}

/// The default model beside the files of another one: its design would be answered for silently.
#[test]
fn files_of_another_model_are_not_passed_over() {
    let folder = folder();
    fs::create_dir(folder.path().join("other")).unwrap();
    let config = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100}"#;
    fs::write(folder.path().join("other/config.json"), config).unwrap();
    for files in ["model.path=other", "model.config=other/config.json"] {
        let shown = stderr(folder.path(), &["model", files]);
        assert!(
            shown.contains("`model_type` of the model qwen2_5_0_5b is \"qwen2\"")
                && shown.contains("model=local"),
            "{shown}"
        );
        let with_local = ["model", "model=local", files, "--json"];
        let statics: Value = serde_json::from_str(&stdout(folder.path(), &with_local)).unwrap();
        assert_eq!(statics["family"], "llama");
    }
    // The same design with fewer layers is an edit.
    let own = r#"{"model_type": "qwen2", "hidden_size": 896, "vocab_size": 151936, "num_hidden_layers": 24}"#;
    fs::write(folder.path().join("other/config.json"), own).unwrap();
    stdout(
        folder.path(),
        &["model", "model.path=other", "model.num_hidden_layers=3"],
    );
}

#[test]
fn a_broken_checkpoint_is_named() {
    let folder = folder();
    let model = folder.path().join("model");
    fs::create_dir(&model).unwrap();
    let config = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100}"#;
    fs::write(model.join("config.json"), config).unwrap();
    let args = [
        "run",
        "model=local",
        "model.path=model",
        "model.dtype=f32",
        "model.load_format=safetensors",
        "hardware.spec=xeon_8480",
        "hydra.run.dir=out",
    ];
    let run = |name: &str| {
        let dir = format!("hydra.run.dir={name}");
        let mut args = args.to_vec();
        args.pop();
        args.push(&dir);
        let output = llmprof(folder.path(), &args);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run("missing").contains("safetensors"));
    fs::write(model.join("model.safetensors"), b"not a header").unwrap();
    assert!(run("broken").contains("model.safetensors"));
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = Command::new(LLMPROF)
        .args([
            "predict",
            "hardware.spec=h200",
            "workload.prompt_tokens=range(1,200)",
            "--format",
            "json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// The Python that has hydra-core.
fn python() -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("LLMPROF_PYTHON").map_or_else(|| root.join(".venv/bin/python"), Into::into)
}

#[test]
#[ignore = "live: needs hydra-core"]
fn our_own_tree_composes_as_hydra_composes_it() {
    let python = python();
    let folder = folder();
    let conf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../conf")
        .canonicalize()
        .unwrap();
    let app = "import hydra\n@hydra.main(version_base='1.3', config_path=None)\ndef main(cfg): pass\nmain()\n";
    fs::write(folder.path().join("app.py"), app).unwrap();
    let cases: [&[&str]; 4] = [
        &[],
        &["--resolve"],
        &[
            "model=deepseek_v3",
            "runtime=command",
            "hardware.spec=h200",
            "--resolve",
        ],
        &[
            "model=gpt_oss_20b",
            "workload.images.count=2",
            "~infer.do_sample",
            "--package",
            "infer",
        ],
    ];
    for args in cases {
        let ours = stdout(folder.path(), &[&["run", "--cfg", "job"], args].concat());
        let theirs = Command::new(&python)
            .current_dir(folder.path())
            .args(["app.py", "-cp"])
            .arg(&conf)
            .args(["-cn", "config", "--cfg", "job"])
            .args(args)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&theirs.stderr);
        assert!(theirs.status.success(), "{args:?}: {stderr}");
        assert_eq!(ours, String::from_utf8(theirs.stdout).unwrap(), "{args:?}");
    }
}
