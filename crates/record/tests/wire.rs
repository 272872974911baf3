//! Wire files: those that an H200 wrote, damaged ones, and processes that number things alike.

use crate::support;

use std::collections::{BTreeMap, HashMap, HashSet};

use llmprof_record::import::{Limits, wire};
use llmprof_record::issue::Severity;
use llmprof_record::trace::{CopyKind, HostKind, RangeKind, SyncKind, Trace};
use llmprof_wire::{
    Attached, Attachment, Call, Capture, Domain, Ended, GraphNode, Header, Kept, Kernel, Pop, Push,
    Record, Refused, Text,
};
use proptest::prelude::*;

const FORMAT: &str = "llmprof_wire";

fn codes(trace: &Trace) -> Vec<&str> {
    trace
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .collect()
}

/// A file of one process with these records.
fn file(process: u32, records: &[Record<'_>]) -> Vec<u8> {
    let header = Header {
        process,
        parent: 1,
        time: 1,
        unix_offset: 1_700_000_000_000_000_000,
    };
    let mut bytes = header.bytes().to_vec();
    for record in records {
        record.put(&mut bytes);
    }
    bytes
}

fn read(files: &[Vec<u8>]) -> Trace {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, bytes) in files.iter().enumerate() {
        std::fs::write(folder.path().join(format!("{number}.wire")), bytes).expect("it is written");
    }
    let files = wire::wire_files(folder.path()).expect("the folder is there");
    wire::read_files(&files, &Limits::default()).expect("some file can be read")
}

#[test]
fn a_program_of_nvcc() {
    let (trace, _) = support::check_timeline("h200/cupti/cpp.wire.gz", FORMAT);
    assert_eq!(codes(&trace), Vec::<&str>::new());
    assert_eq!(
        (trace.kernels.len(), trace.copies.len(), trace.memsets.len()),
        (150, 2, 1)
    );
    let names: HashSet<&str> = trace
        .kernels
        .name
        .iter()
        .map(|&name| trace.text(name))
        .collect();
    assert_eq!(
        names,
        HashSet::from(["axpy(int, float, float const*, float*)"])
    );
    // 100 launches, and ten of a graph of five nodes.
    let in_graphs = trace
        .kernels
        .graph_node
        .iter()
        .filter(|&&node| node != 0)
        .count();
    let nodes: HashSet<u64> = trace
        .kernels
        .graph_node
        .iter()
        .copied()
        .filter(|&node| node != 0)
        .collect();
    assert_eq!((in_graphs, nodes.len()), (50, 5));
    let known: HashSet<u64> = trace.graph_nodes.node.iter().copied().collect();
    assert_eq!(known, nodes);
    let kinds: Vec<CopyKind> = trace.copies.kind.to_vec();
    assert_eq!(kinds, [CopyKind::HOST_TO_DEVICE, CopyKind::DEVICE_TO_HOST]);
    assert!(trace.copies.bytes.iter().all(|&bytes| bytes == 4 << 20));
    assert!(trace.syncs.kind.contains(&SyncKind::STREAM));
    // Every device event has its call.
    let calls: HashSet<u32> = trace.hosts.correlation.iter().copied().collect();
    assert!(
        trace
            .kernels
            .correlation
            .iter()
            .all(|id| calls.contains(id))
    );
    let [device] = &trace.devices[..] else {
        panic!("{:?}", trace.devices)
    };
    assert_eq!(device.name, "NVIDIA H200");
    assert_eq!(
        (device.compute_capability, device.sm_count),
        (Some((9, 0)), Some(132))
    );
    assert_eq!(trace.metadata["cupti_version"], "130001");
    assert_eq!(trace.metadata["cuda_driver_version"], "13.0");
}

