//! What no fixture has: graphs, several streams and devices, nested domains, overlaps, broken times.

use crate::record;

use std::path::Path;

use llmprof_analysis::attribution::UnattributedReason;
use llmprof_analysis::phases::PhaseSource;
use llmprof_analysis::timeline::device_events::Class;
use llmprof_analysis::trace::TraceAnalysis;
use llmprof_record::import::{Limits, Source, kineto};
use llmprof_record::trace::{
    Copy, Host, HostKind, Kernel, Memset, Range, RangeKind, Trace, TraceBuilder,
};
use proptest::prelude::*;

use self::record::record;

fn analyze(trace: &Trace) -> TraceAnalysis {
    let analysis = llmprof_analysis::analyze(&record(trace, None), None).expect("no workload");
    *analysis.timeline.expect("there is a trace")
}

/// Builds traces with little noise; times are ns.
#[derive(Default)]
struct Scene(TraceBuilder);

impl Scene {
    fn host(&mut self, kind: HostKind, name: &str, start: i64, end: i64, ids: (u32, u64)) {
        let row = Host {
            start,
            duration: end - start,
            name: self.0.intern(name),
            thread: self.0.thread(1, 1),
            kind,
            correlation: ids.0,
            external: ids.1,
            ..Host::default()
        };
        self.0.hosts.push(row);
    }

    fn operator(&mut self, name: &str, start: i64, end: i64, external: u64) {
        self.host(HostKind::OPERATOR, name, start, end, (0, external));
    }

    fn call(&mut self, name: &str, start: i64, end: i64, correlation: u32) {
        self.host(HostKind::RUNTIME, name, start, end, (correlation, 0));
    }

    fn kernel(&mut self, name: &str, start: i64, end: i64, correlation: u32, stream: u32) {
        let row = Kernel {
            start,
            duration: end - start,
            name: self.0.intern(name),
            correlation,
            stream,
            occupancy: f32::NAN,
            ..Kernel::default()
        };
        self.0.kernels.push(row);
    }

    fn range(&mut self, kind: RangeKind, domain: &str, name: &str, start: i64, end: i64) {
        let row = Range {
            start,
            duration: end - start,
            name: self.0.intern(name),
            domain: self.0.intern(domain),
            thread: self.0.thread(1, 1),
            kind,
            ..Range::default()
        };
        self.0.ranges.push(row);
    }

    fn analyze(self) -> TraceAnalysis {
        analyze(&self.0.finish())
    }
}

/// Two devices that are busy for 80 ns of 100 each are busy for 80 %, not for 160 %.
#[test]
fn devices_that_work_at_once_are_not_busy_twice() {
    let mut scene = Scene::default();
    for device in [0, 1] {
        for start in [0, 60] {
            scene.kernel("gemm", start, start + 40, 0, 7);
            let devices = scene.0.kernels.device.make_mut();
            *devices.last_mut().expect("row") = device;
        }
    }
    let analysis = scene.analyze();
    assert_eq!(
        (analysis.totals.busy_ns.0, analysis.totals.kernels),
        (160, 4)
    );
    let times = analysis.devices.iter().map(|device| &device.total);
    for time in times {
        assert_eq!((time.busy_ns.0, time.idle_ns.0), (80, 20));
    }
}

#[test]
fn kernels_of_a_graph_belong_to_the_operator_that_launched_it() {
    let mut scene = Scene::default();
    scene.operator("step", 0, 100, 7);
    scene.call("cudaGraphLaunch", 10, 20, 5);
    for (node, start) in [(1, 30), (2, 40), (3, 52)] {
        scene.kernel("gemm", start, start + 10, 5, 7);
        *scene
            .0
            .kernels
            .graph_node
            .make_mut()
            .last_mut()
            .expect("row") = node;
    }
    let analysis = scene.analyze();
    assert_eq!(analysis.attribution.len(), 1);
    let row = &analysis.attribution[0];
    assert_eq!(
        (row.operator.as_deref(), row.events, row.graph_events),
        (Some("step"), 3, 3)
    );
    let step = &analysis.operators[0].times;
    assert_eq!(
        (step.launches, step.device_events, step.device_self_ns.0),
        (1, 3, 30)
    );
    // 50..52 lies between two kernels that one call had queued.
    assert_eq!(analysis.devices[0].total.idle.queued_gap_ns.0, 2);
    assert_eq!(analysis.devices[0].launches, 1);
}

