//! Published traces, and the same traces altered, in which a figure is right and a conclusion from it would be wrong.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use llmprof_analysis::attribution::operators::ShapeRow;
use llmprof_analysis::findings::{Abstention, Conclusion, Finding, IdleRemedy};
use llmprof_analysis::matching::UnmatchedReason;
use llmprof_analysis::program::ProgramKind;
use llmprof_analysis::{Analysis, PhaseAnalysis, analyze};
use llmprof_record::import::{self, Limits};
use llmprof_record::run::{RecordedModel, RunPhase, RunRecord};
use llmprof_theory::Model;
use llmprof_theory::device::Catalog;
use serde_json::{Value, json};

const DECODE: &str = "sglang_decode_qwen3_30b_mi300/trace.json.gz";
const PREFILL: &str = "sglang_mi300/trace.json.gz";
const QWEN: &str = "qwen_h100/trace.json.gz";
const OLD: &str = "old_kineto_v100/trace.json.gz";
const RANK: &str = "ranks_dlrm/rank0.json.gz";
const INFERENCE: &str = "../faults/control.json.gz";

const ON_DEVICE: [&str; 3] = ["kernel", "gpu_memcpy", "gpu_memset"];

fn read(name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/public")
        .join(name);
    let mut text = String::new();
    let file = std::fs::File::open(file).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn record(trace: &Value) -> RunRecord {
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    std::fs::write(file.path(), trace.to_string()).unwrap();
    let (_, profile) = import::import(file.path(), &Limits::default()).unwrap();
    let mut record = RunRecord::default();
    record.add_profile("altered", profile).unwrap();
    record
}

fn analyzed(trace: &Value) -> Analysis {
    analyze(&record(trace), None).unwrap()
}

/// A trace whose events `keep` looks at, changes and keeps.
fn altered(name: &str, keep: impl Fn(&mut Value) -> bool) -> Value {
    let mut trace = read(name);
    let events = trace["traceEvents"].as_array_mut().unwrap();
    events.retain_mut(keep);
    trace
}

fn is_on_device(event: &Value) -> bool {
    event["cat"]
        .as_str()
        .is_some_and(|category| ON_DEVICE.contains(&category))
}

fn only(analysis: &Analysis) -> &PhaseAnalysis {
    let names: Vec<&str> = analysis.phases.iter().map(PhaseAnalysis::name).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    &analysis.phases[0]
}

fn finding<'a>(analysis: &'a Analysis, code: &str) -> Option<&'a Finding> {
    analysis.findings.iter().find(|one| one.code == code)
}

fn has(analysis: &Analysis, code: &str) -> bool {
    analysis
        .issues
        .iter()
        .any(|issue| issue.code.as_str() == code)
}

/// NCCL's kernels have 8 or 12 blocks by design. Those that compute in few blocks take 13 % of the busy time; GPU idle 54 %,
/// exposed communication 38 % of the step as it was recorded on the host.
#[test]
fn kernels_that_exchange_data_are_not_too_small() {
    let analysis = analyzed(&read(RANK));
    let phase = only(&analysis);
    let traced = phase.traced.as_ref().unwrap();
    let share = traced.small_kernel_share.unwrap();
    assert!((0.10..0.20).contains(&share), "{share}");
    assert_eq!(phase.class.class, None, "{:?}", phase.class);
    let exposed = traced.exposed_communication_share.unwrap();
    assert!((0.37..0.39).contains(&exposed), "{exposed}");
}

/// As a profiler leaves it that stops 200 ms after the first kernel.
fn cut() -> Value {
    let starts = |trace: &Value| {
        let events = trace["traceEvents"].as_array().unwrap().iter();
        let starts = events.filter(|event| is_on_device(event));
        let starts: Vec<f64> = starts.map(|event| event["ts"].as_f64().unwrap()).collect();
        starts
    };
    let mut first = starts(&read(PREFILL));
    first.sort_by(f64::total_cmp);
    // The first event is from before the step.
    let until = first[1] + 200_000.0;
    altered(PREFILL, |event| {
        !is_on_device(event) || event["ts"].as_f64().unwrap() < until
    })
}

