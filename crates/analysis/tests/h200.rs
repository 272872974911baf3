//! The analysis of real traces against what the tools themselves say.

use crate::record;

use llmprof_units::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::OnceLock;

use flate2::read::MultiGzDecoder;
use llmprof_analysis::attribution::UnattributedReason;
use llmprof_analysis::attribution::key_averages::key_averages;
use llmprof_analysis::phases::PhaseSource;
use llmprof_analysis::timeline::device_events::Class;
use llmprof_analysis::timeline::occupancy::{BlockLimits, BlockNeeds, Occupancy};
use llmprof_analysis::trace::{PhaseRow, TraceAnalysis};
use llmprof_record::import::{self, Limits, Profile, ncu_csv};
use llmprof_record::trace::{DeviceProperties, Trace};
use llmprof_theory::device::{Catalog, Device};
use serde_json::Value;

use self::record::record;

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(path)
}

fn unpacked(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    MultiGzDecoder::new(File::open(fixture(path)).expect("fixture"))
        .read_to_end(&mut bytes)
        .expect("gzip");
    bytes
}

fn import(path: &str) -> Trace {
    match import::import(&fixture(path), &Limits::default()).expect("a trace") {
        (_, Profile::Trace(trace)) => *trace,
        (format, _) => panic!("{format} is not a timeline"),
    }
}

fn analyze(trace: &Trace, device: Option<&Device>) -> TraceAnalysis {
    let analysis = llmprof_analysis::analyze(&record(trace, None), device).expect("no workload");
    *analysis.timeline.expect("there is a trace")
}

fn shapes() -> &'static (Trace, TraceAnalysis) {
    static ONCE: OnceLock<(Trace, TraceAnalysis)> = OnceLock::new();
    ONCE.get_or_init(|| {
        let trace = import("h200/torch_shapes.json.gz");
        let device = Catalog::embedded().by_name("h200").expect("device");
        let analysis = analyze(&trace, Some(&device));
        (trace, analysis)
    })
}

fn nsys() -> &'static TraceAnalysis {
    static ONCE: OnceLock<TraceAnalysis> = OnceLock::new();
    ONCE.get_or_init(|| analyze(&import("h200/nsys/qwen05.sqlite.gz"), None))
}

fn phase<'a>(analysis: &'a TraceAnalysis, name: &str) -> &'a PhaseRow {
    let mut phases = analysis.phases.iter();
    phases.find(|phase| phase.name == name).expect("phase")
}

/// One model and prompt, recorded by our library, by Nsight Systems and by torch's profiler, in processes of their own.
#[test]
fn three_tools_have_the_same_kernels_in_a_step() {
    const KERNELS: u64 = 1006;
    let a_step = |analysis: &TraceAnalysis, name: &str| {
        // The first decode of a process runs what was never run before.
        let windows = &phase(analysis, name).windows;
        let windows = &windows[usize::from(name == "decode" && windows.len() > 1)..];
        let kernels: u64 = windows.iter().map(|window| window.kernels).sum();
        let time: i64 = windows.iter().map(|window| window.device_time_ns.0).sum();
        assert_eq!(kernels % KERNELS, 0, "{name}");
        time as f64 / (kernels / KERNELS) as f64
    };
    let own = analyze(&import("h200/runs/eager05/cupti.wire.gz"), None);
    let own = a_step(&own, "decode");
    for (tool, other) in [
        ("Nsight Systems", a_step(nsys(), "decode")),
        ("torch", a_step(&shapes().1, "decode_step")),
    ] {
        assert!((own / other - 1.0).abs() < 0.01, "{tool}: {own} {other}");
    }
}

#[test]
fn all_rows_equal_torchs_key_averages() {
    let trace = &shapes().0;
    let ours: BTreeMap<String, _> = key_averages(trace)
        .into_iter()
        .map(|row| (row.key.clone(), row))
        .collect();
    let file = File::open(fixture("h200/torch_shapes.key_averages.json")).expect("fixture");
    let theirs: Vec<Value> = serde_json::from_reader(file).expect("JSON");
    assert_eq!((theirs.len(), ours.len()), (96, 96));
    for row in theirs {
        let key = row["key"].as_str().expect("key");
        let own = &ours[key];
        // Sums of µs in floating point: exact to the nanosecond after rounding.
        let ns = |field: &str| (row[field].as_f64().expect("time") * 1000.0).round() as i64;
        assert_eq!(own.count, row["count"].as_u64().expect("count"), "{key}");
        assert_eq!(
            [
                own.self_host_ns.0,
                own.host_ns.0,
                own.self_device_ns.0,
                own.device_ns.0
            ],
            [
                ns("self_cpu_us"),
                ns("cpu_us"),
                ns("self_device_us"),
                ns("device_us")
            ],
            "{key}"
        );
    }
}

