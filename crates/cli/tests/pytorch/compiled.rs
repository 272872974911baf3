//! Decode that torch compiles for the CPU.

use std::fs;

use serde_json::Value;

use super::{issues, python, run_with, stderr};

const STEPS: usize = 3;

/// One layer and code without vectors: nearly all of the time is the C++ compiler's.
#[test]
#[ignore = "live: needs torch and transformers"]
fn a_compiled_step_is_one_call_of_what_was_compiled() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("inductor");
    let output = run_with(
        folder.path(),
        &[
            ("TORCHINDUCTOR_CACHE_DIR", cache.to_str().unwrap()),
            ("ATEN_CPU_CAPABILITY", "default"),
        ],
        &[
            &format!("runtime.python={python}"),
            "runtime.compile=default",
            "+model.num_hidden_layers=1",
            "runtime.warmup=1",
            "runtime.repeats=1",
            "runtime.threads=1",
            "workload.prompt_tokens=8",
            &format!("infer.max_new_tokens={}", STEPS + 1),
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let out = folder.path().join("out");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap_or_else(|_| panic!("{name}"));
    let json = |name: &str| -> Value { serde_json::from_str(&read(name)).unwrap() };
    let env = json("env.json");
    assert_eq!(env["worker"]["compile"], "default");
    let reported = issues(&read("run.json"));
    assert!(
        reported.contains(&"ranges.compiled".to_owned()),
        "{reported:?}"
    );

    // What torch compiled ran once in each step, and nowhere else.
    let trace = fs::read_dir(out.join("torch_profiler")).unwrap();
    let mut trace = trace.map(|entry| entry.unwrap().path());
    let trace = trace.find(|path| path.to_string_lossy().ends_with(".pt.trace.json"));
    let trace: Value = serde_json::from_slice(&fs::read(trace.unwrap()).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let spans = |begin: &str| -> Vec<(f64, f64)> {
        let named = |event: &&Value| {
            event["ph"] == "X" && event["name"].as_str().unwrap().starts_with(begin)
        };
        let events = events.iter().filter(named);
        let span = |event: &Value| {
            let start = event["ts"].as_f64().unwrap();
            (start, start + event["dur"].as_f64().unwrap())
        };
        events.map(span).collect()
    };
    let calls = spans("Torch-Compiled Region");
    assert_eq!(calls.len(), STEPS);
    let of_step = spans("decode_step").into_iter().map(|(start, end)| {
        let inside = calls.iter().filter(|call| start <= call.0 && call.1 <= end);
        inside.count()
    });
    assert_eq!(of_step.collect::<Vec<_>>(), [1; STEPS]);

    // The GEMMs are still torch's own: seven of the layer and the head, in each step.
    let operators = read("operators.csv");
    let row = operators
        .lines()
        .find(|line| line.starts_with("decode,gemm,linear,f32,"));
    let row = row.unwrap_or_else(|| panic!("{operators}"));
    assert_eq!(
        row.split(',').nth(4),
        Some((8 * STEPS).to_string().as_str())
    );
    // What compiling took is the first pass's; a cache of fixed size has no new lengths.
    let analysis = json("analysis.json");
    let mut findings = analysis["findings"].as_array().unwrap().iter();
    let first = findings
        .find(|finding| finding["code"] == "first_use")
        .unwrap();
    assert!(first["conclusion"]["extra_step_ns"].is_null(), "{first}");
}