fn qwen3_8b(trace: &Value) -> Analysis {
    let config = json!({
        "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16"
    });
    let mut record = record(trace);
    record.model = Some(RecordedModel {
        model: Model::from_config(&config, None).ok(),
        design: config.as_object().unwrap().clone(),
    });
    record.workload = Some(llmprof_theory::Workload::default());
    let device = Catalog::embedded().by_name("mi300x").unwrap();
    analyze(&record, Some(&device)).unwrap()
}

#[test]
fn a_step_without_all_of_its_kernels_is_compared_with_nothing() {
    let whole = qwen3_8b(&read(PREFILL));
    assert!(!has(&whole, "analysis.cut_steps"));
    assert!(only(&whole).utilization.is_some());
    assert_eq!(only(&whole).traced.as_ref().unwrap().step_ns.len(), 1);

    let analysis = qwen3_8b(&cut());
    let issue = analysis
        .issues
        .iter()
        .find(|issue| issue.code.as_str() == "analysis.cut_steps")
        .unwrap();
    let count = |key: &str| issue.values[key].as_u64().unwrap();
    assert!(
        count("launches") > 500 && count("without") > 250,
        "{issue:?}"
    );
    let phase = only(&analysis);
    assert_eq!(phase.name(), "prefill");
    assert_eq!(phase.utilization, None);
    assert_eq!(phase.roofline, None);
    assert_eq!(phase.waterfall.roofline_ns, None);
    assert_eq!(phase.class.class, None, "{:?}", phase.class);
    assert!(phase.traced.as_ref().unwrap().step_ns.is_empty());
    assert!(has(&analyzed(&cut()), "analysis.cut_steps"));
}

/// Every other kernel of a trace without ranges is lost: the device may have worked in the gaps.
#[test]
fn a_trace_without_ranges_and_kernels_has_no_idle_time() {
    let unmarked = |event: &mut Value| {
        let is_mark = ["user_annotation", "gpu_user_annotation", "python_function"]
            .iter()
            .any(|kind| event["cat"] == **kind);
        !is_mark
    };
    let whole = analyzed(&altered(PREFILL, unmarked));
    assert!(!has(&whole, "analysis.cut_steps"));
    let count = std::cell::Cell::new(0);
    let cut = analyzed(&altered(PREFILL, |event| {
        count.set(count.get() + u64::from(is_on_device(event)));
        unmarked(event) && (!is_on_device(event) || count.get().is_multiple_of(2))
    }));
    assert!(has(&cut, "analysis.cut_steps"));
    assert!(cut.phases.iter().all(PhaseAnalysis::misses_kernels));
}

/// The clock of the device is behind by 5 ms, 40 ms or 2 s: launches still lead to the step.
#[test]
fn where_clocks_disagree_the_device_alone_is_believed() {
    for name in [DECODE, QWEN, PREFILL] {
        let expected = analyzed(&read(name));
        let expected = only(&expected).waterfall.clone();
        for late in [5_000.0, 40_000.0, 2_000_000.0] {
            let analysis = analyzed(&altered(name, |event| {
                if is_on_device(event) {
                    event["ts"] = (event["ts"].as_f64().unwrap() - late).into();
                }
                true
            }));
            let timeline = analysis.timeline.as_ref().unwrap();
            // Half a second of work is queued before the device begins with it: 5 ms show nowhere.
            if !timeline.clocks_disagree && name == PREFILL {
                continue;
            }
            let phase = only(&analysis);
            let waterfall = &phase.waterfall;
            let near = |a: i64, b: i64| (a - b).abs() <= 2_000;
            assert!(
                near(waterfall.wall_ns.0, expected.wall_ns.0),
                "{name} {late}: {} where {} is expected",
                waterfall.wall_ns,
                expected.wall_ns
            );
            assert!(has(&analysis, "analysis.before_launch"), "{name} {late}");
            assert_eq!(phase.class.class, None, "{name} {late}");
            let causes: Vec<&str> = waterfall
                .idle
                .iter()
                .map(|part| part.name.as_str())
                .collect();
            assert_eq!(causes, ["unknown"], "{name} {late}");
            if let Some(idle) = finding(&analysis, "idle") {
                let disagree = matches!(idle.abstains, Some(Abstention::ClocksDisagree { .. }));
                assert!(disagree, "{name} {late}: {idle:?}");
            }
        }
    }
}

/// 772 of 798 kernels run in one launch of a HIP graph, of which Kineto writes no nodes.
#[test]
fn what_runs_in_graphs_needs_none() {
    let analysis = analyzed(&read(DECODE));
    let traced = only(&analysis).traced.as_ref().unwrap();
    assert_eq!(traced.graph_kernels, 772);
    assert_eq!(finding(&analysis, "launch_bound"), None);
}