#[test]
fn operators_have_the_times_of_key_averages() {
    let file = File::open(fixture("h200/torch_shapes.key_averages.json")).expect("fixture");
    let theirs: Vec<Value> = serde_json::from_reader(file).expect("JSON");
    let (_, analysis) = shapes();
    for row in &analysis.operators {
        let truth = theirs
            .iter()
            .find(|truth| truth["key"] == row.name.as_str())
            .expect("row");
        let ns = |field: &str| (truth[field].as_f64().expect("time") * 1000.0).round() as i64;
        assert_eq!(row.times.calls, truth["count"].as_u64().expect("count"));
        assert_eq!(
            row.times.device_self_ns.0,
            ns("self_device_us"),
            "{}",
            row.name
        );
        assert_eq!(row.times.host_total_ns.0, ns("cpu_us"), "{}", row.name);
        let by_shape: i64 = row
            .shapes
            .iter()
            .map(|shape| shape.times.host_self_ns.0)
            .sum();
        assert_eq!(by_shape, ns("self_cpu_us"), "{}", row.name);
    }
}

/// The totals by a second way: serde_json's values instead of our columns.
#[test]
fn totals_equal_a_count_over_the_json() {
    let json: Value = serde_json::from_slice(&unpacked("h200/torch_shapes.json.gz")).expect("JSON");
    let events = json["traceEvents"].as_array().expect("events");
    // Below 2^53 thousandths of a µs: rounding gives the integer that the text has.
    let ns =
        |event: &Value, field: &str| (event[field].as_f64().unwrap_or(0.0) * 1000.0).round() as i64;
    let mut device: Vec<(i64, i64)> = Vec::new();
    let (mut kernels, mut kernel_time) = (0, 0);
    for event in events {
        let category = event["cat"].as_str().unwrap_or_default();
        if matches!(category, "kernel" | "gpu_memcpy" | "gpu_memset") {
            device.push((ns(event, "ts"), ns(event, "ts") + ns(event, "dur")));
        }
        if category == "kernel" {
            kernels += 1;
            kernel_time += ns(event, "dur");
        }
    }
    device.sort_unstable();
    let (mut busy, mut reached) = (0, i64::MIN);
    for &(start, end) in &device {
        busy += (end - start.max(reached)).max(0);
        reached = reached.max(end);
    }
    let totals = shapes().1.totals;
    assert_eq!(totals.events, events.len() as u64);
    assert_eq!(totals.kernels, kernels);
    assert_eq!(totals.kernel_time_ns.0, kernel_time);
    assert_eq!(totals.busy_ns.0, busy);
    assert_eq!(totals.device_span_ns.0, reached - device[0].0);
    assert_eq!(totals.attributed_ns.0, totals.device_time_ns.0);
}

#[test]
fn nine_forward_passes_are_shown_by_shapes() {
    let (_, analysis) = shapes();
    assert_eq!(analysis.phase_source, PhaseSource::Shapes);
    let phases: Vec<(&str, u64)> = analysis
        .phases
        .iter()
        .map(|phase| (phase.name.as_str(), phase.instances))
        .collect();
    assert_eq!(phases, [("prefill", 1), ("decode_step", 8)]);
    for phase in &analysis.phases {
        for window in &phase.windows {
            assert_eq!(window.kernels, 1006);
        }
    }
}

#[test]
fn three_steps_are_inferred_beside_python_stacks() {
    let analysis = analyze(&import("h200/torch_full.json.gz"), None);
    let steps: Vec<u64> = analysis
        .phases
        .iter()
        .flat_map(|phase| phase.windows.iter().map(|window| window.kernels))
        .collect();
    assert_eq!(steps, [1006, 1006, 1006]);
    // Modules come from Python frames; every kernel was launched inside the model or its token choice.
    let in_modules: i64 = analysis
        .attribution
        .iter()
        .filter(|row| {
            row.module
                .as_deref()
                .is_some_and(|path| path.starts_with("Qwen2ForCausalLM_0"))
        })
        .map(|row| row.total_ns.0)
        .sum();
    assert!(
        in_modules * 100 > analysis.totals.device_time_ns.0 * 97,
        "{in_modules}"
    );
    let projection = analysis.attribution.iter().find(|row| {
        row.operator.as_deref() == Some("aten::mm")
            && row
                .module
                .as_deref()
                .is_some_and(|path| path.contains("/Qwen2DecoderLayer_3/Qwen2MLP_3/Linear_"))
    });
    assert!(projection.is_some());
}

