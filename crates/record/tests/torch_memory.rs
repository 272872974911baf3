//! Snapshots of torch's allocator: a real one against torch's own statistics and against Python's pickle, and damaged
//! ones.

use crate::support;

use std::{collections::BTreeMap, env, fs, path::Path, process::Command};

use llmprof_record::{
    import::{
        ImportError, Limits, Profile, Source, sniff,
        torch_memory::{
            self,
            pickle::{self, PickleError},
        },
    },
    memory::{DeviceMemory, MemoryHistory},
};
use proptest::prelude::*;
use serde_json::{Value, json};

const FIXTURE: &str = "h200/memory_snapshot.pickle.gz";

fn read(content: &[u8]) -> Result<MemoryHistory, ImportError> {
    let source = Source::from_bytes(Path::new("content"), content.to_vec(), &Limits::default())?;
    torch_memory::read(&source)
}

fn the_device(history: &MemoryHistory) -> &DeviceMemory {
    let [device] = &history.devices[..] else {
        panic!("one device, not {}", history.devices.len());
    };
    device
}

fn json_file(name: &str) -> Value {
    let bytes = fs::read(support::fixture(name)).expect("the fixture is there");
    serde_json::from_slice(&bytes).expect("it is JSON")
}

#[test]
fn the_fixture_is_known_by_its_content() {
    let content = support::unpacked(FIXTURE);
    let importer = sniff(&content[..Source::HEAD_BYTES]).unwrap();
    assert_eq!(importer.name, "torch_memory");
    let (format, profile) =
        llmprof_record::import::import(&support::fixture(FIXTURE), &Limits::default()).unwrap();
    assert_eq!(format, "torch_memory");
    assert!(matches!(profile, Profile::Memory(_)));
}

/// `torch.cuda.memory_stats()` was taken beside the snapshot.
#[test]
fn sums_are_those_of_torch() {
    let history = read(&support::unpacked(FIXTURE)).unwrap();
    assert_eq!(history.issues, []);
    let now = the_device(&history).now;
    let stats = json_file("h200/memory_stats.json");
    let stat = |name: &str| stats[format!("{name}.all.current")].as_u64().unwrap();
    assert_eq!(now.segments, stat("segment"));
    assert_eq!(now.reserved_bytes.0, stat("reserved_bytes"));
    assert_eq!(now.allocated_bytes.0, stat("allocated_bytes"));
    assert_eq!(now.active_bytes.0, stat("active_bytes"));
    assert_eq!(now.requested_bytes.0, stat("requested_bytes"));
    assert_eq!(now.inactive_split_bytes.0, stat("inactive_split_bytes"));
    let share = 1.0 - stat("allocated_bytes") as f64 / stat("reserved_bytes") as f64;
    assert!((now.fragmentation().unwrap() - share).abs() < 1e-12);
    // The recording began after the process's peak, and cannot be above it.
    let recorded = the_device(&history).history.as_ref().unwrap();
    assert!(recorded.peak.allocated_bytes.0 <= stats["allocated_bytes.all.peak"].as_u64().unwrap());
    assert!(recorded.peak.requested_bytes.0 <= stats["requested_bytes.all.peak"].as_u64().unwrap());
    assert_eq!(recorded.peak_reserved_bytes.0, stat("reserved_bytes"));
}

/// The history by the names of the recipe.
fn counts(history: &MemoryHistory) -> Value {
    let device = the_device(history);
    let recorded = device.history.as_ref().expect("a history");
    let held: BTreeMap<&str, u64> = recorded
        .at_peak
        .iter()
        .filter_map(|held| Some((held.site.as_deref()?, held.bytes.0)))
        .collect();
    let largest: Vec<Value> = recorded
        .largest
        .iter()
        .take(10)
        .map(|one| json!([one.bytes, one.blocks]))
        .collect();
    json!({
        "now": device.now,
        "allocations": recorded.allocations,
        "frees": recorded.frees,
        "points": recorded.timeline.len(),
        "requested_sum": recorded.timeline.iter().map(|point| point.requested_bytes.0).sum::<u64>(),
        "allocated_sum": recorded.timeline.iter().map(|point| point.allocated_bytes.0).sum::<u64>(),
        "peak": {
            "time_ns": recorded.peak.time_ns,
            "requested_bytes": recorded.peak.requested_bytes,
            "allocated_bytes": recorded.peak.allocated_bytes,
        },
        "held_at_peak": held,
        "largest": largest,
    })
}