/// 286.9 of 392.9 ms idle lie in 5 gaps of 57 ms, in which the host waits for data.
#[test]
fn loading_of_data_is_no_launch_overhead() {
    let analysis = analyzed(&read(OLD));
    let idle = finding(&analysis, "idle").unwrap();
    let Some(Conclusion::Idle {
        remedy, host_work, ..
    }) = &idle.conclusion
    else {
        panic!("{idle:?}");
    };
    assert_eq!(*remedy, Some(IdleRemedy::LessHostWork));
    let work = host_work.as_ref().unwrap();
    assert!(work.operator.contains("DataLoader"), "{work:?}");
    assert_eq!(work.gaps, 5);
    assert!((0.27..0.30).contains(&work.share), "{work:?}");
    // What a loader that keeps up would give is not in the trace.
    assert_eq!(idle.gain, None);
}

/// Copies of 18 indices run beside the graph: without them the step is no shorter.
#[test]
fn overhead_ops_behind_other_kernels_are_no_gain() {
    let analysis = analyzed(&read(DECODE));
    let waterfall = &only(&analysis).waterfall;
    assert!(waterfall.exposed_extra_ns < waterfall.extra_ns);
    let extra = finding(&analysis, "extra");
    let gain = extra.and_then(|extra| extra.gain.as_ref());
    let most =
        waterfall.wall_ns.0 as f64 / (waterfall.wall_ns.0 - waterfall.exposed_extra_ns.0) as f64;
    assert!(
        gain.is_none_or(|gain| gain.factor <= most + 1e-9),
        "{extra:?}"
    );
}

/// One count of kernels: those that were launched in the step.
#[test]
fn kernels_of_a_step_are_those_launched_in_it() {
    for (name, kernels) in [(PREFILL, 521), (DECODE, 778)] {
        let analysis = analyzed(&read(name));
        let rows = &analysis.timeline.as_ref().unwrap().phases;
        assert_eq!(rows[0].kernels, kernels, "{name}");
        let traced = only(&analysis).traced.as_ref().unwrap();
        assert_eq!(traced.kernels, kernels, "{name}");
    }
}

/// A step of evaluation among those of training: nothing computes gradients in it.
#[test]
fn a_step_without_gradients_is_no_training_step() {
    let mut trace = read(OLD);
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let step = events
        .iter()
        .find(|event| event["name"] == "ProfilerStep#7");
    let step = step.unwrap();
    let start = step["ts"].as_f64().unwrap();
    let end = start + step["dur"].as_f64().unwrap();
    events.retain(|event| {
        let name = event["name"].as_str().unwrap_or_default();
        let is_gradient = name.contains("Backward") || name.contains("AccumulateGrad");
        let time = event["ts"].as_f64().unwrap_or(0.0);
        !(is_gradient && (start..end).contains(&time))
    });
    let analysis = analyzed(&trace);
    let mut steps: Vec<(&str, usize)> = analysis
        .phases
        .iter()
        .map(|phase| (phase.name(), phase.traced.as_ref().unwrap().step_ns.len()))
        .collect();
    steps.sort_unstable();
    assert_eq!(steps, [("ProfilerStep", 1), ("training step", 5)]);
}

#[test]
fn steps_of_training_have_a_distribution() {
    let analysis = analyzed(&read(OLD));
    let phase = only(&analysis);
    let steps = &phase.traced.as_ref().unwrap().step_ns;
    assert_eq!(steps.len(), 6);
    let sum: i64 = steps.iter().map(|step| step.0).sum();
    assert_eq!(sum, phase.waterfall.wall_ns.0);
}

