//! Damaged and hostile input: an error or an issue that names the place, never a panic, a hang or a silent drop.

#![expect(clippy::unwrap_used, reason = "what a test cannot read ends it")]

use crate::support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::LazyLock;

use llmprof_record::import::{ImportError, Limits, Source, import};
use llmprof_record::trace::{Trace, TraceFileError};
use proptest::prelude::*;
use support::import_bytes;

/// The first events of a fixture, closed properly.
static SAMPLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let content = support::unpacked("h200/torch_full.json.gz");
    let cut = memchr::memmem::find_iter(&content, b"\n  },")
        .take_while(|&at| at < 60_000)
        .last()
        .unwrap();
    let mut sample = content[..cut + 4].to_vec();
    sample.extend_from_slice(b"\n  ]\n}");
    sample
});

fn slice(fields: &str) -> String {
    format!(
        "{{\"traceEvents\": [{{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"pid\": 1, \"tid\": 1, {fields}}}]}}"
    )
}

/// The issues of a trace as `code ×count`.
fn issues(content: &str) -> Vec<String> {
    let trace = import_bytes(content.as_bytes()).unwrap();
    trace
        .issues
        .iter()
        .map(|issue| format!("{} ×{}", issue.code, issue.count))
        .collect()
}

#[test]
fn bad_fields_are_counted() {
    assert_eq!(issues(&slice("\"ts\": 1, \"dur\": 2")), [""; 0]);
    assert_eq!(
        issues(&slice("\"ts\": 1, \"dur\": NaN")),
        ["kineto.no_duration ×1"]
    );
    assert_eq!(
        issues(&slice("\"ts\": 1, \"dur\": -2")),
        ["kineto.negative_duration ×1"]
    );
    assert_eq!(issues(&slice("\"ts\": 1")), ["kineto.no_duration ×1"]);
    assert_eq!(issues(&slice("\"dur\": 1")), ["kineto.no_time ×1"]);
    assert_eq!(
        issues(&slice("\"ts\": NaN, \"dur\": 1")),
        ["kineto.no_time ×1"]
    );
    assert_eq!(
        issues(&slice(
            "\"ts\": 9223372036854775, \"dur\": 9223372036854775"
        )),
        ["kineto.no_time ×1"]
    );
    assert_eq!(
        issues(&slice("\"ts\": 1e999, \"dur\": 1")),
        ["kineto.no_time ×1"]
    );
    let args =
        "\"ts\": 1, \"dur\": 1, \"args\": {\"correlation\": 99999999999, \"External id\": -4}";
    assert_eq!(issues(&slice(args)), ["kineto.bad_field ×2"]);
    assert_eq!(
        issues(
            r#"{"traceEvents": [{"ph": "C", "ts": 1}, {"ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]}"#
        ),
        ["kineto.no_name ×1", "kineto.unread_phase ×1"]
    );
}

#[test]
fn clocks_may_go_backwards() {
    let event = |ts: i64| {
        format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": {ts}, "dur": 1}}"#
        )
    };
    let content = format!(
        "{{\"traceEvents\": [{}, {}, {}]}}",
        event(5),
        event(-3),
        event(2)
    );
    let trace = import_bytes(content.as_bytes()).unwrap();
    assert_eq!(trace.hosts.start[..], [-3000, 2000, 5000]);
}

#[test]
fn unescaped_quotes_lose_nothing() {
    let content = String::from_utf8(SAMPLE.clone()).unwrap();
    let whole = import_bytes(content.as_bytes()).unwrap();
    let name = "\"name\": \"aten::embedding\"";
    assert!(content.contains(name));
    let broken = content.replacen(
        name,
        "\"name\": \"say \"hello\", \"world\"\n\tand {\"go\"}\"",
        1,
    );
    let trace = import_bytes(broken.as_bytes()).unwrap();
    assert_eq!(trace.hosts.len(), whole.hosts.len());
    assert!(
        trace
            .strings
            .find("say \"hello\", \"world\"\n\tand {\"go\"}")
            .is_some()
    );
    assert_eq!(
        trace
            .issues
            .iter()
            .map(|issue| (issue.code.as_str(), issue.count))
            .collect::<Vec<_>>(),
        [("kineto.repaired", 1)]
    );
}

#[test]
fn one_broken_event_costs_one_event() {
    let content = String::from_utf8(SAMPLE.clone()).unwrap();
    let whole = import_bytes(content.as_bytes()).unwrap();
    for (good, bad) in [
        ("\"dur\": ", "\"dur\" "),
        ("\"ph\": \"X\"", "\"ph\": X\""),
        ("\"External id\": 1,", "\"External id\": 1"),
    ] {
        let trace = import_bytes(content.replacen(good, bad, 1).as_bytes()).unwrap();
        assert_eq!(trace.hosts.len() + 1, whole.hosts.len(), "{bad}");
        let issue = &trace.issues[0];
        assert_eq!(
            (issue.code.as_str(), issue.count),
            ("kineto.malformed", 1),
            "{bad}"
        );
        assert!(issue.values["byte"].as_u64() > Some(0), "{issue}");
    }
}

#[test]
fn arguments_that_are_no_object_are_reported() {
    assert_eq!(
        issues(&slice("\"ts\": 1, \"dur\": 1, \"args\": [1]")),
        ["kineto.bad_field ×1"]
    );
    assert_eq!(
        issues(&slice("\"ts\": 1, \"dur\": 1, \"args\": null")),
        [""; 0]
    );
}