#[test]
fn programs_of_cupy_and_triton() {
    let (trace, _) = support::check_timeline("h200/cupti/cupy.wire.gz", FORMAT);
    assert_eq!(trace.kernels.len(), 105);
    let ranges: HashSet<(&str, &str)> = (0..trace.ranges.len())
        .filter(|&row| trace.ranges.kind[row] == RangeKind::NVTX)
        .map(|row| {
            (
                trace.text(trace.ranges.domain[row]),
                trace.text(trace.ranges.name[row]),
            )
        })
        .collect();
    assert!(ranges.contains(&("", "matmuls")), "{ranges:?}");
    // A library inside CuPy has a domain of its own.
    assert!(
        ranges.iter().any(|(domain, _)| !domain.is_empty()),
        "{ranges:?}"
    );
    let (trace, _) = support::check_timeline("h200/cupti/triton.wire.gz", FORMAT);
    let adds = trace
        .kernels
        .name
        .iter()
        .filter(|&&name| trace.text(name) == "add")
        .count();
    assert_eq!(adds, 50);
    let drivers = trace
        .hosts
        .kind
        .iter()
        .filter(|&&kind| kind == HostKind::DRIVER)
        .count();
    assert!(drivers >= 50, "Triton launches through the driver");
}

#[test]
fn workers_of_a_process_each_keep_their_numbers() {
    let files = wire::wire_files(&support::fixture("h200/cupti/forks")).unwrap();
    let trace = wire::read_files(&files, &Limits::default()).unwrap();
    // Two forked workers, which Python ends by `_exit`, and two that were spawned.
    assert_eq!(trace.kernels.len(), 301 + 601 + 302 + 602);
    assert_eq!(codes(&trace), ["wire.not_ended", "wire.not_ended"]);
    assert_eq!(trace.devices.len(), 1, "all used the same GPU");
    let mut processes: HashMap<u32, HashSet<i64>> = HashMap::new();
    for row in 0..trace.hosts.len() {
        let process = trace.threads.process[trace.hosts.thread[row].0 as usize];
        if trace.hosts.correlation[row] != 0 {
            processes
                .entry(trace.hosts.correlation[row])
                .or_default()
                .insert(process);
        }
    }
    assert!(processes.values().all(|processes| processes.len() == 1));
    let contexts: HashSet<u32> = trace.kernels.context.iter().copied().collect();
    assert_eq!(contexts.len(), 4);
    let mut launched: BTreeMap<i64, usize> = BTreeMap::new();
    for correlation in trace.kernels.correlation.iter() {
        let process = processes[correlation].iter().next().unwrap();
        *launched.entry(*process).or_default() += 1;
    }
    assert_eq!(
        launched.into_values().collect::<Vec<_>>(),
        [301, 601, 302, 602]
    );
}

#[test]
fn slices_are_marked() {
    let (trace, _) = support::check_timeline("h200/cupti/slices.wire.gz", FORMAT);
    assert_eq!(trace.metadata["slices"], "true");
    let slices: Vec<(i64, i64)> = (0..trace.ranges.len())
        .filter(|&row| trace.ranges.kind[row] == RangeKind::CAPTURE)
        .map(|row| (trace.ranges.start[row], trace.ranges.duration[row]))
        .collect();
    assert_eq!(slices.len(), 39);
    let steps =
        (0..trace.ranges.len()).filter(|&row| trace.text(trace.ranges.name[row]) == "decode_step");
    assert_eq!(steps.count(), 160, "ranges go on between slices");
}

#[test]
fn a_killed_process_and_a_cut_file_say_so() {
    let mut bytes = file(
        7,
        &[Record::Attached(Attached {
            cupti: 130_001,
            ..Attached::default()
        })],
    );
    let trace = read(&[bytes.clone()]);
    assert_eq!(codes(&trace), ["wire.not_ended"]);
    Record::Kernel(Kernel::default()).put(&mut bytes);
    bytes.truncate(bytes.len() - 1);
    assert_eq!(
        codes(&read(&[bytes.clone()])),
        ["wire.cut", "wire.not_ended"]
    );
    let last = bytes.len() - 20;
    bytes[last..].fill(0xff);
    let whole = file(8, &[Record::Ended(Ended::default())]);
    // The other process is read all the same; the one without a header is named.
    let trace = read(&[b"LLMPWIRE".to_vec(), whole, bytes]);
    assert!(codes(&trace).contains(&"wire.unreadable"));
    assert_eq!(trace.metadata["processes"], "2");
}

