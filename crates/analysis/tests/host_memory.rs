//! Allocations of operators against torch's own table of them.

use std::{collections::BTreeMap, fs, path::PathBuf};

use llmprof_analysis::analyze;
use llmprof_record::import::{self, Limits, Profile};
use llmprof_record::run::{RecordedTrace, RunRecord};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/cpu")
        .join(name)
}

#[test]
fn operators_take_the_memory_that_torch_says() {
    let (_, profile) =
        import::import(&fixture("torch_memory.json.gz"), &Limits::default()).unwrap();
    let Profile::Trace(trace) = profile else {
        panic!("a trace");
    };
    let trace = *trace;
    let record = RunRecord {
        traces: vec![RecordedTrace { pass: None, trace }],
        ..RunRecord::default()
    };
    let analysis = analyze(&record, None).unwrap().timeline.unwrap();
    let ours: BTreeMap<&str, _> = analysis
        .operators
        .iter()
        .map(|row| (row.name.as_str(), row))
        .collect();
    let text = fs::read(fixture("torch_memory.key_averages.json")).unwrap();
    let theirs: Vec<Value> = serde_json::from_slice(&text).unwrap();
    let mut compared = 0;
    for row in &theirs {
        // Ranges and what no operator holds are rows of torch's table too.
        let key = row["key"].as_str().unwrap();
        let Some(own) = ours.get(key) else {
            assert!(["step", "[memory]"].contains(&key), "{key}");
            continue;
        };
        let memory = own.times.host_self_memory_bytes;
        assert_eq!(own.times.calls, row["count"].as_u64().unwrap(), "{key}");
        assert_eq!(memory, row["self_cpu_memory_bytes"].as_i64(), "{key}");
        let shapes = own.shapes.iter();
        let sum: i64 = shapes
            .map(|shape| shape.times.host_self_memory_bytes.unwrap())
            .sum();
        assert_eq!(Some(sum), memory, "{key}");
        compared += i64::from(memory != Some(0));
    }
    assert!(compared >= 5, "{compared} operators took memory");
}