#[test]
fn communication_is_exposed_where_nothing_computes() {
    let mut scene = Scene::default();
    scene.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 0, 100, 1, 20);
    scene.kernel("gemm", 30, 60, 2, 7);
    let analysis = scene.analyze();
    let total = &analysis.devices[0].total;
    assert_eq!(
        (
            total.span_ns.0,
            total.busy_ns.0,
            total.sum_ns.0,
            total.overlap_ns.0
        ),
        (100, 100, 130, 30)
    );
    assert_eq!(total.class(Class::Communication).exposed_ns.0, 70);
    assert_eq!(total.class(Class::Compute).exposed_ns.0, 30);
    let streams: Vec<_> = analysis.devices[0]
        .streams
        .iter()
        .map(|stream| (stream.stream, stream.busy_ns.0, stream.idle_ns.0))
        .collect();
    assert_eq!(streams, [(7, 30, 70), (20, 100, 0)]);
}

#[test]
fn a_gap_is_split_piece_by_piece() {
    let mut scene = Scene::default();
    scene.call("cudaLaunchKernel", 0, 4, 1);
    scene.kernel("a", 5, 10, 1, 7);
    // The device idles from 10 to 100: the host waits until 30, works until 80, and launches.
    scene.call("cudaStreamSynchronize", 6, 30, 0);
    scene.operator("aten::item", 30, 40, 0);
    scene.operator("aten::topk", 42, 78, 0);
    scene.call("cudaLaunchKernel", 80, 90, 2);
    scene.kernel("b", 100, 110, 2, 7);
    let analysis = scene.analyze();
    let idle = &analysis.devices[0].total.idle;
    assert_eq!(
        (
            idle.host_sync_ns.0,
            idle.host_busy_ns.0,
            idle.launch_latency_ns.0
        ),
        (20, 50, 20)
    );
    assert_eq!(idle.total_ns().0, 90);
    let times = analysis.devices[0].host_operators.iter();
    let times: Vec<_> = times
        .map(|row| (row.operator.as_deref(), row.idle_ns.0))
        .collect();
    assert_eq!(
        times,
        [
            (Some("aten::topk"), 36),
            (Some("aten::item"), 10),
            (None, 4)
        ]
    );
    let delay = analysis.devices[0]
        .queueing
        .expect("launches")
        .launch_delay_ns;
    assert_eq!((delay.min, delay.max), (5.0, 20.0));
}

/// Launching takes microseconds: what is longer is not called launch latency.
#[test]
fn a_launch_that_takes_long_has_another_cause() {
    const US: i64 = 1000;
    let idle = |call: (i64, i64), start: i64| {
        let mut scene = Scene::default();
        scene.call("cudaLaunchKernel", -5 * US, -US, 1);
        scene.kernel("a", 0, 10 * US, 1, 7);
        scene.call("cudaLaunchKernel", call.0 * US, call.1 * US, 2);
        scene.kernel("b", start * US, (start + 10) * US, 2, 7);
        let idle = scene.analyze().devices[0].total.idle;
        assert_eq!(idle.total_ns().0, (start - 10) * US);
        [
            idle.host_busy_ns,
            idle.launch_latency_ns,
            idle.launch_call_ns,
            idle.queued_gap_ns,
            idle.not_started_ns,
            idle.unknown_ns,
        ]
        .map(|time| time.0 / US)
    };
    // The device is idle from 10 µs on.
    assert_eq!(idle((20, 30), 55), [10, 35, 0, 0, 0, 0]);
    // It loads a module in the call.
    assert_eq!(idle((20, 230), 235), [10, 5, 210, 0, 0, 0]);
    // It was queued for 470 µs.
    assert_eq!(idle((20, 30), 500), [10, 10, 0, 0, 470, 0]);
    assert_eq!(idle((2, 8), 14), [0, 0, 0, 4, 0, 0]);
    assert_eq!(idle((2, 8), 400), [0, 0, 0, 0, 390, 0]);
}

