//! Published traces with something taken away or called otherwise: labels of other engines, no launches, other categories, half a file.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use llmprof_analysis::{Analysis, PhaseAnalysis, analyze};
use llmprof_record::import::{self, Limits};
use llmprof_record::run::RunRecord;
use serde_json::Value;

const SGLANG: &str = "sglang_decode_qwen3_30b_mi300/trace.json.gz";
const QWEN: &str = "qwen_h100/trace.json.gz";

fn text(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/public")
        .join(name);
    let mut text = String::new();
    let file = std::fs::File::open(file).expect("a fixture");
    GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("text");
    text
}

/// A trace whose events `keep` looks at, changes and keeps.
fn altered(name: &str, keep: impl Fn(&mut Value) -> bool) -> Analysis {
    let mut trace: Value = serde_json::from_str(&text(name)).expect("JSON");
    let events = trace["traceEvents"].as_array_mut().expect("events");
    events.retain_mut(keep);
    analyzed(&trace.to_string())
}

fn analyzed(text: &str) -> Analysis {
    let file = tempfile::NamedTempFile::with_suffix(".json").expect("a file");
    std::fs::write(file.path(), text).expect("a disk");
    let (_, profile) = import::import(file.path(), &Limits::default()).expect("a profile");
    let mut record = RunRecord::default();
    record.add_profile("altered", profile).expect("one trace");
    analyze(&record, None).expect("nothing is refused")
}

fn is_of(event: &Value, categories: &[&str]) -> bool {
    let category = event["cat"].as_str().unwrap_or_default();
    categories.contains(&category)
}

const LAUNCHES: [&str; 3] = ["cuda_runtime", "cuda_driver", "ac2g"];
const ON_DEVICE: [&str; 1] = ["gpu_user_annotation"];

fn names(analysis: &Analysis) -> Vec<&str> {
    analysis.phases.iter().map(PhaseAnalysis::name).collect()
}

fn has(analysis: &Analysis, code: &str) -> bool {
    analysis
        .issues
        .iter()
        .any(|issue| issue.code.as_str() == code)
}

/// Wall and busy time of the only phase, µs.
fn times(analysis: &Analysis) -> (i64, i64) {
    let [phase] = analysis.phases.as_slice() else {
        panic!("{:?}", names(analysis));
    };
    let waterfall = &phase.waterfall;
    (waterfall.wall_ns.0 / 1000, waterfall.busy_ns.0 / 1000)
}

/// The host leaves the range of the step after 2.04 ms.
#[test]
fn without_launches_ranges_of_the_device_are_the_steps() {
    let analysis = altered(SGLANG, |event| !is_of(event, &LAUNCHES));
    assert_eq!(names(&analysis), ["decode"]);
    let (wall, busy) = times(&altered(SGLANG, |_| true));
    assert_eq!((wall, busy / 100), (11_471, 105));
    assert_eq!(times(&analysis), (wall, busy));
    assert!(!has(&analysis, "analysis.no_launches"));
}

#[test]
fn without_launches_ranges_of_the_host_are_no_steps_of_the_device() {
    let analysis = altered(SGLANG, |event| {
        // Nor do ids lead to operators.
        if let Some(arguments) = event["args"].as_object_mut() {
            arguments.remove("External id");
        }
        !is_of(event, &LAUNCHES) && !is_of(event, &ON_DEVICE)
    });
    assert!(
        !names(&analysis).contains(&"decode"),
        "{:?}",
        names(&analysis)
    );
    assert!(has(&analysis, "analysis.labels_dropped"));
    // All of the device's time, and nothing that the host's ranges cut off.
    let busy: i64 = analysis
        .phases
        .iter()
        .map(|phase| phase.waterfall.busy_ns.0)
        .sum();
    assert_eq!(busy / 1000, 10_618);
}