#[test]
fn nothing_readable_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wire");
    let mut other = file(1, &[]);
    other[8] = 99;
    std::fs::write(&path, other).unwrap();
    let error = wire::read_files(&[path], &Limits::default()).unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
}

#[test]
fn processes_that_number_alike_stay_apart() {
    let one = |process: u32| {
        let name = if process == 1 {
            b"_Z3foov".as_slice()
        } else {
            b"bar"
        };
        file(
            process,
            &[
                Record::Text(Text {
                    id: 1,
                    text: b"cudaLaunchKernel_v7000",
                }),
                Record::Text(Text { id: 2, text: name }),
                Record::Call(Call {
                    start: 5,
                    end: 6,
                    name: 1,
                    thread: 10,
                    correlation: 3,
                    domain: 2,
                    status: 0,
                }),
                Record::Kernel(Kernel {
                    start: 7,
                    end: 9,
                    name: 2,
                    context: 1,
                    correlation: 3,
                    graph: 2,
                    graph_node: 2 << 32 | 5,
                    ..Kernel::default()
                }),
                Record::GraphNode(GraphNode {
                    node: 2 << 32 | 5,
                    original: 1 << 32 | 5,
                    graph: 2,
                    time: 4,
                    thread: 10,
                    text: b"",
                }),
                Record::GraphNode(GraphNode {
                    node: 1 << 32 | 5,
                    graph: 1,
                    time: 3,
                    thread: 10,
                    text: b"model\x1flayers.0",
                    original: 0,
                }),
                Record::Ended(Ended {
                    time: 20,
                    dropped: 0,
                }),
            ],
        )
    };
    let trace = read(&[one(1), one(2)]);
    assert_eq!(codes(&trace), Vec::<&str>::new());
    let rows: Vec<_> = trace
        .kernels
        .rows()
        .map(|row| {
            (
                trace.text(row.name),
                row.correlation,
                row.context,
                row.graph,
                row.graph_node >> 32,
            )
        })
        .collect();
    assert_eq!(rows, [("foo()", 3, 1, 2, 2), ("bar", 6, 2, 4, 4)]);
    let calls: Vec<_> = trace
        .hosts
        .rows()
        .map(|row| (trace.text(row.name), row.correlation))
        .collect();
    assert_eq!(calls, [("cudaLaunchKernel", 3), ("cudaLaunchKernel", 6)]);
    let nodes: Vec<_> = trace
        .graph_nodes
        .rows()
        .map(|row| (row.node >> 32, trace.text(row.ranges), row.time))
        .collect();
    assert_eq!(nodes, [(2, "model/layers.0", 3), (4, "model/layers.0", 3)]);
}