#[test]
fn nested_ranges_of_several_domains_make_one_path() {
    let mut scene = Scene::default();
    scene.range(RangeKind::NVTX, "", "decode", 0, 100);
    scene.range(RangeKind::NVTX, "vllm", "layer 3", 10, 60);
    scene.range(RangeKind::NVTX_START_END, "", "tail", 50, 90);
    scene.call("cudaLaunchKernel", 20, 25, 1);
    scene.call("cudaLaunchKernel", 55, 58, 2);
    scene.call("cudaLaunchKernel", 70, 75, 3);
    // The last kernel runs after the host has left the range: the phase is the time of the device.
    for (id, start) in [(1, 30), (2, 60), (3, 98)] {
        scene.kernel("gemm", start, start + 5, id, 7);
    }
    let analysis = scene.analyze();
    assert_eq!(analysis.phase_source, PhaseSource::Annotation);
    let mut paths: Vec<_> = analysis
        .attribution
        .iter()
        .map(|row| row.range.as_deref())
        .collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            Some("decode/tail"),
            Some("decode/vllm:layer 3"),
            Some("decode/vllm:layer 3/tail")
        ]
    );
    let decode = &analysis.phases[0];
    assert_eq!(
        (
            decode.name.as_str(),
            decode.span_ns.0,
            decode.device_time_ns.0
        ),
        ("decode", 73, 15)
    );
    assert_eq!(decode.devices[0].total.sum_ns.0, 15);
}

#[test]
fn what_has_no_origin_has_a_reason() {
    let mut scene = Scene::default();
    scene.operator("aten::mm", 0, 10, 1);
    scene.call("cudaLaunchKernel", 2, 4, 1);
    scene.call("cudaLaunchKernel", 20, 24, 2);
    for (correlation, start) in [(1, 30), (2, 40), (99, 50), (0, 60)] {
        scene.kernel("gemm", start, start + 10, correlation, 7);
    }
    let analysis = scene.analyze();
    let mut reasons: Vec<_> = analysis
        .unattributed
        .iter()
        .map(|row| (row.reason, row.total_ns.0))
        .collect();
    reasons.sort_unstable();
    assert_eq!(
        reasons,
        [
            (UnattributedReason::NoCorrelation, 10),
            (UnattributedReason::CallNotRecorded, 10),
            (UnattributedReason::OutsideOperators, 10)
        ]
    );
    assert_eq!(analysis.totals.attributed_ns.0, 10);
    let rows: i64 = analysis.attribution.iter().map(|row| row.total_ns.0).sum();
    assert_eq!(rows, analysis.totals.device_time_ns.0);
}

#[test]
fn negative_and_missing_durations_are_issues_and_count_nothing() {
    let json = r#"{"traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 10.0, "dur": -5.0, "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 7, "ts": 12.0, "args": {"correlation": 2}},
        {"ph": "X", "cat": "kernel", "name": "c", "pid": 0, "tid": 7, "ts": 11.0, "dur": 2.0, "args": {"correlation": 3}}
    ]}"#;
    let source =
        Source::from_bytes(Path::new("t.json"), json.into(), &Limits::default()).expect("text");
    let analysis = analyze(&kineto::read(&source).expect("trace"));
    assert_eq!(analysis.totals.kernels, 3);
    assert_eq!(analysis.totals.busy_ns.0, 2000);
    assert_eq!(analysis.totals.device_span_ns.0, 3000);
    assert_eq!(analysis.issues.len(), 2, "{:?}", analysis.issues);
}