#[test]
fn history_is_what_python_counts() {
    let history = read(&support::unpacked(FIXTURE)).unwrap();
    assert_eq!(
        counts(&history),
        json_file("h200/memory_snapshot.counts.json")
    );
    // What the recording did not see makes up the rest of the peak.
    let recorded = the_device(&history).history.as_ref().unwrap();
    let held: u64 = recorded.at_peak.iter().map(|held| held.bytes.0).sum();
    assert_eq!(held, recorded.peak.requested_bytes.0);
    let saved = serde_json::to_string(&history).unwrap();
    assert_eq!(
        serde_json::from_str::<MemoryHistory>(&saved).unwrap(),
        history
    );
}

/// The counts in the repository are what the recipe gives.
#[test]
#[ignore = "live: needs Python"]
fn counts_are_what_the_recipe_gives() {
    let recipe = support::fixture("memory_counts.py");
    let output = python(&[recipe.as_os_str(), support::fixture(FIXTURE).as_os_str()]);
    let live: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(live, json_file("h200/memory_snapshot.counts.json"));
}

/// What Python prints on its standard output.
fn python(arguments: &[&std::ffi::OsStr]) -> Vec<u8> {
    let python = env::var_os("LLMPROF_PYTHON").unwrap_or_else(|| "python3".into());
    let output = Command::new(python)
        .args(arguments)
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    output.stdout
}

/// A value as the recipe of random pickles tells it.
fn reported(heap: &pickle::Heap<'_>, value: pickle::Value) -> Value {
    let items = || {
        heap.items(value)
            .expect("the heap has it")
            .iter()
            .map(|&item| reported(heap, item))
    };
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .concat()
    };
    let sorted = || {
        let mut all: Vec<Value> = items().collect();
        all.sort_by_key(Value::to_string);
        all
    };
    match value {
        pickle::Value::None => json!(["none"]),
        pickle::Value::Bool(value) => json!(["bool", value]),
        pickle::Value::Int(value) => json!(["int", value.to_string()]),
        pickle::Value::Integer(_) => {
            json!([
                "int",
                hex(heap.integer(value).expect("the heap has it").as_le_bytes())
            ])
        }
        pickle::Value::Float(value) if value.is_nan() => json!(["float", "nan"]),
        pickle::Value::Float(value) => json!(["float", hex(&value.to_be_bytes())]),
        pickle::Value::Text(_) => json!(["text", heap.text(value).expect("the heap has it")]),
        pickle::Value::Bytes(_) => {
            json!(["bytes", hex(heap.bytes(value).expect("the heap has it"))])
        }
        pickle::Value::List(_) => json!(["list", items().collect::<Vec<_>>()]),
        pickle::Value::Tuple(_) => json!(["tuple", items().collect::<Vec<_>>()]),
        pickle::Value::Dict(_) => {
            let pairs = heap.pairs(value).expect("the heap has it").iter();
            json!([
                "dict",
                pairs
                    .map(|&(key, value)| json!([reported(heap, key), reported(heap, value)]))
                    .collect::<Vec<_>>()
            ])
        }
        pickle::Value::Set(_) => json!(["set", sorted()]),
        pickle::Value::FrozenSet(_) => json!(["frozenset", sorted()]),
    }
}

/// The same with sets in our order: the recipe sorts by Python's spelling of JSON.
fn ordered(value: &Value) -> Value {
    match value {
        Value::Array(parts) => {
            let mut parts: Vec<Value> = parts.iter().map(ordered).collect();
            if let [Value::String(kind), Value::Array(items)] = &mut parts[..]
                && (kind == "set" || kind == "frozenset")
            {
                items.sort_by_key(Value::to_string);
            }
            Value::Array(parts)
        }
        other => other.clone(),
    }
}