#[test]
fn numbers_that_begin_again_when_cupti_comes_back_stay_apart() {
    let call = |start, correlation| {
        Record::Call(Call {
            start,
            end: start + 1,
            correlation,
            domain: 2,
            ..Call::default()
        })
    };
    let kernel = |start, correlation| {
        Record::Kernel(Kernel {
            start,
            end: start + 1,
            correlation,
            ..Kernel::default()
        })
    };
    let switch = |time, on| Record::Capture(Capture { time, on, slice: 1 });
    let leaves = |time| {
        Record::Attachment(Attachment {
            time,
            took: 1,
            on: 0,
        })
    };
    // The second time it counts on, the third time it begins again, out of order.
    let records = [
        switch(10, 1),
        call(11, 1),
        kernel(12, 1),
        call(13, 2),
        kernel(14, 2),
        switch(15, 0),
        leaves(16),
        switch(20, 1),
        call(21, 3),
        kernel(22, 3),
        switch(25, 0),
        leaves(26),
        Record::Refused(Refused {
            time: 27,
            status: 39,
            text: b"another tool uses CUPTI",
        }),
        switch(30, 1),
        kernel(34, 2),
        call(31, 1),
        kernel(32, 1),
        call(33, 2),
        switch(35, 0),
        Record::Kept(Kept {
            time: 35,
            text: b"the program uses CUDA graphs",
        }),
        Record::Ended(Ended {
            time: 40,
            dropped: 0,
        }),
    ];
    let trace = read(&[file(7, &records), file(8, &[call(50, 1), kernel(51, 1)])]);
    let calls: HashMap<u32, i64> = (0..trace.hosts.len())
        .map(|row| (trace.hosts.correlation[row], trace.hosts.start[row]))
        .collect();
    assert_eq!(calls.len(), 6);
    for row in 0..trace.kernels.len() {
        let called = calls[&trace.kernels.correlation[row]];
        assert_eq!(trace.kernels.start[row], called + 1);
    }
    let codes = codes(&trace);
    assert!(codes.contains(&"cupti.not_again") && codes.contains(&"cupti.kept"));
    assert!(!codes.contains(&"cupti.refused"), "{codes:?}");
}

#[test]
fn graphs_that_run_when_recording_stops_are_left_out() {
    let kernel = |start, end, graph_node| {
        Record::Kernel(Kernel {
            start,
            end,
            graph_node,
            ..Kernel::default()
        })
    };
    let switch = |time, on| Record::Capture(Capture { time, on, slice: 1 });
    let records = [
        switch(100, 1),
        kernel(110, 120, 7),
        switch(150, 0),
        // It ends when another launch of the graph does; the next one waited in the queue; a kernel of no graph is in order.
        kernel(140, 350, 8),
        kernel(160, 360, 7),
        kernel(148, 155, 0),
        switch(300, 1),
        kernel(310, 320, 7),
        Record::Ended(Ended {
            time: 400,
            dropped: 0,
        }),
    ];
    let trace = read(&[file(7, &records)]);
    assert_eq!(*trace.kernels.start, [110, 148, 310]);
    assert_eq!(*trace.kernels.duration, [10, 7, 10]);
    let issue = trace
        .issues
        .iter()
        .find(|issue| issue.code.as_str() == "wire.past_edge");
    assert_eq!(issue.map(|issue| issue.count), Some(2));
}

#[test]
fn ranges_nest_by_thread_and_domain_and_losses_are_reported() {
    let push = |time, domain, text: &'static [u8]| {
        Record::Push(Push {
            time,
            thread: 4,
            domain,
            text,
        })
    };
    let pop = |time, domain| {
        Record::Pop(Pop {
            time,
            thread: 4,
            domain,
        })
    };
    let trace = read(&[file(
        1,
        &[
            Record::Domain(Domain {
                id: 1,
                text: b"torch",
            }),
            push(10, 0, b"outer"),
            push(20, 1, b"op"),
            push(30, 0, b"inner"),
            pop(40, 1),
            pop(50, 0),
            pop(60, 0),
            pop(70, 0),
            push(80, 0, b"open"),
            Record::Capture(Capture {
                time: 5,
                on: 1,
                slice: 0,
            }),
            Record::Unknown(77),
            Record::Ended(Ended {
                time: 100,
                dropped: 0,
            }),
        ],
    )]);
    let ranges: Vec<_> = trace
        .ranges
        .rows()
        .map(|row| {
            (
                trace.text(row.name),
                trace.text(row.domain),
                row.start,
                row.duration,
            )
        })
        .collect();
    assert_eq!(
        ranges,
        [
            ("capture", "", 5, 95),
            ("outer", "", 10, 50),
            ("op", "torch", 20, 20),
            ("inner", "", 30, 20),
            ("open", "", 80, 20),
        ]
    );
    assert_eq!(
        codes(&trace),
        [
            "wire.open_range",
            "wire.unmatched_range",
            "wire.unknown_records"
        ]
    );
    assert!(
        trace
            .issues
            .iter()
            .all(|issue| issue.severity < Severity::Error)
    );
}