#[test]
fn an_empty_trace_says_so() {
    let analysis = analyze(&Trace::default());
    assert_eq!(analysis.phases, []);
    assert_eq!(
        analysis.issues[0].code.as_str(),
        "analysis.no_device_events"
    );
}

/// Names that a program generates do not grow the tables without end, and lose no time.
#[test]
fn endless_names_are_folded() {
    let mut scene = Scene::default();
    for index in 0..60_000_i64 {
        let at = index * 10;
        scene.operator(&format!("generated::{index}"), at, at + 5, index as u64 + 1);
        scene.call("cudaLaunchKernel", at + 1, at + 2, index as u32 + 1);
        scene.kernel(
            &format!("kernel_{index}"),
            at + 3,
            at + 8,
            index as u32 + 1,
            7,
        );
    }
    let analysis = scene.analyze();
    assert_eq!(analysis.kernels.len(), 20_001);
    assert_eq!(analysis.operators.len(), 20_001);
    let total = 60_000 * 5;
    assert_eq!(
        analysis
            .kernels
            .iter()
            .map(|row| row.total_ns.0)
            .sum::<i64>(),
        total
    );
    assert_eq!(
        analysis
            .operators
            .iter()
            .map(|row| row.times.device_self_ns.0)
            .sum::<i64>(),
        total
    );
    assert_eq!(
        analysis
            .attribution
            .iter()
            .map(|row| row.total_ns.0)
            .sum::<i64>(),
        total
    );
    let codes: Vec<&str> = analysis
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .collect();
    assert_eq!(
        codes,
        [
            "analysis.kernels_folded",
            "analysis.operators_folded",
            "analysis.too_many_names"
        ]
    );
}

/// Times at the ends of the clock saturate.
#[test]
fn extreme_times_do_not_overflow() {
    let mut scene = Scene::default();
    scene.kernel("a", i64::MIN, i64::MIN + 10, 1, 7);
    scene.kernel("b", i64::MAX - 10, i64::MAX, 2, 7);
    scene.call("cudaLaunchKernel", i64::MIN, i64::MIN + 1, 2);
    let analysis = scene.analyze();
    assert_eq!(analysis.totals.busy_ns.0, 20);
    assert_eq!(analysis.totals.device_span_ns.0, i64::MAX);
}

/// A layer that repeats inside one step is not a step.
#[test]
fn layers_alone_are_not_taken_for_steps() {
    let mut scene = Scene::default();
    for kernel in 0..240_i64 {
        let name = format!("kernel_{}", kernel % 10);
        scene.kernel(&name, kernel * 10, kernel * 10 + 5, 0, 7);
    }
    assert_eq!(scene.analyze().phase_source, PhaseSource::Whole);
}

/// One synthesized event: table, start, duration, device, stream, correlation.
type Drawn = (u8, i64, i64, u32, u32, u32);