/// W and the device events of the second `decode` range, from the database: end − start of the range, and the sum over
/// kernels, copies and memsets clipped to it.
#[test]
fn the_second_decode_range_has_its_golden_times() {
    let decode = phase(nsys(), "decode");
    assert_eq!(nsys().phase_source, PhaseSource::Annotation);
    assert_eq!(decode.instances, 2);
    let warm = &decode.devices[0].instances[1];
    assert_eq!(warm.span_ns.0, 129_277_747);
    assert_eq!(warm.sum_ns.0, 8_215_266);
    assert_eq!(warm.busy_ns.0 + warm.overlap_ns.0, warm.sum_ns.0);
    assert_eq!(warm.busy_ns.0 + warm.idle_ns.0, warm.span_ns.0);
    assert_eq!(warm.idle.total_ns().0, warm.idle_ns.0);
    // One stream: nothing can overlap.
    assert_eq!(warm.overlap_ns.0, 0);
    // Host-bound: the device waits for launches, not for data.
    assert!(
        warm.idle.host_busy_ns.0 * 2 > warm.idle_ns.0,
        "{:?}",
        warm.idle
    );
}

#[test]
fn kineto_and_nsys_agree_on_the_device_time_of_a_decode_step() {
    let (_, kineto) = shapes();
    let steps = phase(kineto, "decode_step");
    let kineto_step = steps.device_time_ns.0 as f64 / steps.instances as f64;
    let warm = phase(nsys(), "decode").windows[1];
    assert_eq!(warm.kernels % 1006, 0);
    let nsys_step = warm.device_time_ns.0 as f64 / (warm.kernels / 1006) as f64;
    assert!(
        (kineto_step / nsys_step - 1.0).abs() < 1e-3,
        "{kineto_step} ns and {nsys_step} ns"
    );
}

#[test]
fn kineto_and_nsys_join_under_canonical_names() {
    let (_, kineto) = shapes();
    for analysis in [kineto, nsys()] {
        let names: BTreeSet<&str> = analysis
            .kernels
            .iter()
            .map(|row| row.canonical.as_str())
            .collect();
        assert_eq!(
            names.len(),
            analysis.kernels.len(),
            "two kernels meet under one name"
        );
    }
    let known: BTreeSet<&str> = nsys()
        .kernels
        .iter()
        .map(|row| row.canonical.as_str())
        .collect();
    let joined = kineto
        .kernels
        .iter()
        .filter(|row| known.contains(row.canonical.as_str()));
    let joined: i64 = joined.map(|row| row.total_ns.0).sum();
    assert!(
        joined * 100 >= kineto.totals.kernel_time_ns.0 * 99,
        "{joined}"
    );
}

#[test]
fn the_parts_hold_all_device_time() {
    for analysis in [&shapes().1, nsys()] {
        let totals = &analysis.totals;
        let attributed: i64 = analysis.attribution.iter().map(|row| row.total_ns.0).sum();
        assert_eq!(attributed, totals.device_time_ns.0);
        let in_phases: i64 = analysis
            .phases
            .iter()
            .map(|phase| phase.device_time_ns.0)
            .sum();
        assert_eq!(
            in_phases + totals.outside_phases_ns.0,
            totals.device_time_ns.0
        );
        let kernels: i64 = analysis.kernels.iter().map(|row| row.total_ns.0).sum();
        assert_eq!(kernels, totals.kernel_time_ns.0);
        for device in &analysis.devices {
            let exposed: i64 = device
                .total
                .classes
                .iter()
                .map(|class| class.exposed_ns.0)
                .sum();
            assert_eq!(exposed, device.total.busy_ns.0);
            assert_eq!(device.total.idle.total_ns().0, device.total.idle_ns.0);
            assert_eq!(device.total.class(Class::Memset).events, totals.memsets);
        }
    }
    let reasons: Vec<UnattributedReason> =
        nsys().unattributed.iter().map(|row| row.reason).collect();
    assert_eq!(reasons, [UnattributedReason::NoOperatorsRecorded]);
    assert_eq!(shapes().1.unattributed, []);
}