proptest! {
    /// Damage anywhere in a real file costs records and never a panic.
    #[test]
    fn a_damaged_file_is_read_as_far_as_it_goes(
        at in 0_usize..20_000,
        byte in any::<u8>(),
        cut in 0_usize..20_000,
    ) {
        let mut content = support::unpacked("h200/cupti/cpp.wire.gz");
        let at = at % content.len();
        content[at] = byte;
        content.truncate(cut.max(1));
        let _ = support::import_bytes(&content);
    }
}

#[test]
fn kernels_of_a_graph_lead_back_to_the_modules_they_were_captured_in() {
    let (trace, _) = support::check_timeline("h200/cupti/graph.wire.gz", FORMAT);
    let ranges: HashMap<u64, &str> = (0..trace.graph_nodes.len())
        .map(|row| {
            let ranges = trace.text(trace.graph_nodes.ranges[row]);
            (trace.graph_nodes.node[row], ranges)
        })
        .collect();
    let (mut in_modules, mut all) = (0, 0);
    for row in 0..trace.kernels.len() {
        let path = ranges
            .get(&trace.kernels.graph_node[row])
            .copied()
            .unwrap_or("");
        all += trace.kernels.duration[row];
        if path.starts_with("model") || path.starts_with("lm_head") {
            in_modules += trace.kernels.duration[row];
        }
    }
    assert!(all > 5_000_000, "three replays: {all} ns");
    assert!(in_modules * 100 >= all * 98, "{in_modules} of {all} ns");
    let paths: HashSet<&str> = ranges.values().copied().collect();
    assert!(
        paths.contains(
            "model/model.layers.3/model.layers.3.self_attn/model.layers.3.self_attn.q_proj"
        ),
        "{paths:?}"
    );
}

/// Perfetto drops slices of a row that overlap without nesting, and shows streams without names by number.
#[test]
fn a_chrome_export_has_named_rows_whose_slices_nest() {
    let (trace, _) = support::check_timeline("h200/cupti/cpp.wire.gz", FORMAT);
    assert!(!trace.syncs.is_empty());
    let mut chrome = Vec::new();
    trace.write_chrome(&mut chrome).expect("it is written");
    let chrome: serde_json::Value = serde_json::from_slice(&chrome).expect("valid JSON");
    let events = chrome["traceEvents"].as_array().expect("events");
    let row = |event: &serde_json::Value| format!("{} {}", event["pid"], event["tid"]);
    let named = |kind: &str| -> HashSet<String> {
        let named = events.iter().filter(|event| event["name"] == kind);
        named.map(row).collect()
    };
    let names = named("thread_name");
    let has_device = |event: &&serde_json::Value| event["args"]["device"].is_u64();
    let on_device: HashSet<String> = events.iter().filter(has_device).map(row).collect();
    let mut rows: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    let nanos =
        |value: &serde_json::Value| (value.as_f64().expect("a time") * 1000.0).round() as i64;
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let (start, length) = (nanos(&event["ts"]), nanos(&event["dur"]));
        let slices = rows.entry(row(event)).or_default();
        // Longer ones first, so that what nests comes after what holds it.
        slices.push((start, -(start + length)));
    }
    let syncs = rows.keys().filter(|row| row.contains("synchronization"));
    assert!(syncs.count() >= 1, "{:?}", rows.keys());
    for (row, mut slices) in rows {
        // Threads have names where the program gives them some.
        if on_device.contains(&row) {
            assert!(names.contains(&row), "{row} has no name");
        }
        slices.sort_unstable();
        let mut open: Vec<i64> = Vec::new();
        for (start, end) in slices {
            while open.last().is_some_and(|&last| last <= start) {
                open.pop();
            }
            assert!(
                open.last().is_none_or(|&last| -end <= last),
                "{row} at {start}"
            );
            open.push(-end);
        }
    }
}
