//! What no fixture has, made from one: other layouts, other orders, graphs, arrows without ids, broken JSON.

#![expect(clippy::unwrap_used, reason = "what a test cannot read ends it")]

use crate::support;

use std::io::Write;

use llmprof_record::import::{self, ImportError, Limits, Profile, Source, kineto};
use llmprof_record::issue::Issue;
use llmprof_record::trace::{CopyKind, HostKind, RangeKind, SyncKind, Trace};
use support::{assert_same, import_bytes};

/// The events of the fixture that tell most in little space: some of every category, as Kineto wrote them.
fn events() -> Vec<String> {
    let content = String::from_utf8(support::unpacked("h200/torch_full.json.gz")).unwrap();
    let list = content.split_once("\"traceEvents\": [\n").unwrap().1;
    let list = list.rsplit_once("\n  ],").unwrap().0;
    let all: Vec<&str> = list.split(",\n  {\n").collect();
    let mut kept = Vec::new();
    let mut seen = std::collections::BTreeMap::new();
    for event in all {
        let event = event.trim_start().trim_start_matches("{\n");
        let category = event
            .split("\"cat\": \"")
            .nth(1)
            .map_or("none", |rest| rest.split('"').next().unwrap());
        let count = seen.entry(category.to_owned()).or_insert(0);
        *count += 1;
        if *count <= 12 {
            kept.push(format!("  {{\n{event}"));
        }
    }
    assert!(seen.len() >= 9, "categories: {seen:?}");
    kept
}

/// A file with these events, in Kineto's layout.
fn file(events: &[String]) -> String {
    format!(
        "{{\n  \"schemaVersion\": 1,\n  \"baseTimeNanoseconds\": 1790857026000000000,\n  \"traceEvents\": [\n{}\n  ],\n  \"traceName\": \"x\"\n}}",
        events.join(",\n")
    )
}

fn read(content: &str) -> Trace {
    import_bytes(content.as_bytes()).unwrap()
}

fn issue<'t>(trace: &'t Trace, code: &str) -> &'t Issue {
    let issue = trace
        .issues
        .iter()
        .find(|issue| issue.code.as_str() == code);
    issue.unwrap_or_else(|| panic!("no {code} among {:?}", trace.issues))
}

