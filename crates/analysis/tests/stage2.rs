//! A whole stage 2 run on an H200 (`fixtures/h200/stage2`): timeline, counters and cuBLAS logs of one model.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use llmprof_analysis::counters::KernelBottleneck;
use llmprof_analysis::{Analysis, analyze};
use llmprof_record::import::{self, Limits, Profile};
use llmprof_record::run::RunRecord;
use llmprof_record::trace::{HostKind, RangeKind, Trace};
use llmprof_units::Basis;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/h200/stage2")
        .join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = fs::File::open(fixture(name)).expect("fixture");
    GzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
    bytes
}

fn imported(name: &str) -> Profile {
    let (_, profile) = import::import(&fixture(name), &Limits::default()).expect("fixture");
    profile
}

fn timeline() -> Trace {
    match imported("run.sqlite.gz") {
        Profile::Trace(trace) => *trace,
        other => panic!("{other:?}"),
    }
}

/// The run as it was saved, with the logs that cuBLAS wrote.
fn record(logs: &[&str]) -> RunRecord {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path();
    fs::copy(fixture("record.json"), run.join("record.json")).expect("record");
    fs::write(run.join("counters.json"), unpacked("counters.json.gz")).expect("counters");
    timeline().save(&run.join("trace.llmprof")).expect("trace");
    let mut record = RunRecord::load(run).expect("a run").expect("a record");
    for log in logs {
        let name = format!("cublas/{}", log.trim_end_matches(".gz"));
        record.add_profile(&name, imported(log)).expect("a log");
    }
    record
}

fn analyzed(record: &RunRecord) -> Analysis {
    analyze(record, None).expect("analysis")
}

const LOGS: [&str; 2] = ["cublas.log.gz", "cublaslt.log.gz"];

/// The innermost NVTX range around the launch of a kernel, by correlation id.
fn module(trace: &Trace, start_ns: i64) -> String {
    let kernel = trace.kernels.start.iter().position(|at| *at == start_ns);
    let correlation = trace.kernels.correlation[kernel.expect("kernel")];
    let calls = &trace.hosts;
    let is_api = |kind: HostKind| kind == HostKind::RUNTIME || kind == HostKind::DRIVER;
    let call = (0..calls.len())
        .find(|&row| calls.correlation[row] == correlation && is_api(calls.kind[row]));
    let call = call.expect("launch");
    let (thread, at) = (calls.thread[call], calls.start[call]);
    let ranges = &trace.ranges;
    let around = (0..ranges.len()).filter(|&row| {
        ranges.kind[row] == RangeKind::NVTX
            && ranges.thread[row] == thread
            && (ranges.start[row]..ranges.start[row] + ranges.duration[row]).contains(&at)
    });
    let innermost = around.min_by_key(|&row| ranges.duration[row]);
    trace
        .text(ranges.name[innermost.expect("range")])
        .to_owned()
}

/// Output and input features of each linear of Qwen2.5-0.5B.
fn features(module: &str) -> (u64, u64) {
    match module.rsplit('.').next().unwrap_or(module) {
        "q_proj" | "o_proj" => (896, 896),
        "k_proj" | "v_proj" => (128, 896),
        "gate_proj" | "up_proj" => (4864, 896),
        "down_proj" => (896, 4864),
        "lm_head" => (151_936, 896),
        other => panic!("{other} has no weights"),
    }
}

/// Two warm-ups are in the log and not on the timeline. Which module launched a kernel is known by its range, which the join by
/// launch order does not use: every shape is that of its module.
#[test]
fn every_gemm_of_the_log_meets_its_kernel() {
    let record = record(&LOGS);
    let found = analyzed(&record).gemms.expect("joined");
    assert_eq!(found.log, "cublas/cublaslt.log");
    // One prefill and three decode steps of 24 × 7 + 2 GEMMs, after two passes of the same.
    assert_eq!((found.log_calls, found.kernels), (3 * 4 * 170, 4 * 170));
    assert_eq!((found.joined, found.kernels_in_graphs), (680, 0));
    assert_eq!(found.joined_ns, found.kernels_ns);
    let trace = record.trace().expect("timeline");
    let mut compared = 0;
    for call in found.calls.iter().step_by(7) {
        let shape = &found.shapes[call.shape];
        let gemm = &shape.gemm;
        if gemm.dtype == "R_32F" {
            continue;
        }
        let module = module(trace, call.start_ns.0);
        assert_eq!((gemm.m, gemm.k), features(&module), "{module}");
        compared += 1;
    }
    assert!(compared > 90, "{compared}");
    let head = found.shapes.iter().find(|row| row.gemm.m == 151_936);
    let head = head.expect("head");
    assert_eq!((head.gemm.n, head.gemm.calls), (1, 4));
    let seconds = head.total_ns.seconds() / 4.0;
    let flops = 2.0 * 151_936.0 * 896.0;
    assert!((head.flops_per_s * seconds / flops - 1.0).abs() < 1e-9);
    // 272 MB at 4.8 TB/s are 57 µs.
    let part = head.roofline.expect("a peak for bf16");
    assert!((part - 56.8e-6 / seconds).abs() < 0.01, "{part}");
    assert!(part > 0.5 && part < 1.0, "{part}");
}