/// The kernels are `cutlass_80_tensorop_s1688gemm_…`: FP32 matrices that tensor cores multiply in TF32.
#[test]
fn products_of_fp32_on_tensor_cores_are_at_the_peak_of_tf32() {
    let a100 = Catalog::embedded().by_name("a100_sxm_80gb").unwrap();
    let record = record(&read("training_hta/trace.json.gz"));
    let analysis = analyze(&record, Some(&a100)).unwrap();
    let operators = &analysis.timeline.as_ref().unwrap().operators;
    let mm = operators.iter().find(|row| row.name == "aten::mm").unwrap();
    let is_large = |row: &&ShapeRow| {
        let gemm = row.cost.and_then(|cost| cost.gemm);
        gemm.is_some_and(|gemm| (gemm.m, gemm.n, gemm.k) == (512, 38_313, 2048))
    };
    let longest = mm.shapes.iter().find(is_large).unwrap();
    assert_eq!(longest.cost.unwrap().dtype, llmprof_units::DType::Tf32);
    // 64.56 of 156 TFLOP/s.
    let share = longest.work.unwrap().roofline.unwrap();
    assert!((0.40..0.43).contains(&share), "{share}");
    let rows = operators.iter().flat_map(|row| &row.shapes);
    let shares = rows.filter_map(|row| row.work?.roofline);
    assert!(shares.fold(0.0, f64::max) <= 1.005);
}

#[test]
fn a_file_that_has_its_events_twice_says_so() {
    let mut trace = read(RANK);
    assert!(!has(&analyzed(&trace), "analysis.events_twice"));
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let again: Vec<Value> = events.clone();
    events.extend(again);
    assert!(has(&analyzed(&trace), "analysis.events_twice"));
}

#[test]
fn capture_of_graphs_is_no_step() {
    let analysis = analyzed(&read("vllm_piecewise_mi300/captures_cut.json.gz"));
    assert!(has(&analysis, "analysis.graph_capture"));
    assert!(!has(&analysis, "analysis.cut_steps"));
    let names: Vec<&str> = analysis.phases.iter().map(PhaseAnalysis::name).collect();
    assert!(
        !names.iter().any(|name| name.starts_with("capture_")),
        "{names:?}"
    );
    assert!(!has(&analyzed(&read(RANK)), "analysis.graph_capture"));
}

/// The events of another process with a device of its own, µs later.
fn other_process(events: &[Value], later: f64) -> Vec<Value> {
    let mut other: Vec<Value> = events.to_vec();
    other.retain_mut(|event| {
        let Some(process) = event["pid"].as_u64() else {
            return false;
        };
        event["pid"] = (process + 100_000).into();
        for (key, more) in [("correlation", 1_000_000), ("External id", 1_000_000)] {
            if let Some(id) = event["args"][key].as_u64() {
                event["args"][key] = (id + more).into();
            }
        }
        if event["args"]["device"].is_u64() {
            event["args"]["device"] = 10.into();
        }
        if let Some(time) = event["ts"].as_f64() {
            event["ts"] = (time + later).into();
        }
        event["ph"] == "X"
    });
    other
}

/// Two processes of one engine in one file, each with a device of its own.
#[test]
fn one_step_of_two_processes_is_one_step() {
    let mut trace = read(PREFILL);
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let other = other_process(events, 0.0);
    events.extend(other);
    let analysis = analyzed(&trace);
    let phases: Vec<(&str, i64)> = analysis
        .phases
        .iter()
        .map(|phase| (phase.name(), phase.waterfall.wall_ns.0 / 100_000))
        .collect();
    let step = 4935;
    assert_eq!(
        phases,
        [("prefill (device 9)", step), ("prefill (device 10)", step)]
    );
}

/// The step of [`DECODE`], one after the other, 13 ms apart.
fn repeated(steps: u64) -> Vec<Value> {
    repeated_after(steps, 13_000.0)
}

/// The step of [`DECODE`] again and again, with so many µs from one to the next.
fn repeated_after(steps: u64, apart: f64) -> Vec<Value> {
    let trace = read(DECODE);
    let events = trace["traceEvents"].as_array().unwrap();
    let mut all = Vec::new();
    for step in 0..steps {
        all.extend(
            events
                .iter()
                .filter(|event| event["ph"] == "X")
                .map(|event| {
                    let mut event = event.clone();
                    event["ts"] = (event["ts"].as_f64().unwrap() + apart * step as f64).into();
                    for key in ["correlation", "External id"] {
                        if let Some(id) = event["args"][key].as_u64().filter(|id| *id > 0) {
                            event["args"][key] = (id + 2_000_000 * step).into();
                        }
                    }
                    event
                }),
        );
    }
    all
}