/// The matrix products of the model, counted from its config: hidden 896, 24 layers, 14 heads and 2 KV heads of 64,
/// intermediate 4864, vocabulary 151936; 128 tokens of prompt and 8 steps, logits of every position.
#[test]
fn matrix_products_cost_what_the_model_says() {
    let (_, analysis) = shapes();
    let layer = 896 * 896 + 2 * 896 * 128 + 896 * 896 + 3 * 896 * 4864;
    let flops = 2 * (24 * layer + 896 * 151_936) * (128 + 8);
    let counted: u64 = ["aten::mm", "aten::addmm"]
        .iter()
        .map(|name| {
            let row = analysis
                .operators
                .iter()
                .find(|row| row.name == *name)
                .expect("operator");
            row.work.expect("work").flops.0
        })
        .sum();
    assert_eq!(counted, flops);
    // Weights are read once a step: no product can be faster than memory allows by much (L2 holds some weights).
    let products = analysis
        .operators
        .iter()
        .find(|row| row.name == "aten::mm")
        .expect("row");
    let roofline = products.work.expect("work").roofline.expect("roofline");
    assert!((0.1..1.2).contains(&roofline), "{roofline}");
    // Attention: 24 layers of 14 heads with scores of 128·129/2 causal pairs, then 129 to 136 keys a step.
    let scores: u64 = 128 * 129 / 2 + (129..=136).sum::<u64>();
    let attention = analysis
        .operators
        .iter()
        .find(|row| row.name == "aten::_cudnn_attention_forward")
        .expect("row");
    assert_eq!(
        attention.work.expect("work").flops.0,
        24 * 14 * scores * 4 * 64
    );
}

/// Nsight Compute's own limits and waves for the 40 launches of its report.
#[test]
fn occupancy_equals_nsight_computes() {
    let counters =
        ncu_csv::read(&unpacked("h200/ncu/decode_raw.csv.gz"), "decode_raw.csv").expect("raw page");
    assert_eq!(counters.launches.len(), 40);
    for launch in &counters.launches {
        let number = |name: &str| counters.number(launch, name).expect("metric");
        let device = DeviceProperties {
            compute_capability: Some((9, 0)),
            sm_count: Some(132),
            warp_size: Some(32),
            max_threads_per_sm: Some(2048),
            registers_per_sm: Some(65_536),
            shared_per_sm_bytes: Some(Bytes(233_472)),
            ..DeviceProperties::default()
        };
        let needs = BlockNeeds {
            threads: number("launch__block_size") as u64,
            registers: number("launch__registers_per_thread") as u32,
            shared_bytes: Bytes(
                (number("launch__shared_mem_per_block_static")
                    + number("launch__shared_mem_per_block_dynamic")) as u64,
            ),
        };
        // The driver gives a kernel as much of the shared memory as it can use, and the tool's limit is by that.
        let given = DeviceProperties {
            shared_per_sm_bytes: Some(Bytes(number("launch__shared_mem_config_size") as u64)),
            ..device.clone()
        };
        let limits = BlockLimits::from_needs(needs, &given).expect("limits");
        let truth = |name: &str| Some(number(&format!("launch__occupancy_limit_{name}")) as u64);
        assert_eq!(
            [
                Some(limits.blocks),
                Some(limits.warps),
                limits.registers,
                limits.shared
            ],
            ["blocks", "warps", "registers", "shared_mem"].map(truth),
            "{}",
            launch.kernel
        );
        let blocks = number("launch__grid_size") as u64;
        let occupancy = Occupancy::from_launch(blocks, needs, &device).expect("occupancy");
        let percent = number("sm__maximum_warps_per_active_cycle_pct");
        assert_eq!(occupancy.theoretical_pct, percent, "{}", launch.kernel);
        let waves = number("launch__waves_per_multiprocessor");
        assert!(
            (occupancy.waves - waves).abs() < 0.006,
            "{} {waves}",
            occupancy.waves
        );
    }
}

#[test]
fn an_analysis_survives_json() {
    let (_, analysis) = shapes();
    let text = serde_json::to_string(analysis).expect("JSON");
    let back: TraceAnalysis = serde_json::from_str(&text).expect("the same layout");
    assert_eq!(back.totals, analysis.totals);
    assert_eq!(back.attribution, analysis.attribution);
    assert_eq!(back.unattributed, analysis.unattributed);
    assert_eq!(back.transfers, analysis.transfers);
    assert_eq!(back.api, analysis.api);
    assert_eq!(back.phases.len(), analysis.phases.len());
    let times = |analysis: &TraceAnalysis| {
        let rows = analysis.kernels.iter();
        rows.map(|row| {
            (
                row.name.clone(),
                row.calls,
                row.total_ns.0,
                row.launches.len(),
            )
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(times(&back), times(analysis));
}