/// Torch calls cuBLASLt by itself for linears with a bias: the log of cuBLAS alone lacks three GEMMs of seven.
#[test]
fn a_log_that_lacks_calls_everywhere_is_refused() {
    let found = analyzed(&record(&LOGS[..1]));
    assert_eq!(found.gemms, None);
    let mut issues = found.issues.iter();
    let refused = issues.find(|issue| issue.code.as_str() == "gemms.not_joined");
    let values = &refused.expect("an issue").values;
    // Four of seven linears of a layer, the head and the angles, in twelve passes.
    assert_eq!(values["calls"], 12 * (24 * 4 + 2));
    assert_eq!(values["kernels"], 680);
}

/// The log of another program: a prompt of 64 tokens and one step.
#[test]
fn a_log_of_another_program_is_refused() {
    let mut record = record(&[]);
    let other =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/h200/cublas/cublaslt.log.gz");
    let (_, log) = import::import(&other, &Limits::default()).expect("fixture");
    record.add_profile("other.log", log).expect("a log");
    let found = analyzed(&record);
    assert_eq!(found.gemms, None);
    let codes: Vec<&str> = found
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .collect();
    assert!(codes.contains(&"gemms.not_joined"), "{codes:?}");
}

/// Weights of one decode step cross DRAM once.
#[test]
fn dram_bytes_of_a_step_are_the_weights() {
    let record = record(&[]);
    let found = analyzed(&record);
    let counted = found.counters.expect("counters");
    let gemm = counted.against_model.iter().find(|row| row.kind == "gemm");
    let gemm = gemm.expect("GEMMs");
    // 494,032,768 parameters of two bytes; biases and norms are no GEMM's.
    assert!((gemm.model_bytes.0 as f64 / 988_065_536.0 - 1.0).abs() < 1e-3);
    let ratio = gemm.bytes_ratio.expect("a ratio");
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
    let head = counted
        .launches
        .iter()
        .find(|row| row.kernel.contains("384x8"));
    let head = head.expect("head");
    assert_eq!(head.class, KernelBottleneck::MemoryBound);
    assert_eq!(head.operators, ["lm_head"]);
    let places: Vec<&str> = counted
        .launches
        .iter()
        .flat_map(|row| &row.operators)
        .map(String::as_str)
        .collect();
    assert!(
        places.contains(&"model.layers.*.mlp.down_proj"),
        "{places:?}"
    );
}

/// Where counters are forbidden, classes come from the model and the timeline and say so.
#[test]
fn without_counters_the_page_is_derived() {
    let mut record = record(&[]);
    assert_eq!(analyzed(&record).derived_kernels, None);
    record.counters = None;
    let found = analyzed(&record);
    let derived = found.derived_kernels.expect("derived");
    assert_eq!(derived.basis, Basis::Derived);
    assert_eq!(derived.device, record.device.as_ref().expect("device").name);
    let head = derived
        .rows
        .iter()
        .find(|row| row.operator.ends_with("lm_head") && row.phase == "decode");
    let head = head.expect("head");
    assert_eq!(head.class, KernelBottleneck::MemoryBound);
    // By counters DRAM is at 84 % with cold caches.
    assert!((60.0..100.0).contains(&head.dram_pct), "{}", head.dram_pct);
    let narrow = derived
        .rows
        .iter()
        .find(|row| row.operator.ends_with("k_proj") && row.phase == "decode");
    assert_eq!(
        narrow.expect("k_proj").class,
        KernelBottleneck::LatencyBound
    );
    let plan = record.plan.as_mut().expect("plan");
    plan.pipeline.ncu.enable = Some(false);
    assert_eq!(analyzed(&record).derived_kernels, None);
}