/// As the publisher has the step with launches: 34.892 ms, 31.905 ms of them busy.
#[test]
fn without_launches_operators_lead_to_the_step() {
    let analysis = altered(QWEN, |event| {
        !is_of(event, &LAUNCHES) && !is_of(event, &ON_DEVICE)
    });
    assert_eq!(names(&analysis), ["ProfilerStep"]);
    let (_, busy) = times(&analysis);
    assert!((31_800..32_000).contains(&busy), "{busy}");
}

/// An engine that hands its work to another thread and leaves the range.
#[test]
fn a_label_that_holds_none_of_the_work_is_no_step() {
    for (length, label) in [
        (10.0, "step[DECODE bs=16]"),
        (800.0, "step[DECODE bs=16]"),
        (10.0, "decode"),
    ] {
        let analysis = altered(SGLANG, |event| {
            if is_of(event, &["user_annotation"]) {
                if !event["name"].as_str().unwrap().starts_with("execute") {
                    return false;
                }
                event["name"] = label.into();
                event["dur"] = length.into();
            }
            !is_of(event, &ON_DEVICE)
        });
        assert_eq!(names(&analysis), ["whole trace"], "{label} of {length}");
        let is_told = has(&analysis, "analysis.labels_dropped");
        assert_eq!(is_told, label.starts_with("step"), "{label} of {length}");
    }
}

#[test]
fn labels_of_every_engine_are_steps() {
    let expected = times(&altered(SGLANG, |_| true));
    for (label, phase) in [
        ("execute_new_0_cached_16", "decode"),
        ("execute_new_2_cached_0", "prefill"),
        ("execute_new_1_cached_15", "mixed"),
        ("execute_context_0(0)_generation_16(16)", "decode"),
        ("execute_context_2(300)_generation_0(0)", "prefill"),
        ("step[EXTEND bs=2 toks=512]", "prefill"),
        ("step[DECODE bs=16]", "decode"),
        (
            "[Executor] _forward_step 12: 0 ctx reqs, 16 gen reqs",
            "decode",
        ),
        (
            "[Executor] _forward_step 12: 1 ctx reqs, 15 gen reqs",
            "mixed",
        ),
    ] {
        let analysis = altered(SGLANG, |event| {
            if is_of(event, &["user_annotation"]) {
                event["name"] = label.into();
            }
            true
        });
        assert_eq!(names(&analysis), [phase], "{label}");
        assert_eq!(times(&analysis), expected, "{label}");
    }
}