#[test]
#[ignore = "live: needs Python"]
fn random_data_is_what_python_reads_in_every_protocol() {
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recipes/random_pickles.py");
    let words: Vec<&std::ffi::OsStr> = vec![recipe.as_os_str(), "7".as_ref(), "400".as_ref()];
    let output = python(&words);
    let (mut read, mut refused) = ([0; 6], 0);
    for line in String::from_utf8(output).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let hex = case["pickle"].as_str().unwrap();
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        match pickle::load(&bytes, &pickle::Limits::default()) {
            Ok(loaded) => {
                assert_eq!(
                    ordered(&reported(&loaded.heap, loaded.root)),
                    ordered(&case["value"]),
                    "{hex}"
                );
                assert_eq!(loaded.end, bytes.len());
                read[case["protocol"].as_u64().unwrap() as usize] += 1;
            }
            Err(PickleError::Refused { opcode, offset, .. }) => {
                assert_eq!(json!([opcode, offset]), case["refused"], "{hex}");
                refused += 1;
            }
            Err(error) => panic!("{error}: {hex}"),
        }
    }
    assert!(read.iter().all(|&count| count > 100), "{read:?}");
    assert!(refused > 100, "{refused}");
}

/// Objects of any kind are refused, whatever they would do.
#[test]
fn nothing_is_executed() {
    let marker = tempfile::tempdir().unwrap();
    let marker = marker.path().join("executed");
    let attack = format!(
        "(dVsegments\ncos\nsystem\n(S'touch {}'\ntRs.",
        marker.display()
    );
    let error = read(attack.as_bytes()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the opcode GLOBAL at byte 12 would import an object"),
        "{error}"
    );
    assert!(!marker.exists());
}

#[test]
fn a_snapshot_cut_anywhere_is_an_error_with_its_place() {
    let content = support::unpacked(FIXTURE);
    for step in 0..30 {
        let cut = content.len() * step / 30;
        match pickle::load(&content[..cut], &pickle::Limits::default()) {
            Err(PickleError::Truncated { offset, .. }) => assert_eq!(offset, cut),
            other => panic!("cut at {cut}: {:?}", other.map(|pickle| pickle.end)),
        }
    }
    let mut longer = content;
    longer.extend_from_slice(b"more");
    let history = read(&longer).unwrap();
    assert_eq!(
        history.issues[0].code.as_str(),
        "torch_memory.trailing_bytes"
    );
}

#[test]
fn what_is_missing_is_an_issue_and_the_rest_is_read() {
    // One whole segment, one without a size; an event without an address, one with an unknown action, one without time.
    let text = "(dVsegments\n(l\
        (dVdevice\nI1\nsVtotal_size\nI2048\nsVallocated_size\nI512\nsVactive_size\nI512\nsVblocks\n(l\
        (dVsize\nI512\nsVstate\nVactive_allocated\nsa(dVsize\nI1536\nsVstate\nVinactive\nsasa\
        (dVdevice\nI1\nsasVdevice_traces\n(l(la(l\
        (dVaction\nValloc\nsVsize\nI5\nsVtime_us\nI1\nsa\
        (dVaction\nVdance\nsVsize\nI5\nsVtime_us\nI2\nsa\
        (dVaction\nValloc\nsVaddr\nI64\nsVsize\nI300\nsaas.";
    let history = read(text.as_bytes()).unwrap();
    let codes: Vec<&str> = history
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .collect();
    assert_eq!(
        codes,
        [
            "torch_memory.segments",
            "torch_memory.events",
            "torch_memory.actions",
            "torch_memory.no_times"
        ]
    );
    let device = the_device(&history);
    assert_eq!(device.device, 1);
    assert_eq!(device.now.segments, 1);
    // Without requested sizes, blocks count as requests.
    assert_eq!(device.now.requested_bytes.0, 512);
    assert_eq!(device.now.inactive_split_bytes.0, 1536);
    let recorded = device.history.as_ref().unwrap();
    assert_eq!(recorded.allocations, 1);
    let levels: Vec<u64> = recorded
        .timeline
        .iter()
        .map(|point| point.requested_bytes.0)
        .collect();
    assert_eq!(levels, [212, 512]);
    assert_eq!(recorded.largest[0].site, None);
    for other in [&b"N."[..], b"(d.", b"(dVsegments\nNs."] {
        let error = read(other).unwrap_err().to_string();
        assert!(error.contains("no list of segments"), "{error}");
    }
}