/// Ranks of an engine that are 4 ms apart: their steps are the same six, and not twelve.
#[test]
fn processes_in_lockstep_have_the_same_steps() {
    let first = repeated(6);
    let apart = |later: f64, keep: fn(&mut Value) -> bool| {
        let mut all = first.clone();
        let mut other = other_process(&first, later);
        other.retain_mut(keep);
        all.extend(other);
        analyzed(&json!({ "traceEvents": all }))
    };
    let steps = |analysis: &Analysis| -> Vec<(String, usize, i64)> {
        let phases = analysis.phases.iter();
        phases
            .map(|phase| {
                let steps = &phase.traced.as_ref().unwrap().step_ns;
                let longest = steps.iter().map(|step| step.0 / 1_000_000).max();
                (phase.name().to_owned(), steps.len(), longest.unwrap_or(0))
            })
            .collect()
    };
    let alone = analyzed(&json!({ "traceEvents": first }));
    assert_eq!(steps(&alone), [("decode".to_owned(), 6, 13)]);
    for later in [300.0, 4_000.0] {
        let phases = steps(&apart(later, |_| true));
        let names: Vec<(&str, usize)> = phases
            .iter()
            .map(|(name, steps, _)| (name.as_str(), *steps))
            .collect();
        assert_eq!(names, [("decode (device 5)", 6), ("decode (device 10)", 6)]);
        // The last step of the two ends with the later one.
        assert!(
            phases.iter().all(|(_, _, longest)| *longest <= 16),
            "{phases:?}"
        );
    }
    // An engine that decodes beside one that does not: no step is one of both.
    let other = apart(4_000.0, |event| {
        let name = event["name"].as_str().unwrap_or_default().to_owned();
        if name.starts_with("step[") {
            event["name"] = "step[EXTEND bs=1 toks=512]".into();
        }
        !name.starts_with("execute_")
    });
    assert!(!has(&other, "analysis.steps_of_processes"));
    let phases = steps(&other);
    let names: Vec<(&str, usize)> = phases
        .iter()
        .map(|(name, steps, _)| (name.as_str(), *steps))
        .collect();
    assert_eq!(
        names,
        [("decode (device 5)", 6), ("prefill (device 10)", 6)]
    );
    // On one device nobody can tell whose step the device runs.
    let shared = apart(4_000.0, |event| {
        if event["args"]["device"].is_u64() {
            event["args"]["device"] = 5.into();
        }
        true
    });
    // Nor where one of them marks no steps: its kernels would count as those of the other.
    let unmarked = apart(4_000.0, |event| {
        if event["args"]["device"].is_u64() {
            event["args"]["device"] = 5.into();
        }
        let name = event["name"].as_str().unwrap_or_default();
        !name.starts_with("step[") && !name.starts_with("execute_")
    });
    for found in [&shared, &unmarked] {
        assert!(has(found, "analysis.steps_of_processes"));
        assert_eq!(only(found).name(), "whole trace");
        assert!(found.program.shares_device() && found.program.others.len() == 2);
        assert_eq!(found.findings, []);
    }
}

/// Phases with their wall and busy times.
fn times(analysis: &Analysis) -> Vec<(String, i64, i64)> {
    let phases = analysis.phases.iter();
    phases
        .map(|phase| {
            let name = phase.name().split(" (device").next().unwrap().to_owned();
            (name, phase.waterfall.wall_ns.0, phase.waterfall.busy_ns.0)
        })
        .collect()
}

/// A language model on one GPU and training on another, recorded into one file: each has the phases that it has alone.
#[test]
fn ranges_of_a_process_say_nothing_of_devices_of_another() {
    let (inference, training) = (read(INFERENCE), read(OLD));
    let mut all = inference["traceEvents"].as_array().unwrap().clone();
    let first = |events: &[Value]| {
        let times = events.iter().filter(|event| event["ph"] == "X");
        let times = times.map(|event| event["ts"].as_f64().unwrap());
        times.fold(f64::INFINITY, f64::min)
    };
    let events = training["traceEvents"].as_array().unwrap();
    let mut other = other_process(events, first(&all) - first(events));
    for event in &mut other {
        // A whole number of µs would round ns away.
        event["ts"] = event["ts"].as_f64().unwrap().round().into();
    }
    let alone = analyzed(&json!({ "traceEvents": other }));
    all.extend(other);
    let both = analyzed(&json!({ "traceEvents": all }));
    let expected = [times(&analyzed(&inference)), times(&alone)].concat();
    let mut moved = times(&both);
    moved.sort();
    let mut sorted = expected.clone();
    sorted.sort();
    assert_eq!(moved, sorted);
    let kinds: Vec<(ProgramKind, &[u32])> = std::iter::once(&both.program)
        .chain(&both.program.others)
        .map(|program| (program.kind, program.devices.as_slice()))
        .collect();
    assert_eq!(
        kinds,
        [
            (ProgramKind::Training, &[10][..]),
            (ProgramKind::LlmInference, &[0][..])
        ]
    );
    // What training does is not said of the device that decodes.
    for phase in &both.phases {
        let is_training = phase.name().starts_with("training step");
        let traced = phase.traced.as_ref().unwrap();
        assert_eq!(traced.training.is_some(), is_training, "{}", phase.name());
    }
}