fn build(drawn: &[Drawn]) -> Trace {
    let mut scene = Scene::default();
    for &(table, start, duration, device, stream, correlation) in drawn {
        let end = start + duration;
        match table {
            0 | 1 => {
                let name = if correlation % 5 == 0 {
                    "ncclDevKernel_AllGather"
                } else {
                    "gemm"
                };
                scene.kernel(name, start, end, correlation, stream);
                *scene.0.kernels.device.make_mut().last_mut().expect("row") = device;
            }
            2 => {
                let name = scene.0.intern("Memcpy HtoD (Pinned -> Device)");
                let row = Copy {
                    start,
                    duration,
                    name,
                    device,
                    stream,
                    correlation,
                    ..Copy::default()
                };
                scene.0.copies.push(row);
            }
            3 => {
                let name = scene.0.intern("Memset (Device)");
                let row = Memset {
                    start,
                    duration,
                    name,
                    device,
                    stream,
                    correlation,
                    ..Memset::default()
                };
                scene.0.memsets.push(row);
            }
            4 => scene.operator("aten::mm", start, end, u64::from(correlation)),
            5 => scene.call("cudaLaunchKernel", start, end, correlation),
            6 => scene.call("cudaDeviceSynchronize", start, end, correlation),
            7 => scene.range(RangeKind::NVTX, "", "decode", start, end),
            8 => scene.range(RangeKind::NVTX_START_END, "engine", "prefill", start, end),
            _ => scene.host(HostKind::PYTHON, "nn.Module: Linear_0", start, end, (0, 0)),
        }
    }
    scene.0.finish()
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let event = (
        0_u8..10,
        -50_i64..400,
        0_i64..60,
        0_u32..2,
        7_u32..9,
        0_u32..12,
    );
    prop::collection::vec(event, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_parts_sum_to_the_whole(drawn in drawn()) {
        let trace = build(&drawn);
        let analysis = analyze(&trace);
        let totals = &analysis.totals;
        let device = drawn.iter().filter(|event| event.0 < 4);
        prop_assert_eq!(totals.device_time_ns.0, device.clone().map(|event| event.2).sum::<i64>());
        let attributed: i64 = analysis.attribution.iter().map(|row| row.total_ns.0).sum();
        prop_assert_eq!(attributed, totals.device_time_ns.0);
        let lost: i64 = analysis.unattributed.iter().map(|row| row.total_ns.0).sum();
        prop_assert_eq!(lost + totals.attributed_ns.0, totals.device_time_ns.0);
        let phases: i64 = analysis.phases.iter().map(|phase| phase.device_time_ns.0).sum();
        prop_assert_eq!(phases + totals.outside_phases_ns.0, totals.device_time_ns.0);
        let classes: u64 = analysis.devices.iter().flat_map(|device| &device.total.classes).map(|class| class.events).sum();
        prop_assert_eq!(classes, device.count() as u64);
        let breakdowns = analysis.phases.iter().flat_map(|phase| &phase.devices).chain(&analysis.devices);
        for device in breakdowns {
            for time in device.instances.iter().chain([&device.total]) {
                prop_assert_eq!(time.busy_ns.0 + time.idle_ns.0, time.span_ns.0);
                prop_assert_eq!(time.busy_ns.0 + time.overlap_ns.0, time.sum_ns.0);
                prop_assert!(time.overlap_ns.0 >= 0 && time.idle_ns.0 >= 0 && time.carried_in_ns.0 <= time.sum_ns.0);
                prop_assert_eq!(time.idle.total_ns().0, time.idle_ns.0);
                prop_assert_eq!(time.classes.iter().map(|class| class.sum_ns.0).sum::<i64>(), time.sum_ns.0);
                prop_assert_eq!(time.classes.iter().map(|class| class.exposed_ns.0).sum::<i64>(), time.busy_ns.0);
            }
            let streams: i64 = device.streams.iter().map(|stream| stream.sum_ns.0).sum();
            prop_assert_eq!(streams, device.total.sum_ns.0);
        }
    }

    /// Busy time against a count of every nanosecond that some event covers.
    #[test]
    fn busy_time_is_the_number_of_covered_moments(drawn in drawn()) {
        let analysis = analyze(&build(&drawn));
        for breakdown in &analysis.devices {
            let events = drawn.iter().filter(|event| event.0 < 4 && event.3 == breakdown.device);
            let covered = (-50..500_i64)
                .filter(|&at| events.clone().any(|event| (event.1..event.1 + event.2).contains(&at)))
                .count();
            prop_assert_eq!(breakdown.total.busy_ns.0, covered as i64);
        }
    }

    #[test]
    fn the_order_of_events_makes_no_difference(drawn in drawn(), turn in 0_usize..120) {
        let analysis = analyze(&build(&drawn));
        let mut other = drawn.clone();
        other.reverse();
        if !other.is_empty() {
            let turn = turn % other.len();
            other.rotate_left(turn);
        }
        prop_assert_eq!(analyze(&build(&other)), analysis);
    }
}