/// A small snapshot of protocol 4, to be damaged.
fn small() -> Vec<u8> {
    let mut bytes = b"\x80\x04}\x94(\x8c\x08segments\x94]\x94}\x94(\x8c\x06device\x94K\x00\x8c\x06blocks\x94]\x94".to_vec();
    bytes.extend_from_slice(b"\x8c\x0atotal_size\x94M\x00\x08\x8c\x0eallocated_size\x94K\x00\x8c\x0bactive_size\x94K\x00ua");
    bytes.extend_from_slice(b"\x8c\x0ddevice_traces\x94]\x94]\x94}\x94(\x8c\x06action\x94\x8c\x05alloc\x94\x8c\x04addr\x94K\x05");
    bytes.extend_from_slice(b"\x8c\x04size\x94\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8c\x07time_us\x94\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fuaau.");
    bytes
}

#[test]
fn the_small_snapshot_is_whole() {
    let history = read(&small()).unwrap();
    assert_eq!(
        the_device(&history).history.as_ref().unwrap().allocations,
        1
    );
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = pickle::load(&bytes, &pickle::Limits::default());
    }

    /// Bytes that are mostly opcodes get further than random ones.
    #[test]
    fn random_opcodes_never_panic(
        bytes in proptest::collection::vec(
            proptest::sample::select(&b"((..0012NNKKMaade}}ssuul]]tt))ghjpqrVI\n\x05\x00\x01\x80\x85\x86\x87\x88\x89\x8a\x8c\x8f\x90\x91\x94"[..]),
            0..200,
        )
    ) {
        let limits = pickle::Limits { values: 100, depth: 10 };
        if let Ok(pickle) = pickle::load(&bytes, &limits) {
            prop_assert!(pickle.end <= bytes.len());
        }
    }

    #[test]
    fn a_damaged_snapshot_never_panics(
        at in 0..small().len(),
        byte in any::<u8>(),
        cut in 0..small().len() + 1,
    ) {
        let mut bytes = small();
        bytes[at] = byte;
        let _ = read(&bytes);
        bytes.truncate(cut);
        if !bytes.is_empty() {
            let _ = read(&bytes);
        }
    }
}

/// 80 KB that name one list of events forty thousand times were read into gigabytes.
#[test]
fn values_that_are_named_again_and_again_do_not_multiply() {
    use llmprof_record::import::{Limits, Source, torch_memory};
    // {"segments": [], "device_traces": [t, t, t, …]} with t = [e, e, e, …], each name by the memo.
    let mut pickle = b"\x80\x02}(U\x08segments]U\x0ddevice_traces](".to_vec();
    pickle.extend_from_slice(
        b"](}(U\x06actionU\x05allocU\x04addrK\x01U\x04sizeK\x02U\x07time_usK\x03uq\x00",
    );
    pickle.extend(b"h\x00".repeat(20_000));
    pickle.extend_from_slice(b"eq\x01");
    pickle.extend(b"h\x01".repeat(20_000));
    pickle.extend_from_slice(b"eu.");
    let source = Source::from_bytes(std::path::Path::new("x"), pickle, &Limits::default())
        .expect("it is not packed");
    let error = torch_memory::read(&source)
        .expect_err("refused")
        .to_string();
    assert!(error.contains("steps a byte"), "{error}");
}