/// Takes the space between tokens away.
fn minified(json: &str) -> String {
    let mut out = String::new();
    let (mut quoted, mut escaped) = (false, false);
    for character in json.chars() {
        if quoted || !character.is_whitespace() {
            out.push(character);
        }
        match character {
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && character == '\\' && !escaped;
    }
    out
}

#[test]
fn layout_does_not_matter() {
    let pretty = file(&events());
    let expected = read(&pretty);
    assert_eq!(expected.issues, []);
    assert_same(&read(&minified(&pretty)), &expected);
    assert_same(&read(&pretty.replace('\n', "\r\n")), &expected);
    assert_same(&read(&format!("\u{feff}{pretty}")), &expected);

    let mut bare = read(&format!("[{}]", events().join(",")));
    bare.clock_origin_ns = expected.clock_origin_ns;
    bare.metadata.clone_from(&expected.metadata);
    assert_same(&bare, &expected);
    let unclosed = import_bytes(format!("[{}", events().join(",")).as_bytes()).unwrap();
    assert_eq!(unclosed.issues, [], "Chrome's format lets the bracket off");
}

/// One event a line, without a list around them; several pieces of each layout, plain and packed.
#[test]
fn long_files_of_every_layout_are_the_same_trace() {
    let content = String::from_utf8(support::unpacked("h200/torch_full.json.gz")).unwrap();
    let whole: serde_json::Value = serde_json::from_str(&content).unwrap();
    let events = whole["traceEvents"].as_array().unwrap();
    let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
    let expected = read(&format!("[{}]", lines.join(",")));
    assert_eq!(expected.kernels, read(&content).kernels);
    let indented = serde_json::to_string_pretty(events).unwrap();
    for (name, layout) in [
        ("lines", lines.join("\n")),
        ("lines with commas", lines.join(",\n")),
        ("indented", indented),
        ("not closed", format!("[\n{}", lines.join(",\n"))),
    ] {
        assert!(layout.len() > 4 << 20, "{name} is several pieces");
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        std::fs::write(&plain, &layout).unwrap();
        let packed = folder.path().join("packed");
        std::fs::write(&packed, zstd::encode_all(layout.as_bytes(), 1).unwrap()).unwrap();
        for path in [plain, packed] {
            let (format, profile) = import::import(&path, &Limits::default()).unwrap();
            assert_eq!(format, "kineto");
            let Profile::Trace(trace) = profile else {
                panic!("a timeline")
            };
            assert_eq!(trace.issues, [], "{name}");
            assert_same(&trace, &expected);
        }
    }
}

#[test]
fn order_of_events_does_not_matter() {
    let mut events = events();
    let expected = read(&file(&events));
    events.reverse();
    assert_same(&read(&file(&events)), &expected);
    // A fixed shuffle.
    let count = events.len();
    for index in 0..count {
        events.swap(index, (index * 7919 + 13) % count);
    }
    assert_same(&read(&file(&events)), &expected);
}

#[test]
fn pieces_do_not_matter() {
    // Two pieces and more in the whole fixture; the minified form is read as one.
    let content = String::from_utf8(support::unpacked("h200/torch_full.json.gz")).unwrap();
    assert_same(&read(&minified(&content)), &read(&content));
}

#[test]
fn packing_does_not_matter() {
    let content = file(&events());
    let expected = read(&content);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(content.as_bytes()).unwrap();
    assert_same(&import_bytes(&gzip.finish().unwrap()).unwrap(), &expected);
    let zstd = zstd::encode_all(content.as_bytes(), 1).unwrap();
    assert_same(&import_bytes(&zstd).unwrap(), &expected);
}

#[test]
fn arrows_stand_in_for_correlation_ids() {
    let events = events();
    let expected = read(&file(&events));
    let stripped: Vec<String> = events
        .iter()
        .map(|event| match event.split_once("\"correlation\": ") {
            Some((before, after)) => {
                let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
                format!("{before}\"was\": 0{rest}")
            }
            None => event.clone(),
        })
        .collect();
    let trace = read(&file(&stripped));
    let known = |trace: &Trace| {
        trace
            .kernels
            .correlation
            .iter()
            .filter(|&&id| id != 0)
            .count()
    };
    assert!(
        known(&trace) > 0,
        "the arrows of the sample reach some kernels"
    );
    for row in 0..trace.kernels.len() {
        if trace.kernels.correlation[row] != 0 {
            assert_eq!(
                trace.kernels.correlation[row],
                expected.kernels.correlation[row]
            );
        }
    }
    let calls = |trace: &Trace| {
        trace
            .hosts
            .rows()
            .filter(|host| host.correlation != 0)
            .count()
    };
    assert!(calls(&trace) > 0);
}

#[test]
fn graph_launches_fan_out() {
    let node = |ts: u32, node: u32| {
        format!(
            "  {{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k{node}\", \"pid\": 0, \"tid\": 7, \"ts\": {ts}.5, \"dur\": 1.25, \"args\": {{\"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": 9, \"graph id\": 3, \"graph node id\": {node}, \"grid\": [1, 2, 3], \"block\": [32, 1, 1], \"shared memory\": 48.0}}}}"
        )
    };
    let trace = read(&file(&[
        "  {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaGraphLaunch\", \"pid\": 1, \"tid\": 1, \"ts\": 1, \"dur\": 2, \"args\": {\"correlation\": 9}}".to_owned(),
        node(5, 70),
        node(7, 8_589_934_592_u64 as u32 + 71),
        node(9, 72),
    ]));
    assert_eq!(trace.kernels.len(), 3);
    assert_eq!(trace.kernels.correlation[..], [9, 9, 9]);
    assert_eq!(trace.kernels.graph[..], [3, 3, 3]);
    assert_eq!(trace.kernels.graph_node[..], [70, 71, 72]);
    assert_eq!(trace.kernels.start[..], [5500, 7500, 9500]);
    assert_eq!(trace.kernels.duration[..], [1250; 3]);
    assert_eq!(trace.kernels.grid[0], [1, 2, 3]);
    assert!(trace.kernels.occupancy[0].is_nan(), "not given");
    assert_eq!(
        issue(&trace, "kineto.bad_field").count,
        3,
        "48.0 is no whole number of bytes"
    );
}

#[test]
fn annotations_copies_syncs_and_marks_have_their_tables() {
    let slice = |category: &str, name: &str, args: &str| {
        format!(
            "  {{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}\", \"pid\": 0, \"tid\": 7, \"ts\": 1.001, \"dur\": 2.002, \"args\": {{{args}}}}}"
        )
    };
    let trace = read(&file(&[
        slice("user_annotation", "decode", "\"External id\": 5"),
        slice("gpu_user_annotation", "decode", "\"External id\": 5, \"stream\": 7"),
        slice("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "\"device\": 1, \"stream\": 3, \"bytes\": 4096, \"correlation\": 4"),
        slice("cuda_sync", "Stream Wait Event", "\"stream\": -1, \"device\": 1, \"correlation\": 6"),
        slice("something new", "x", ""),
        "  {\"ph\": \"i\", \"s\": \"t\", \"name\": \"here\", \"pid\": \"Traces\", \"tid\": \"a\", \"ts\": 9}".to_owned(),
    ]));
    assert_eq!(
        trace.ranges.kind[..],
        [
            RangeKind::DEVICE_ANNOTATION,
            RangeKind::MARK,
            RangeKind::ANNOTATION
        ]
    );
    assert_eq!((trace.ranges.external[0], trace.ranges.external[2]), (5, 5));
    assert_eq!(
        (
            trace.copies.kind[0],
            trace.copies.bytes[0],
            trace.copies.device[0]
        ),
        (CopyKind::HOST_TO_DEVICE, 4096, 1)
    );
    assert_eq!(
        (trace.syncs.kind[0], trace.syncs.stream[0]),
        (SyncKind::STREAM_WAIT, u32::MAX)
    );
    assert_eq!(
        (
            trace.hosts.kind[0],
            trace.hosts.start[0],
            trace.hosts.duration[0]
        ),
        (HostKind::OTHER, 1001, 2002)
    );
    assert_eq!(trace.issues, []);
}

#[test]
fn begin_and_end_events_make_slices() {
    let half = |phase: &str, name: &str, ts: u32| {
        format!(
            "  {{\"ph\": \"{phase}\", \"name\": \"{name}\", \"pid\": 1, \"tid\": 1, \"ts\": {ts}}}"
        )
    };
    let trace = read(&file(&[
        half("B", "outer", 1),
        half("B", "inner", 2),
        half("E", "inner", 4),
        half("E", "outer", 9),
        half("E", "stray", 10),
    ]));
    let slices: Vec<_> = trace
        .hosts
        .rows()
        .map(|h| (trace.text(h.name), h.start, h.duration))
        .collect();
    assert_eq!(slices, [("outer", 1000, 8000), ("inner", 2000, 2000)]);
    assert_eq!(issue(&trace, "kineto.unpaired").count, 1);
}

#[test]
fn users_and_secrets_do_not_pass() {
    let content = file(&["  {\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"/home/someone/run.py(3): main\", \"pid\": 1, \"tid\": 1, \"ts\": 1, \"dur\": 1}".to_owned()])
        .replacen('{', "{\"env\": {\"TOKEN\": \"hunter2\"}, \"command_line\": \"run --key hunter2\", \"hostname\": \"some-host\",", 1);
    let trace = read(&content);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.llmprof");
    trace.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for secret in ["hunter2", "someone", "some-host", "TOKEN"] {
        assert!(
            memchr::memmem::find(&bytes, secret.as_bytes()).is_none(),
            "{secret} is in the file"
        );
    }
    assert!(memchr::memmem::find(&bytes, b"~/run.py(3): main").is_some());
}

/// hipExtModuleLaunchKernel takes the grid in work-items, all other calls in blocks.
#[test]
fn grids_of_work_items_become_grids_of_blocks() {
    let launch = |name: &str, id: u32| {
        format!(
            r#"{{"ph": "X", "cat": "cuda_runtime", "name": "{name}", "pid": 1, "tid": 1, "ts": {id}, "dur": 1, "args": {{"correlation": {id}}}}},
               {{"ph": "X", "cat": "kernel", "name": "k{id}", "pid": 0, "tid": 7, "ts": 1{id}, "dur": 1, "args": {{"device": 0, "stream": 7, "correlation": {id}, "grid": [491520, 3, 1], "block": [256, 2, 1]}}}}"#
        )
    };
    let trace = read(&file(&[
        launch("hipExtModuleLaunchKernel", 1),
        launch("hipModuleLaunchKernel", 2),
    ]));
    assert_eq!(trace.kernels.grid[0], [1920, 2, 1]);
    assert_eq!(trace.kernels.grid[1], [491_520, 3, 1]);
}

/// A packed trace is unpacked while it is read; one that lies unpacked is read as a whole. Both are the same trace.
#[test]
fn packed_traces_are_what_they_unpack_to() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "h200/torch_shapes.json.gz",
        "h200/torch_full.json.gz",
        "vllm/rank0.pt.trace.json.gz",
        "vllm/async_llm.pt.trace.json.gz",
        "cpu/torch_modules.json.gz",
    ] {
        let (format, Profile::Trace(packed)) =
            import::import(&support::fixture(name), &Limits::default()).unwrap()
        else {
            panic!("{name}: no timeline");
        };
        assert_eq!(format, "kineto");
        let plain = support::import_bytes(&support::unpacked(name)).unwrap();
        support::assert_same(&packed, &plain);
    }
    // Damaged, and larger than allowed.
    let whole = std::fs::read(support::fixture("h200/torch_shapes.json.gz")).unwrap();
    let path = folder.path().join("cut.json.gz");
    for tenth in 1..10 {
        std::fs::write(&path, &whole[..whole.len() * tenth / 10]).unwrap();
        let (_, Profile::Trace(packed)) = import::import(&path, &Limits::default()).unwrap() else {
            panic!("no timeline");
        };
        let source = Source::open(&path, &Limits::default()).unwrap();
        let plain = kineto::read(&source).unwrap();
        assert!(
            packed
                .issues
                .iter()
                .any(|issue| issue.code.as_str() == "source.packing_damaged")
        );
        let codes = |trace: &Trace| {
            let mut codes: Vec<String> = trace
                .issues
                .iter()
                .map(|issue| format!("{issue}"))
                .collect();
            codes.sort();
            codes
        };
        assert_eq!(codes(&packed), codes(&plain), "{tenth} tenths");
        assert_eq!(
            support::digest(&packed),
            support::digest(&plain),
            "{tenth} tenths"
        );
    }
    let limits = Limits {
        unpacked_bytes: 8 << 20,
        ..Limits::default()
    };
    let refused = import::import(&support::fixture("h200/torch_shapes.json.gz"), &limits);
    assert!(
        matches!(refused, Err(ImportError::TooLarge { .. })),
        "{refused:?}"
    );
}

/// PyTorch numbers the nodes of autograd's graph; −1 stands for gradients that are off.
#[test]
fn numbers_of_autograd_are_kept_and_written_again() {
    let operator = |id: u64, ts: u64, sequence: &str| {
        format!(
            r#"  {{ "ph": "X", "cat": "cpu_op", "name": "aten::view", "pid": 1, "tid": 1, "ts": {ts}, "dur": 2, "args": {{ "External id": {id}{sequence} }} }}"#
        )
    };
    let trace = read(&file(&[
        operator(7, 10, r#", "Sequence number": 0, "Fwd thread id": 0"#),
        operator(8, 20, r#", "Sequence number": -1"#),
        operator(9, 30, ""),
        operator(10, 40, r#", "Sequence number": 32624"#),
    ]));
    let sequences = |trace: &Trace| [7, 8, 9, 10].map(|id| trace.autograd_sequence(id));
    let expected = [Some(0), None, None, Some(32_624)];
    assert_eq!(sequences(&trace), expected);
    let mut written = Vec::new();
    trace.write_chrome(&mut written).unwrap();
    assert_eq!(sequences(&import_bytes(&written).unwrap()), expected);
}
