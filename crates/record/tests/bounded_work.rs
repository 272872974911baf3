//! Small files that ask for much: time and memory stay in proportion to their size. Before their limits, each of these took
//! minutes or gigabytes.

use std::path::Path;

use llmprof_record::import::{IMPORTERS, ImportError, Limits, Profile, Source, trtexec};

fn read(format: &str, bytes: impl Into<Vec<u8>>) -> Result<Profile, ImportError> {
    let source = Source::from_bytes(Path::new("input"), bytes.into(), &Limits::default())?;
    let importer = IMPORTERS.iter().find(|importer| importer.name == format);
    (importer.expect("a known format").read)(&source)
}

/// Opcodes of pickle's protocol 2.
fn text(text: &str) -> Vec<u8> {
    let length = (text.len() as u32).to_le_bytes();
    [b"X", &length[..], text.as_bytes()].concat()
}

fn dict(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let pairs = pairs
        .iter()
        .flat_map(|(key, value)| [text(key), value.clone()]);
    [
        b"}(".to_vec(),
        pairs.collect::<Vec<_>>().concat(),
        b"u".to_vec(),
    ]
    .concat()
}

fn list(items: Vec<u8>) -> Vec<u8> {
    [b"](".to_vec(), items, b"e".to_vec()].concat()
}

/// Keeps the value on the stack under a number.
fn kept(value: Vec<u8>, number: u8) -> Vec<u8> {
    [value, vec![b'q', number]].concat()
}

/// The value that was kept.
fn again(number: u8) -> Vec<u8> {
    vec![b'h', number]
}

fn pickle(value: Vec<u8>) -> Vec<u8> {
    [b"\x80\x02".to_vec(), value, b".".to_vec()].concat()
}

/// A long name that is written once and stands in each of many entries, which are two bytes: 300 KB were 30 GB.
#[test]
fn one_entry_of_a_flight_recorder_many_times() {
    let name = kept(text(&"x".repeat(100_000)), 1);
    let entry = dict(&[("profiling_name", name), ("state", again(1))]);
    let entries = [kept(entry, 2), again(2).repeat(100_000)].concat();
    let dump = dict(&[
        ("version", text("2.10")),
        ("pg_config", b"}".to_vec()),
        ("entries", list(entries)),
    ]);
    let error = read("flight_recorder", pickle(dump)).expect_err("too much is asked for");
    assert!(error.to_string().contains("takes too long"), "{error}");
}

/// The ranks of a group are a text; so many groups may share one.
#[test]
fn one_list_of_ranks_for_many_groups() {
    let config = kept(dict(&[("ranks", text(&"1,".repeat(50_000)))]), 1);
    let groups: Vec<u8> = (0..20_000)
        .flat_map(|number: u32| [text(&number.to_string()), again(1)].concat())
        .collect();
    let groups = [b"}(".to_vec(), text("first"), config, groups, b"u".to_vec()].concat();
    let dump = dict(&[("version", text("2.10")), ("pg_config", groups)]);
    assert!(read("flight_recorder", pickle(dump)).is_err());
}

/// Frames that name one long path, each with a line of its own: 1 MB was 20 GB.
#[test]
fn one_path_for_many_frames() {
    let path = format!("{}.py", "x".repeat(400_000));
    let first = dict(&[("name", text("f")), ("filename", kept(text(&path), 1))]);
    let frames: Vec<u8> = (0..20_000_u32)
        .flat_map(|line| {
            let line = [b"J".to_vec(), line.to_le_bytes().to_vec()].concat();
            dict(&[("name", text("f")), ("filename", again(1)), ("line", line)])
        })
        .collect();
    let frames = frames.chunks(frames.len() / 20_000);
    let event = |frame: &[u8]| {
        dict(&[
            ("action", text("alloc")),
            ("addr", b"K\x01".to_vec()),
            ("size", b"K\x01".to_vec()),
            ("stream", b"K\x00".to_vec()),
            ("time_us", b"K\x01".to_vec()),
            ("frames", list(frame.to_vec())),
        ])
    };
    let mut events = event(&first);
    for frame in frames {
        events.extend(event(frame));
    }
    let snapshot = dict(&[
        ("segments", b"]".to_vec()),
        ("device_traces", list(list(events))),
    ]);
    assert!(read("torch_memory", pickle(snapshot)).is_err());
}

/// Each entry was compared with every group before it, and the ranks of a group sorted again for each of them.
#[test]
fn many_communicators_and_many_ranks_of_one() {
    let mut lines = String::new();
    for number in 0..100_000 {
        lines += &format!("{{\"id\":\"{number}\",\"rank\":1,\"n_ranks\":2}}\n");
        lines += &format!("{{\"id\":\"x\",\"rank\":{number}}}\n");
    }
    lines += r#"{"id":"x","coll_perf":{"coll":"AllReduce","coll_msg_size_bytes":8}}"#;
    let Ok(Profile::Communication(communication)) = read("nccl_inspector", lines) else {
        panic!("not read");
    };
    assert_eq!(communication.communicators.len(), 100_001);
    assert_eq!(communication.communicators[1].seen.len(), 100_000);
}

/// Records have the numbers of names. Each name was hashed for each of its records, and found by looking through all kinds.
#[test]
fn long_names_of_many_records() {
    let long = "x".repeat(500_000);
    let kinds = r#"{"kind":"K"},"#.repeat(20_000);
    let records = "{},".repeat(100_000);
    let records = records.trim_end_matches(',');
    let json = format!(
        r#"{{"rocprofiler-sdk-tool":[{{
            "strings":{{"buffer_records":[{kinds}{{"kind":"MEMORY_COPY","operations":["{long}"]}},{{"kind":"HIP_RUNTIME_API","operations":["{long}"]}}],
                        "marker_api":[{{"key":0,"value":"{long}"}}]}},
            "kernel_symbols":[{{"kernel_id":0,"kernel_name":"{long}"}}],
            "buffer_records":{{"memory_copy":[{records}],"hip_api":[{records}],"marker_api":[{records}],
                               "kernel_dispatch":[{}]}}}}]}}"#,
        records.replace("{}", r#"{"dispatch_info":{}}"#)
    );
    let Ok(Profile::Trace(trace)) = read("rocprofv3_json", json) else {
        panic!("not read");
    };
    let counts = (trace.kernels.len(), trace.copies.len());
    assert_eq!(counts, (100_000, 100_000));
}

/// Products of what a file states wrapped, or ended a build with overflow checks.
#[test]
fn absurd_sizes_of_layers_are_unknown() {
    let most = u64::MAX;
    let tensor = format!(r#"{{"Dimensions":[{most}],"Format/Datatype":"FP32"}}"#);
    let halves = format!(
        r#"{{"Dimensions":[{}],"Format/Datatype":"INT8"}}"#,
        most / 2 + 1
    );
    let json = format!(
        r#"{{"Layers":[{{"Name":"a","ParameterType":"MatrixMultiply","Inputs":[],"Outputs":[{{"Dimensions":[{most},1],"Format/Datatype":"FP32"}}],
             "Weights":{{"Type":"Float","Count":{most}}}}},
            {{"Name":"b","Inputs":[{halves}],"Outputs":[{halves}]}}, {{"Name":"c","Inputs":[{tensor}],"Outputs":[]}}]}}"#
    );
    let Some(trtexec::Trtexec::Layers(layers)) = trtexec::read(&json) else {
        panic!("not read");
    };
    assert!(
        layers
            .iter()
            .all(|layer| layer.tensor_bytes.is_none() && layer.flops.is_none())
    );
    assert_eq!(layers[0].weight_bytes.0, most);
}
