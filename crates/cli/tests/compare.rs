//! `llmprof compare` and `llmprof runs export` as a user runs them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use common::{json, llmprof, refused, works};
use llmprof_stub::{Behaviour, Stub};
use serde_json::Value;

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": 2}"#;

const MODEL: &str = "model=local model.config=tiny.json model.dtype=f32 workload.prompt_tokens=8 infer.max_new_tokens=4 \
                     hardware.spec=xeon_8480";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.json"), TINY).unwrap();
    folder
}

fn run(folder: &Path, dir: &str, more: &[&str]) {
    let dir = format!("hydra.run.dir={dir}");
    let mut words = vec!["run", &dir];
    words.extend(MODEL.split_whitespace());
    words.extend(more);
    works(folder, &words);
}

fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    root.join(name)
        .canonicalize()
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Every explanation sums to its difference, every phase's parts to its wall time, its kernels to its work.
fn adds_up(comparison: &Value) -> usize {
    let mut checked = 0;
    let close = |sum: f64, whole: f64| (sum - whole).abs() <= 1e-6 * whole.abs().max(1e3);
    let sum = |rows: &Value, key: &str| {
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row[key].as_f64().unwrap_or(0.0))
            .sum::<f64>()
    };
    let phases = comparison["phases"].as_array().unwrap();
    let explained = comparison["explanations"].as_array().unwrap().iter();
    for explanation in explained.chain(phases.iter().map(|phase| &phase["explanation"])) {
        let (parts, whole) = (
            sum(&explanation["parts"], "delta_ns"),
            number(&explanation["delta_ns"]),
        );
        assert!(close(parts, whole), "{parts} {whole}: {explanation}");
        assert!(close(
            number(&explanation["b_ns"]) - number(&explanation["a_ns"]),
            whole
        ));
        checked += 1;
    }
    for phase in phases {
        assert!(
            close(sum(&phase["parts"], "a_ns"), number(&phase["a_wall_ns"])),
            "{phase}"
        );
        assert!(
            close(sum(&phase["parts"], "b_ns"), number(&phase["b_wall_ns"])),
            "{phase}"
        );
        let (kernels, parts) = (sum(&phase["kernels"], "b_ns"), &phase["parts"]);
        let busy: f64 = parts
            .as_array()
            .unwrap()
            .iter()
            .filter(|part| part["name"] != "idle" && part["name"] != "overlap")
            .map(|part| part["b_ns"].as_f64().unwrap_or(0.0))
            .sum();
        assert!(close(kernels, busy), "kernels {kernels}, work {busy}");
    }
    checked
}

fn compared(folder: &Path, args: &[&str]) -> Value {
    let mut words = vec!["compare", "--json"];
    words.extend(args);
    serde_json::from_str(&works(folder, &words)).unwrap()
}