/// Half of a file: the range of decode goes on for 50 ms after the last event that was kept.
#[test]
fn a_range_that_goes_on_after_the_recording_has_no_bottleneck() {
    let whole = read(INFERENCE);
    let events = whole["traceEvents"].as_array().unwrap();
    let decode = events.iter().find(|event| event["name"] == "decode");
    let decode = decode.unwrap();
    let (start, length) = (
        decode["ts"].as_f64().unwrap(),
        decode["dur"].as_f64().unwrap(),
    );
    let half = start + length / 2.0;
    let kept: Vec<&Value> = events
        .iter()
        .filter(|event| event["ts"].as_f64().is_none_or(|time| time < half))
        .collect();
    let analysis = analyzed(&json!({ "traceEvents": kept }));
    assert!(has(&analysis, "analysis.cut_range"));
    let phases = analysis.phases.iter();
    let decode = phases.clone().find(|phase| phase.name() == "decode");
    let decode = decode.unwrap();
    assert_eq!(decode.class.class, None);
    let wall_us = decode.waterfall.wall_ns.0 as f64 / 1e3;
    assert!(
        (wall_us - length / 2.0).abs() < 0.05 * length,
        "{wall_us} of {length}"
    );
    assert!(
        analysis
            .replays
            .iter()
            .all(|replay| replay.phase != RunPhase::Decode)
    );
    let with_gain = analysis.findings.iter().filter(|one| one.gain.is_some());
    for finding in with_gain {
        assert_ne!(finding.phase, Some(RunPhase::Decode), "{}", finding.code);
    }
    assert!(!has(&analyzed(&whole), "analysis.cut_range"));
}

/// Ids of ranks in one file each begin at one: `[TP00] 4711` launches what runs on `[TP00] 5`.
#[test]
fn ids_of_merged_ranks_are_kept_apart() {
    let first = repeated(3);
    let rank = |rank: u64, later: f64| {
        let mut events = first.clone();
        for event in &mut events {
            let process = event["pid"].to_string();
            event["pid"] = format!("[TP{rank:02}] {}", process.trim_matches('"')).into();
            if event["args"]["device"].is_u64() {
                event["args"]["device"] = (5 + rank).into();
            }
            event["ts"] = (event["ts"].as_f64().unwrap() + later).into();
        }
        events
    };
    let merged: Vec<Value> = [rank(0, 0.0), rank(1, 4_000.0)].concat();
    let analysis = analyzed(&json!({ "traceEvents": merged }));
    assert!(!has(&analysis, "analysis.before_launch"));
    for phase in &analysis.phases {
        let traced = phase.traced.as_ref().unwrap();
        assert_eq!(
            (traced.step_ns.len(), traced.kernels),
            (3, 3 * 778),
            "{}",
            phase.name()
        );
    }
    assert_eq!(analysis.phases.len(), 2);
}

/// vLLM on a CPU: views and allocations touch no data; nearly all time has a category.
#[test]
fn ops_of_a_host_that_touch_no_data_move_none() {
    let analysis = analyzed(&read("vllm_cpu.json.gz"));
    let decode = analysis
        .phases
        .iter()
        .find(|phase| phase.name() == "decode")
        .unwrap();
    let waterfall = &decode.waterfall;
    assert!(waterfall.unattributed_ns.0 * 50 < waterfall.wall_ns.0);
    for row in &decode.unmatched {
        let is_view = [
            "aten::view",
            "aten::slice",
            "aten::as_strided",
            "aten::empty",
        ]
        .contains(&row.path.as_str());
        let touches = row.reason != UnmatchedReason::TouchesNoData;
        assert!(!(is_view && touches), "{row:?}");
    }
    // Without a model nothing says what is needed.
    assert_eq!(finding(&analysis, "extra"), None);
}