#[test]
fn text_that_is_not_utf8_is_reported() {
    let mut content = slice("\"ts\": 1, \"dur\": 2").into_bytes();
    let name = memchr::memmem::find(&content, b"\"a\"").unwrap() + 1;
    content[name] = 0xff;
    let trace = import_bytes(&content).unwrap();
    assert_eq!(trace.text(trace.hosts.name[0]), "\u{fffd}");
    assert_eq!(trace.issues[0].code.as_str(), "kineto.not_utf8");
}

#[test]
fn what_is_no_profile_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits::default();
    // A directory may hold reports of counters; one that holds none is named.
    let empty = import(folder.path(), &limits).unwrap_err().to_string();
    assert!(empty.contains(&*folder.path().to_string_lossy()), "{empty}");
    let path = folder.path().join("file.json");
    assert!(matches!(
        import(&path, &limits),
        Err(ImportError::Io { .. })
    ));
    fs::write(&path, "").unwrap();
    assert!(matches!(
        import(&path, &limits),
        Err(ImportError::NotAFile { what: "empty", .. })
    ));
    for content in ["{}", "[]", "null", "hello", "{\"a\": [1, 2]}", "\u{1}\u{2}"] {
        fs::write(&path, content).unwrap();
        assert!(
            matches!(import(&path, &limits), Err(ImportError::Unknown { .. })),
            "{content}"
        );
    }
    let error = import_bytes(b"{\"traceEvents\": [{\"ph\": \"X\", \"na")
        .unwrap_err()
        .to_string();
    assert!(error.contains("at byte"), "{error}");
}

#[test]
fn a_gzip_bomb_is_refused_and_a_cut_one_recovered() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..80 {
        gzip.write_all(&zeros).unwrap();
    }
    let bomb = gzip.finish().unwrap();
    let source = Source::from_bytes(Path::new("bomb"), bomb, &Limits::default());
    assert!(
        matches!(source, Err(ImportError::TooLarge { limit_bytes, .. }) if limit_bytes == Limits::FREE_BYTES)
    );

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&SAMPLE).unwrap();
    let packed = gzip.finish().unwrap();
    let trace = import_bytes(&packed[..packed.len() * 3 / 4]).unwrap();
    let codes: Vec<_> = trace
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .collect();
    assert_eq!(codes, ["source.packing_damaged", "kineto.truncated"]);
    assert!(trace.rows() > 10);
}

#[test]
fn broken_events_without_end_take_linear_time() {
    // Every event opens a list that is never closed; reading each to the end would take hours.
    let event = r#"{"ph": "X", "args": {"x": ["#;
    let content = format!("{{\"traceEvents\": [{}]}}", vec![event; 40_000].join(","));
    let trace = import_bytes(content.as_bytes());
    assert!(trace.is_err() || !trace.unwrap().issues.is_empty());
}

#[test]
fn many_names_on_one_line() {
    let mut content = String::from("{\"traceEvents\": [");
    for index in 0..50_000 {
        let comma = if index == 0 { "" } else { "," };
        content.push_str(&format!("{comma}{{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"f{index}\",\"pid\":1,\"tid\":1,\"ts\":{index},\"dur\":1}}"));
    }
    content.push_str("]}");
    let trace = import_bytes(content.as_bytes()).unwrap();
    assert_eq!((trace.hosts.len(), trace.strings.len()), (50_000, 50_001));
    assert_eq!(trace.text(trace.hosts.name[49_999]), "f49999");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever is cut off, what is left is read, and the loss is reported.
    #[test]
    fn truncation_is_reported(cut in 0..SAMPLE.len() - 2) {
        match import_bytes(&SAMPLE[..cut]) {
            Ok(trace) => prop_assert!(trace.issues.iter().any(|issue| issue.code.as_str() == "kineto.truncated"), "{:?}", trace.issues),
            Err(error) => prop_assert!(cut < 2_000, "{error}"),
        }
    }

    /// Changed, repeated or missing bytes never panic; rows never exceed events.
    #[test]
    fn mutation_is_survived(changes in prop::collection::vec((0..SAMPLE.len(), any::<u8>(), 0..3_u8), 1..20)) {
        let mut content = SAMPLE.clone();
        for (at, byte, kind) in changes {
            let at = at.min(content.len() - 1);
            match kind {
                0 => content[at] = byte,
                1 => { content.remove(at); }
                _ => content.insert(at, byte),
            }
        }
        if let Ok(trace) = import_bytes(&content) {
            prop_assert!(trace.rows() as u64 <= trace.events_read);
        }
    }
}

#[test]
fn a_damaged_trace_file_is_refused() {
    let trace = import_bytes(&SAMPLE).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.llmprof");
    trace.save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let directory = u64::from_le_bytes(whole[16..24].try_into().unwrap()) as usize;
    let mut refused = 0;
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        match Trace::load(&path) {
            // Padding between columns and the rest of the header mean nothing.
            Ok(loaded) => assert!(loaded == trace, "a flip at byte {at} went unseen"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > whole.len() / 97 / 2, "{refused}");
    for cut in (0..whole.len())
        .step_by(1009)
        .chain([0, 7, 8, 63, 64, directory, whole.len() - 1])
    {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(Trace::load(&path).is_err(), "cut at {cut}");
    }
    let mut newer = whole.clone();
    newer[8] = 99;
    fs::write(&path, &newer).unwrap();
    assert!(matches!(
        Trace::load(&path),
        Err(TraceFileError::Version { version: 99, .. })
    ));
    assert!(matches!(
        Trace::load(folder.path()),
        Err(TraceFileError::NotATrace { .. } | TraceFileError::Io { .. })
    ));
}