/// Ranges of vLLM's model runner, of which only one holds work that outlasts it: 11.4 ms on the device, 2.04 ms on the host.
#[test]
fn ranges_around_little_work_do_not_decide_what_is_asynchronous() {
    let text = text(SGLANG);
    let mut trace: Value = serde_json::from_str(&text).expect("JSON");
    let events = trace["traceEvents"].as_array_mut().expect("events");
    let is_step = |event: &Value| {
        event["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("step["))
    };
    let step = events
        .iter()
        .find(|event| is_step(event))
        .expect("a step")
        .clone();
    events.retain_mut(|event| {
        if is_of(event, &["user_annotation"]) && is_step(event) {
            event["name"] = "gpu_model_runner: forward".into();
            return true;
        }
        !is_of(event, &["user_annotation", "gpu_user_annotation"])
    });
    let start = step["ts"].as_f64().expect("a time");
    let length = step["dur"].as_f64().expect("a length");
    for (name, from, length) in [
        ("gpu_model_runner: preprocess", start - 600.0, 500.0),
        ("gpu_model_runner: sample", start + length + 20.0, 300.0),
        (
            "gpu_model_runner: postprocess",
            start + length + 400.0,
            100.0,
        ),
    ] {
        let mut range = step.clone();
        range["name"] = name.into();
        range["ts"] = from.into();
        range["dur"] = length.into();
        events.push(range);
    }
    let analysis = analyzed(&trace.to_string());
    let forward = analysis
        .phases
        .iter()
        .find(|phase| phase.name() == "gpu_model_runner: forward")
        .expect("a forward pass");
    let wall = forward.waterfall.wall_ns.0 / 1000;
    assert!((11_300..11_600).contains(&wall), "{wall}");
    assert_eq!(forward.class.class, None, "{:?}", forward.class);
}

/// Intel's and Meta's devices, and Kineto before 2022.
#[test]
fn categories_of_other_devices_and_years_are_read_alike() {
    let old = [
        ("kernel", "Kernel"),
        ("gpu_memcpy", "Memcpy"),
        ("gpu_memset", "Memset"),
        ("cuda_runtime", "Runtime"),
        ("cuda_driver", "Runtime"),
    ];
    let xpu = [
        ("cuda_runtime", "xpu_runtime"),
        ("cuda_driver", "xpu_runtime"),
    ];
    let mtia = [
        ("kernel", "mtia_ccp_events"),
        ("cuda_runtime", "mtia_runtime"),
        ("cuda_driver", "mtia_runtime"),
    ];
    let expected = altered(QWEN, |_| true);
    for categories in [&old[..], &xpu, &mtia] {
        let analysis = altered(QWEN, |event| {
            let known = categories.iter().find(|(new, _)| event["cat"] == *new);
            if let Some((_, other)) = known {
                event["cat"] = (*other).into();
            }
            true
        });
        assert_eq!(names(&analysis), ["ProfilerStep"], "{categories:?}");
        assert_eq!(times(&analysis), times(&expected), "{categories:?}");
        let kernels = |analysis: &Analysis| analysis.timeline.as_ref().unwrap().totals.kernels;
        assert_eq!(kernels(&analysis), 1465, "{categories:?}");
    }
}

#[test]
fn idle_time_of_half_a_file_is_an_upper_bound() {
    let text = text(SGLANG);
    let kernels = text.find("\"kernel\"").unwrap();
    let analysis = analyzed(&text[..kernels + (text.len() - kernels) / 2]);
    assert!(has(&analysis, "kineto.truncated"));
    assert!(has(&analysis, "analysis.events_missing"));
    assert!(!has(&analyzed(&text), "analysis.events_missing"));
}

/// As `jax.profiler` writes it for TensorBoard: no categories, a thread for each stream, the same time again by module and op.
#[test]
fn streams_of_the_trace_viewer_are_devices() {
    let mut events = vec![
        serde_json::json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}),
        serde_json::json!({"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}}),
    ];
    let threads = ["Stream #18(Compute)", "XLA Modules", "XLA Ops", "Steps"];
    for (thread, name) in threads.iter().enumerate() {
        events.push(serde_json::json!({
            "ph": "M", "pid": 1, "tid": thread, "name": "thread_name", "args": {"name": name}
        }));
    }
    let mut event = |process: u64, thread: u64, name: &str, start: u64, length: u64| {
        events.push(serde_json::json!({
            "ph": "X", "pid": process, "tid": thread, "name": name, "ts": start, "dur": length
        }));
    };
    for step in 0..8 {
        let begin = 1_000 * step;
        for layer in 0..10 {
            let start = begin + 90 * layer;
            for (name, after, length) in [("gemm_fusion_dot_3", 0, 60), ("loop_add_fusion", 60, 20)]
            {
                event(1, 0, name, start + after, length);
                event(1, 2, name, start + after, length);
            }
        }
        event(1, 0, "MemcpyD2D", begin + 890, 5);
        event(1, 1, "jit_decode_step(1234)", begin, 895);
        event(1, 3, "step", begin, 895);
        event(701, 5, "PjitFunction(decode_step)", begin, 25);
    }
    let analysis = analyzed(&serde_json::json!({ "traceEvents": events }).to_string());
    let totals = &analysis.timeline.as_ref().unwrap().totals;
    assert_eq!((totals.kernels, totals.copies), (160, 8));
    assert_eq!(names(&analysis), ["jit_decode_step"]);
    let (_, busy) = times(&analysis);
    assert_eq!(busy, 8 * (10 * 80 + 5));
    let categories = &analysis.phases[0].traced.as_ref().unwrap().longest_kernels;
    assert_eq!(categories[0].category.name(), "gemm");
}