/// Two recordings of one program: torch's profiler with shapes, and with stacks and memory. The device does the same work, so that the
/// whole difference is time in which it waited for the host.
#[test]
fn two_traces_differ_where_they_should() {
    let folder = folder();
    let (a, b) = (
        fixture("h200/torch_shapes.json.gz"),
        fixture("h200/torch_full.json.gz"),
    );
    let comparison = compared(folder.path(), &[&a, &b]);
    assert!(adds_up(&comparison) >= 3, "{comparison}");
    let decode = &comparison["explanations"][0];
    assert_eq!(decode["metric"], "decode_step");
    assert_eq!(decode["parts"][0]["source"], "idle");
    assert!(
        number(&decode["parts"][0]["points"])
            > 0.9 * number(&decode["delta_ns"]) / number(&decode["a_ns"]) * 100.0
    );
    // The same file is the same.
    let same = compared(folder.path(), &[&a, &a]);
    adds_up(&same);
    for metric in same["metrics"].as_array().unwrap() {
        assert_eq!(number(&metric["ratio"]), 1.0);
    }
    assert!(
        same["explanations"][0]["parts"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// Prompts of 512 and 3072 tokens: neither prefill nor decode is the same work, whether a config says so or only shapes do. A program
/// without a KV cache serves the same requests and is compared.
#[test]
fn traces_of_other_prompts_are_not_compared() {
    let folder = folder();
    let fault = |name: &str| fixture(&format!("faults/{name}.json.gz"));
    let (control, eager) = (fault("control"), fault("eager_attention"));
    let config = format!("--config={}", fixture("faults/config.json"));
    for (name, trace) in [("a", &control), ("b", &eager)] {
        works(folder.path(), &["import", trace, &config, "-o", name]);
    }
    for (a, b) in [(control.as_str(), eager.as_str()), ("a", "b")] {
        let comparison = compared(folder.path(), &[a, b]);
        let metrics = comparison["metrics"].as_array().unwrap();
        assert_eq!(metrics.len(), 2, "{comparison}");
        for metric in metrics {
            assert_eq!(metric["verdict"], "not_comparable", "{metric}");
            assert!(metric["ratio"].is_null(), "{metric}");
        }
        assert_eq!(comparison["explanations"], serde_json::json!([]));
        for phase in comparison["phases"].as_array().unwrap() {
            assert_eq!(phase["excluded_for"], "prompt_tokens", "{a}");
        }
        let text = works(folder.path(), &["compare", a, b]);
        assert!(
            text.contains("Differs: prompt tokens, 512 → 3072\n")
                && text.contains("Not comparable (prompt tokens): Decode (profiled), Prefill"),
            "{text}"
        );
        assert!(
            !text.contains("6.5") && !text.contains("explains"),
            "{text}"
        );
        let answer = works(folder.path(), &["compare", a, b, "--format", "agent"]);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["reasons"], serde_json::json!([]), "{answer}");
        let abstained = answer["abstained"].to_string();
        assert!(abstained.contains("Prefill (profiled)"), "{abstained}");
    }
    let comparison = compared(folder.path(), &[&control, &fault("no_kv_cache")]);
    for metric in comparison["metrics"].as_array().unwrap() {
        assert_ne!(metric["verdict"], "not_comparable", "{metric}");
    }
    let comparison = compared(folder.path(), &[&control, &fault("control_batch32")]);
    for metric in comparison["metrics"].as_array().unwrap() {
        assert_eq!(metric["verdict"], "not_comparable", "{metric}");
    }
}

/// The same program with fused and with unfused attention: the change is named so, and the report's first finding stands with it.
#[test]
fn unfused_attention_is_named() {
    let folder = folder();
    let fault = |name: &str| fixture(&format!("faults/{name}.json.gz"));
    let words = [
        "compare",
        &fault("sdpa_reference"),
        &fault("eager_attention"),
    ];
    let text = works(folder.path(), &words);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("Prefill (profiled) +"), "{text}");
    assert!(lines[1].contains(". attention `sdpa_"), "{text}");
    let finding = lines
        .iter()
        .find(|line| line.starts_with("First finding of B: "));
    assert!(
        finding.is_some_and(|line| line.contains("ttention")),
        "{text}"
    );
    // Nobody can repeat an imported trace, and the table has the order of the sentences.
    assert!(
        !text.contains("--run") && !text.contains("repeats"),
        "{text}"
    );
    let place = |start: &str| lines.iter().rposition(|line| line.starts_with(start));
    assert!(place("Prefill") < place("Decode"), "{text}");
    let answer = works(
        folder.path(),
        &[&words[..], &["--format", "agent"]].concat(),
    );
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let reasons = answer["reasons"].as_array().unwrap();
    let metrics = ["prefill_step", "decode_phase"].map(Value::from);
    assert!(!reasons.is_empty(), "{answer}");
    assert!(
        reasons.iter().all(|one| metrics.contains(&one["metric"])),
        "{answer}"
    );
}

/// Another engine on another device: what differs is named first, and kernels of one category stand for each other.
#[test]
fn another_device_is_named_and_its_kernels_are_linked() {
    let folder = folder();
    let (a, b) = (
        fixture("public/qwen_h100/trace.json.gz"),
        fixture("public/qwen_mi300/trace.json.gz"),
    );
    let comparison = compared(folder.path(), &[&a, &b, "-o", "out"]);
    adds_up(&comparison);
    // Nobody named a model: two file names are not two models.
    let text = works(folder.path(), &["compare", &a, &b]);
    let lines: Vec<&str> = text.lines().take(3).collect();
    assert_eq!(
        lines[0],
        "qwen_h100/trace.json.gz → qwen_mi300/trace.json.gz"
    );
    assert_eq!(lines[1], "Differs: device, h100_sxm → mi300x");
    let result = "ProfilerStep (profiled): 34.89 ms → 33.13 ms, -5.0 %; overhead ops -2.573 ms, ";
    assert!(lines[2].starts_with(result), "{text}");
    assert!(!text.contains("Verdict"), "a table of nothing: {text}");
    let phases = comparison["phases"].as_array().unwrap();
    assert!(!phases.is_empty(), "{comparison}");
    let kernels = phases[0]["kernels"].as_array().unwrap();
    let replaced = kernels
        .iter()
        .find(|change| change["category"] == "gemm" && change["kind"] == "replaced");
    let replaced = replaced.unwrap_or_else(|| panic!("no GEMM was replaced: {kernels:?}"));
    assert!(
        !replaced["a"].as_array().unwrap().is_empty()
            && !replaced["b"].as_array().unwrap().is_empty()
    );
    for file in ["compare.md", "compare.html", "compare.json"] {
        assert!(folder.path().join("out").join(file).is_file(), "{file}");
    }
    let page = fs::read_to_string(folder.path().join("out/compare.html")).unwrap();
    assert!(page.contains("paired-bars"), "the page has no chart");
}

/// A whole run of an H200, as `fixtures/h200/runs.sh` recorded it.
fn h200_run(folder: &Path, name: &str) {
    let recorded = fixture(&format!("h200/runs/{name}"));
    let wire = format!("{recorded}/cupti.wire.gz");
    works(folder, &["import", &wire, "-o", name]);
    fs::copy(
        format!("{recorded}/record.json"),
        folder.join(name).join("record.json"),
    )
    .unwrap();
}

/// GitHub takes a line that begins with `::` for a command, whoever named the folder.
#[test]
fn line_breaks_in_names_of_folders_begin_no_line() {
    let folder = folder();
    let hostile = "a\n::error::owned";
    h200_run(folder.path(), "eager05");
    h200_run(folder.path(), "graph05");
    let renamed = folder.path().join(hostile);
    fs::rename(folder.path().join("eager05"), renamed).unwrap();
    for format in ["text", "github"] {
        let words = [
            "compare", hostile, "graph05", "--format", format, "--gate", "tpot<+3%",
        ];
        let output = llmprof(folder.path(), &words);
        for stream in [output.stdout, output.stderr] {
            let text = String::from_utf8_lossy(&stream).into_owned();
            assert!(
                !text.lines().any(|line| line.starts_with("::error::owned")),
                "{text}"
            );
        }
    }
}

/// Eager decode of a small model is host-bound: CUDA Graphs and torch.compile remove idle time, and the compiler's fused kernels stand
/// for the elementwise ones.
#[test]
fn gpu_runs_differ_by_idle_time_and_fused_kernels() {
    let folder = folder();
    for name in ["eager05", "graph05", "compile05"] {
        h200_run(folder.path(), name);
    }
    let comparison = compared(folder.path(), &["eager05", "graph05", "compile05"]);
    let both = comparison["comparisons"].as_array().unwrap();
    assert_eq!(both.len(), 2);
    for one in both {
        adds_up(one);
        let tpot = &one["metrics"][0];
        assert_eq!(
            (&tpot["metric"], &tpot["verdict"]),
            (&Value::from("tpot"), &Value::from("faster"))
        );
        assert_eq!(one["explanations"][0]["parts"][0]["source"], "idle");
        assert!(
            one["differences"]
                .as_array()
                .unwrap()
                .iter()
                .any(|d| d["what"] == "profiling_overhead")
        );
    }
    // What is not alike, then the result with its reason: on the terminal, in Markdown, on the page and in CI.
    let words = [
        "compare",
        "eager05",
        "graph05",
        "-o",
        "out",
        "--junit",
        "gates.xml",
    ];
    let text = works(folder.path(), &words);
    let overhead = "Profiling overhead differs (A: decode 1.41×; B: decode 1.17×); this affects kernel tables and reasons, not metrics.";
    let result = "TPOT -88.4 % (95 % CI -92.2 … -82.8 %), faster. GPU idle explains -90.2 points.";
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (markdown, page) = (read("out/compare.md"), read("out/compare.html"));
    // A page keeps a number and its unit on one line.
    let page = page.replace('\u{a0}', " ");
    for run in ["eager05", "graph05"] {
        let link = format!("<a href=\"../{run}/report.html\">{run}</a>");
        assert!(page.contains(&link), "{link}");
    }
    for (name, text) in [
        ("terminal", &text),
        ("compare.md", &markdown),
        ("compare.html", &page),
        ("gates.xml", &read("gates.xml")),
    ] {
        let at = |words: &str| {
            let position = text.find(words);
            position.unwrap_or_else(|| panic!("{name} lacks {words}: {text}"))
        };
        assert!(at(overhead) < at(result), "{name}: {text}");
    }
    // It is no headline: the first line of the conclusion is the result.
    let (_, conclusion) = page.split_once("id=\"summary\">").unwrap();
    let first = conclusion.trim_start().lines().next().unwrap();
    assert!(first.contains("TPOT -88.4 %"), "{first}");
    let (_, summary) = markdown.split_once("## Summary").unwrap();
    let first = summary.trim_start().lines().next().unwrap();
    assert!(first.contains("TPOT -88.4 %"), "{first}");
    // Medians of TTFT are 45 % apart, the estimate of their ratio is not: what is shown of both sides has that ratio.
    let metrics = both[1]["metrics"].as_array().unwrap();
    for metric in metrics.iter().filter(|metric| metric["basis"] == "passes") {
        let number = |key: &str| metric[key].as_f64().unwrap();
        let shown = number("b") / number("a");
        assert!((shown / number("ratio") - 1.0).abs() < 1e-9, "{metric}");
    }
    let decode = both[1]["phases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|phase| phase["phase"] == "decode")
        .unwrap();
    let fused = decode["kernels"].as_array().unwrap().iter().find(|change| {
        let is_fused = |row: &Value| row["name"].as_str().unwrap().starts_with("triton_");
        change["kind"] == "replaced" && change["b"].as_array().unwrap().iter().any(is_fused)
    });
    let fused = fused.unwrap_or_else(|| panic!("{}", decode["kernels"]));
    assert!(
        number(&fused["b_ns"]) < 0.5 * number(&fused["a_ns"]),
        "{fused}"
    );
    // The same calls a step as in the trace: 15 steps, one embedding each.
    let common = decode["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["kind"] == "changed")
        .unwrap();
    assert!(number(&common["a"][0]["calls"]) > 0.0);
}

#[test]
fn runs_with_one_pass_have_no_interval_and_say_so() {
    let folder = folder();
    run(folder.path(), "a", &["runtime.repeats=1"]);
    run(
        folder.path(),
        "b",
        &["runtime.repeats=1", "workload.prompt_tokens=16"],
    );
    let text = works(folder.path(), &["compare", "a", "b"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "Differs: prompt tokens, 8 → 16", "{text}");
    // Profiling overhead may differ too, and stands between them.
    let excluded = lines[2..]
        .iter()
        .find(|line| !line.starts_with("Profiling overhead differs"));
    let excluded = excluded.unwrap();
    assert!(
        excluded.starts_with("Not comparable (prompt tokens): ") && excluded.contains("TTFT"),
        "{text}"
    );
    let text = works(folder.path(), &["compare", "a", "a"]);
    let same = "A and B are the same recording: all values are equal.";
    assert_eq!(text.lines().nth(1), Some(same), "{text}");
    assert!(!text.contains("cannot tell"), "{text}");
    run(folder.path(), "c", &["runtime.repeats=1"]);
    let comparison = compared(folder.path(), &["a", "c"]);
    adds_up(&comparison);
    let tpot = comparison["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["metric"] == "tpot")
        .unwrap();
    assert_eq!(
        (&tpot["ci_low"], &tpot["verdict"]),
        (&Value::Null, &Value::from("cannot_tell"))
    );
    let keys: Vec<&str> = tpot
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for key in ["verdict", "ratio", "ci_low", "ci_high"] {
        assert!(keys.contains(&key), "{keys:?}");
    }
}

#[test]
fn sides_take_turns_and_leave_their_runs() {
    let folder = folder();
    let side = |threads: u32| format!("{MODEL} runtime.repeats=2 runtime.threads={threads}");
    let (a, b) = (side(1), side(1));
    let args = [
        "compare", "--json", "--run", &a, "--run", &b, "--rounds", "3", "--time", "1ms", "-o",
        "out",
    ];
    let comparison: Value = serde_json::from_str(&works(folder.path(), &args)).unwrap();
    adds_up(&comparison);
    // Time was up after the second round.
    assert_eq!(comparison["rounds"]["count"], 2);
    let mut metrics = comparison["metrics"].as_array().unwrap().iter();
    let tpot = metrics.find(|metric| metric["metric"] == "tpot").unwrap();
    // One round of two that something else disturbed is left out, and one round has no interval.
    if comparison["rounds"]["disturbed"].as_array().unwrap().len() == 1 {
        assert_eq!(tpot["basis"], "none");
    } else {
        assert_eq!(tpot["basis"], "rounds");
        assert!(number(&tpot["ci_low"]) <= number(&tpot["ratio"]));
    }
    for dir in ["a/000", "b/000", "a/001", "b/001"] {
        let manifest = json(&folder.path().join("out").join(dir).join("run.json"));
        assert_eq!(manifest["status"], "complete");
    }
    // A folder of runs is a side.
    let again = compared(folder.path(), &["out/a", "out/b"]);
    assert_eq!(again["metrics"][0]["basis"], "runs");
    assert_eq!(again["a"]["label"], "out/a");
    // Mistakes are found before anything runs.
    let said = refused(
        folder.path(),
        &[
            "compare",
            "--run",
            &a,
            "--run",
            "runtime.threds=1",
            "-o",
            "bad",
        ],
    );
    assert!(
        said.contains("--run 2") && said.contains("runtime.threads"),
        "{said}"
    );
    assert!(!folder.path().join("bad").exists());
    let said = refused(folder.path(), &["compare", "--run", &a]);
    assert!(said.contains("twice"), "{said}");
}

/// A gate that no machine can break, one that none can keep, and one that nothing is known of.
#[test]
fn gates_decide_the_exit_code() {
    let folder = folder();
    run(folder.path(), "a", &["runtime.repeats=8"]);
    let kept = ["compare", "a", "a", "--gate", "ttft:p50<100s"];
    works(folder.path(), &kept);
    let broken = [
        "compare",
        "a",
        "a",
        "--gate",
        "ttft:p50<1ns",
        "--junit",
        "gate.xml",
        "--github",
    ];
    let output = llmprof(folder.path(), &broken);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("::error title=llmprof compare::Gate ttft:p50<1ns failed"),
        "{text}"
    );
    let xml = fs::read_to_string(folder.path().join("gate.xml")).unwrap();
    assert!(
        xml.contains("failures=\"1\"") && xml.contains("ttft:p50&lt;1ns"),
        "{xml}"
    );
    // Steps of a profiled pass are not compared where plain passes are: nothing can be judged by them.
    let unknown = ["compare", "a", "a", "--gate", "decode_step<+1%"];
    let output = llmprof(folder.path(), &unknown);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("decode_step<+1% not evaluated: a side does not have"),
        "{said}"
    );
    // Another batch is other work for TPOT, and what tokens/s may be compared over.
    run(
        folder.path(),
        "b",
        &["runtime.repeats=8", "runtime.batch_size=2"],
    );
    let other = [
        "compare",
        "--json",
        "a",
        "b",
        "--gate",
        "tpot<+3%",
        "--gate",
        "tokens_per_s>-99%",
    ];
    let output = llmprof(folder.path(), &other);
    assert_eq!(output.status.code(), Some(1));
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(comparison["gates"][0]["state"], "not_evaluated");
    assert_eq!(comparison["gates"][0]["reason"]["other_work"], "batch");
    assert_ne!(comparison["gates"][1]["state"], "not_evaluated");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("more rounds narrow it"), "{said}");
    let said = refused(folder.path(), &["compare", "a", "a", "--gate", "tpot<3%"]);
    assert!(said.contains("tpot<+3%"), "{said}");
}

#[test]
fn baselines_are_kept_in_the_project() {
    let folder = folder();
    run(folder.path(), "a", &["runtime.repeats=3"]);
    works(folder.path(), &["compare", "a", "--save-baseline", "main"]);
    assert!(folder.path().join("baselines/main.json").is_file());
    let moved: PathBuf = folder.path().join("b");
    fs::rename(folder.path().join("a"), &moved).unwrap();
    // It does not need the run it came from.
    let comparison = compared(folder.path(), &["b", "--baseline", "main"]);
    assert_eq!(
        (
            &comparison["a"]["label"],
            number(&comparison["metrics"][0]["ratio"])
        ),
        (&Value::from("baseline main"), 1.0)
    );
    assert!(adds_up(&comparison) >= 2);
    let said = refused(folder.path(), &["compare", "b", "--baseline", "other"]);
    assert!(said.contains("known: main"), "{said}");
    let said = refused(folder.path(), &["compare", "b", "--save-baseline", "../x"]);
    assert!(said.contains("cannot name a baseline"), "{said}");
    fs::write(
        folder.path().join("baselines/main.json"),
        "{\"schema_version\": 9}",
    )
    .unwrap();
    let said = refused(folder.path(), &["compare", "b", "--baseline", "main"]);
    assert!(said.contains("layout version 9"), "{said}");
}

/// Loads of a server: every request is a value, and percentiles can be gated.
#[test]
fn served_loads_are_compared_by_their_requests() {
    let folder = folder();
    let stub = |step_ms: u64| {
        Stub::start(Behaviour {
            prefill: Duration::from_millis(5),
            step: Duration::from_millis(step_ms),
            slots: 4,
            ..Behaviour::default()
        })
        .unwrap()
    };
    for (dir, step_ms) in [("fast", 1), ("slow", 20)] {
        let server = stub(step_ms);
        let url = server.url();
        works(
            folder.path(),
            &[
                "bench",
                &url,
                "--concurrency",
                "2",
                "--requests",
                "12",
                "--output-tokens",
                "6",
                "--warmup",
                "1",
                "-o",
                dir,
            ],
        );
    }
    let gates = ["--gate", "ttft:p50<100s", "--gate", "itl:p50<100s"];
    let comparison = compared(folder.path(), &[&["fast", "slow"][..], &gates].concat());
    assert_eq!(comparison["a"]["measured_in"], "load");
    let metric = |key: &str| {
        let mut metrics = comparison["metrics"].as_array().unwrap().iter();
        metrics.find(|one| one["metric"] == key).unwrap()
    };
    let (tpot, itl) = (metric("tpot"), metric("itl"));
    assert!(number(&itl["b"]) >= 19e6, "{itl}");
    assert_eq!(
        (&tpot["basis"], &tpot["values"]),
        (&Value::from("requests"), &Value::from(12))
    );
    for (side, dir) in [("a", "fast"), ("b", "slow")] {
        let bench = json(&folder.path().join(dir).join("bench.json"));
        let printed = number(&bench["ttft_ms"]["p50"]) * 1e6;
        let shown = number(&metric("ttft")[side]);
        assert!((shown / printed - 1.0).abs() < 1e-6, "{shown} {printed}");
    }
    // A server that sleeps 20 ms a step cannot be faster than that.
    assert!(number(&tpot["b"]) >= 19e6, "{tpot}");
    assert_eq!(comparison["gates"][0]["state"], "passed");
    assert_eq!(comparison["gates"][1]["state"], "passed");
    // Loads of earlier versions have no record. Where GPUs were sampled beside one, another GPU is named first, and energy and
    // memory are compared.
    for (dir, gpu, joules) in [("fast", "NVIDIA H200", 10.0), ("slow", "NVIDIA H100", 40.0)] {
        fs::remove_file(folder.path().join(dir).join("record.json")).unwrap();
        let file = folder.path().join(dir).join("bench.json");
        let mut bench = json(&file);
        bench["gpus"] =
            serde_json::json!([{"name": gpu, "energy_j": joules, "memory_used_max_bytes": 1e9}]);
        fs::write(&file, bench.to_string()).unwrap();
    }
    let text = works(folder.path(), &["compare", "fast", "slow"]);
    let second = text.lines().nth(1).unwrap();
    assert_eq!(second, "Differs: GPU, NVIDIA H200 → NVIDIA H100", "{text}");
    let comparison = compared(folder.path(), &["fast", "slow"]);
    let metric = |key: &str| {
        let mut metrics = comparison["metrics"].as_array().unwrap().iter();
        metrics.find(|one| one["metric"] == key).unwrap()
    };
    assert_eq!(number(&metric("energy_per_token")["ratio"]), 4.0);
    assert_eq!(number(&metric("peak_memory")["b"]), 1e9);
}

/// Of one sequence, the mean gap between tokens is TPOT; percentiles are over the gaps of all passes.
#[test]
fn gaps_between_tokens_are_compared() {
    let folder = folder();
    for dir in ["a", "b"] {
        run(folder.path(), dir, &["runtime.repeats=3"]);
    }
    // The 99th percentile of so few values is their maximum: the report has no interval for it, and neither has the gate.
    let gates = ["itl:p50<100s", "itl:p50<1ns", "ttft:p99<100s"];
    let gates = gates.map(|gate| ["--gate", gate]).concat();
    let output = llmprof(
        folder.path(),
        &[&["compare", "--json", "a", "b"][..], &gates].concat(),
    );
    assert_eq!(output.status.code(), Some(1));
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    let metric = |key: &str| {
        let mut metrics = comparison["metrics"].as_array().unwrap().iter();
        metrics.find(|one| one["metric"] == key).unwrap()
    };
    let (tpot, itl) = (metric("tpot"), metric("itl"));
    for side in ["a", "b"] {
        let ratio = number(&itl[side]) / number(&tpot[side]);
        assert!((ratio - 1.0).abs() < 1e-9, "{itl} {tpot}");
    }
    assert_eq!(comparison["gates"][0]["state"], "passed");
    assert_eq!(comparison["gates"][1]["state"], "failed");
    assert_eq!(comparison["gates"][2]["state"], "not_evaluated");
    assert_eq!(comparison["gates"][2]["reason"], "too_few_values");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = folder();
    let said = refused(folder.path(), &["compare", "nowhere", "nowhere"]);
    assert!(said.contains("nowhere does not exist"), "{said}");
    fs::create_dir(folder.path().join("empty")).unwrap();
    let said = refused(folder.path(), &["compare", "empty", "empty"]);
    assert!(said.contains("holds no complete run"), "{said}");
    run(folder.path(), "a", &["runtime.repeats=1"]);
    let said = refused(folder.path(), &["compare", "a"]);
    assert!(said.contains("two sides"), "{said}");
    fs::write(folder.path().join("text.json"), "hello").unwrap();
    let said = refused(folder.path(), &["compare", "a", "text.json"]);
    assert!(said.contains("text.json"), "{said}");
}

#[test]
fn all_runs_are_one_table() {
    let folder = folder();
    run(folder.path(), "runs/a", &["runtime.repeats=2"]);
    run(
        folder.path(),
        "runs/b",
        &["runtime.repeats=2", "+model.note='x,y'"],
    );
    let text = works(folder.path(), &["runs", "export"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    let header: Vec<&str> = lines[0].split(',').collect();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let first: Vec<&str> = lines[1].split(',').collect();
    let metrics = json(&folder.path().join(first[0]).join("metrics.json"));
    let tpot: f64 = first[at("tpot_ms")].parse().unwrap();
    assert_eq!(tpot, number(&metrics["aggregates"]["tpot_ms"]["mean"]));
    assert_eq!(first[at("override.workload.prompt_tokens")], "8");
    assert!(header.contains(&"override.model.note"), "{header:?}");
    works(folder.path(), &["runs", "export", "-o", "all.csv"]);
    assert_eq!(
        fs::read_to_string(folder.path().join("all.csv")).unwrap(),
        text
    );
    let said = refused(folder.path(), &["runs", "export", "--root", "none"]);
    assert!(said.contains("not found"), "{said}");
}

/// Two swept keys make a heat map and curves.
#[test]
fn a_sweep_is_drawn() {
    let folder = folder();
    let mut words = vec![
        "run",
        "-m",
        "hydra.sweep.dir=sweep",
        "runtime.repeats=1",
        "runtime.batch_size=1,2",
    ];
    words.extend(
        MODEL
            .split_whitespace()
            .filter(|word| !word.starts_with("workload")),
    );
    words.push("workload.prompt_tokens=4,8,16");
    works(folder.path(), &words);
    let sweep = folder.path().join("sweep");
    for plot in ["heat_map_tpot", "scaling_ttft", "scaling_tokens_per_s"] {
        let svg = fs::read_to_string(sweep.join(format!("plots/{plot}.svg"))).unwrap();
        assert!(svg.contains("workload.prompt_tokens"), "{plot}");
    }
    let map = fs::read_to_string(sweep.join("plots/heat_map_tpot.svg")).unwrap();
    assert_eq!(map.matches("class=\"heat\"").count(), 6);
    let page = fs::read_to_string(sweep.join("comparison.html")).unwrap();
    for job in 0..6 {
        let link = format!("<a href=\"{job}/report.html\">job {job}</a>");
        assert!(page.contains(&link), "{link}");
    }
    // Everything is complete: nothing runs again.
    let again = [&words[..], &["--resume"]].concat();
    let output = llmprof(folder.path(), &again);
    assert_eq!(output.status.code(), Some(0));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("job 0 (of 6)"));
    // One that failed does, and what it left stays.
    let file = sweep.join("3/run.json");
    let failed = fs::read_to_string(&file)
        .unwrap()
        .replace("\"complete\"", "\"failed\"");
    fs::write(&file, failed).unwrap();
    let output = llmprof(folder.path(), &again);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("job 3 (of 6)") && !said.contains("job 2 (of 6)"),
        "{said}"
    );
    assert_eq!(json(&file)["status"], "complete");
    assert!(sweep.join("3.attempt1/run.json").is_file());
}

/// A trace of two generations whose decode is one range each, with nothing that shows its steps.
fn without_steps(kernel_us: f64) -> String {
    let mut events = Vec::new();
    let mut correlation = 0;
    for generation in 0..2 {
        let start = f64::from(generation) * 10_000.0;
        for (name, at, length, kernel) in [
            ("prefill", start, 1000.0, 500.0),
            ("decode", start + 1000.0, 4000.0, kernel_us),
        ] {
            correlation += 1;
            events.push(serde_json::json!({"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1,
                "ts": at, "dur": length}));
            events.push(serde_json::json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1,
                "tid": 1, "ts": at + 10.0, "dur": 5.0, "args": {"correlation": correlation}}));
            events.push(serde_json::json!({"ph": "X", "cat": "kernel", "name": format!("{name}_attention_kernel"), "pid": 0,
                "tid": 7, "ts": at + 20.0, "dur": kernel,
                "args": {"device": 0, "stream": 7, "correlation": correlation}}));
        }
    }
    serde_json::json!({"schemaVersion": 1, "traceEvents": events}).to_string()
}

#[test]
fn ranges_of_decode_are_not_called_steps() {
    let folder = folder();
    for (name, kernel_us) in [("a.json", 1000.0), ("b.json", 3000.0)] {
        fs::write(folder.path().join(name), without_steps(kernel_us)).unwrap();
    }
    let comparison = compared(folder.path(), &["a.json", "b.json"]);
    let metrics: Vec<&str> = comparison["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["metric"].as_str().unwrap())
        .collect();
    assert!(
        metrics.contains(&"decode_phase") && !metrics.contains(&"decode_step"),
        "{metrics:?}"
    );
    let explained = comparison["explanations"].as_array().unwrap();
    let decode = explained
        .iter()
        .find(|one| one["metric"] == "decode_phase")
        .unwrap();
    assert_eq!(decode["per_step"], false);
    let said = works(folder.path(), &["compare", "a.json", "b.json", "-o", "out"]);
    assert!(
        said.contains("Decode (profiled)") && !said.contains("Decode step"),
        "{said}"
    );
    let page = fs::read_to_string(folder.path().join("out/compare.md")).unwrap();
    assert!(page.contains("per range"), "{page}");
}