/// The second half of the kernels runs on another device, as in a pipeline: each waits for the other, and not for the host.
#[test]
fn a_device_that_waits_for_another_is_not_host_bound() {
    let mut trace = read(PREFILL);
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let mut starts: Vec<f64> = events
        .iter()
        .filter(|event| is_on_device(event))
        .map(|event| event["ts"].as_f64().unwrap())
        .collect();
    starts.sort_by(f64::total_cmp);
    let middle = starts[starts.len() / 2];
    for event in events.iter_mut().filter(|event| is_on_device(event)) {
        if event["ts"].as_f64().unwrap() >= middle {
            event["args"]["device"] = 10.into();
        }
    }
    let analysis = analyzed(&trace);
    assert_eq!(analysis.phases.len(), 2);
    for phase in &analysis.phases {
        let idle = phase.waterfall.share(phase.waterfall.idle_ns);
        assert!((0.4..0.6).contains(&idle), "{idle}");
        assert_eq!(phase.class.class, None, "{:?}", phase.class);
    }
}

/// A server that waits for requests between steps: nothing is recorded of its host in 300 ms, and no op of 0.1 ms took them.
#[test]
fn a_host_that_shows_nothing_is_not_busy() {
    let events = repeated_after(4, 313_000.0);
    let analysis = analyzed(&json!({ "traceEvents": events }));
    let outside = analysis
        .timeline
        .as_ref()
        .unwrap()
        .outside
        .as_ref()
        .unwrap();
    let longest = &outside.longest;
    assert!(longest.span_ns.0 > 299_000_000, "{longest:?}");
    assert!(longest.host_operator_ns.0 < 1_000_000, "{longest:?}");
    assert!(longest.idle.unknown_ns.0 > 290_000_000, "{longest:?}");
    assert!(longest.idle.host_busy_ns.0 < 5_000_000, "{longest:?}");
    let names: Vec<&str> = analysis.phases.iter().map(PhaseAnalysis::name).collect();
    assert_eq!(names, ["decode"]);
}

/// Twenty requests: the host prepares each for `host_us` in its range, launches `gpu_us` of work, and waits for it after the range.
fn awaited_requests(host_us: u64, gpu_us: u64) -> Value {
    let mut events = vec![
        json!({"ph": "X", "cat": "cpu_op", "name": "aten::empty", "ts": 0, "dur": 1, "pid": 1, "tid": 1}),
    ];
    let mut now = 10;
    for request in 1..=20_u64 {
        let launch = now + host_us;
        let [start, end] = [launch + 8, launch + 8 + gpu_us];
        events.extend([
            json!({"ph": "X", "cat": "user_annotation", "name": "request", "ts": now, "dur": host_us + 20, "pid": 1, "tid": 1}),
            json!({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": launch - 5, "dur": 15, "pid": 1, "tid": 1}),
            json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": launch, "dur": 5, "pid": 1, "tid": 1,
                "args": {"correlation": request}}),
            json!({"ph": "X", "cat": "kernel", "name": "sm90_xmma_gemm_bf16", "ts": start, "dur": gpu_us, "pid": 0, "tid": 7,
                "args": {"correlation": request, "device": 0, "stream": 7}}),
            json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": launch + 40, "dur": end - launch - 30,
                "pid": 1, "tid": 1, "args": {"correlation": 1000 + request}}),
        ]);
        now = end + 30;
    }
    json!({ "traceEvents": events })
}

/// However long the host prepares a request for, it is a part of it: neither time of no phase nor work of no request.
#[test]
fn a_range_lasts_until_its_work_is_done_where_the_host_waits_for_it() {
    for host_us in [4_000, 6_000, 8_000] {
        let analysis = analyzed(&awaited_requests(host_us, 3_000));
        let phase = only(&analysis);
        assert_eq!(phase.name(), "request");
        let (wall, busy) = (phase.waterfall.wall_ns.0, phase.waterfall.busy_ns.0);
        let each = (host_us + 8 + 3_000) * 1_000;
        assert_eq!(wall, 20 * i64::try_from(each).unwrap(), "{host_us} µs");
        assert_eq!(busy, 20 * 3_000_000, "{host_us} µs");
    }
}
