//! A CUDA graph as torch's profiler sees it (`fixtures/h200/cuda_graph/record.py`): what was captured names what ran.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use llmprof_analysis::analyze;
use llmprof_analysis::graphs::{GraphAnalysis, GraphSource};
use llmprof_record::import::{self, Limits};
use llmprof_record::run::RunRecord;
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/h200/cuda_graph")
        .join(name)
}

fn graphs(files: &[&str]) -> GraphAnalysis {
    let mut record = RunRecord::default();
    for file in files {
        let (_, profile) = import::import(&fixture(file), &Limits::default()).expect("fixture");
        record.add_profile(file, profile).expect("one program");
    }
    let found = analyze(&record, None).expect("analysis");
    found.graphs.expect("graphs")
}

/// Operator and shapes of the same kernels without a graph, by the correlation ids of the profiler: how many kernels each has.
fn truth() -> BTreeMap<(String, String), u64> {
    let file = File::open(fixture("truth.json.gz")).expect("fixture");
    let rows: Vec<Value> = serde_json::from_reader(GzDecoder::new(file)).expect("rows");
    assert_eq!(rows.len(), 101);
    let mut counts = BTreeMap::new();
    for row in rows {
        let name = row["operator"].as_str().expect("an operator").to_owned();
        let shapes = tensors(&row["shapes"].to_string());
        *counts.entry((name, shapes.join(" "))).or_default() += 1;
    }
    counts
}

/// The sides of every tensor: `bf16[32,256]` is `32,256`. Lists of values that no tensor has (`[-1]`) are none.
fn tensors(text: &str) -> Vec<String> {
    let inner = text
        .split('[')
        .skip(1)
        .filter_map(|part| part.split(']').next());
    let is_shape = |sides: &&str| {
        let mut letters = sides.chars();
        !sides.is_empty() && letters.all(|letter| letter.is_ascii_digit() || letter == ',')
    };
    inner.filter(is_shape).map(str::to_owned).collect()
}

#[test]
fn kernels_of_a_cuda_graph_lead_back_to_operators_shapes_and_modules() {
    for files in [
        ["replay.json.gz", "capture.json.gz"],
        ["capture.json.gz", "replay.json.gz"],
    ] {
        let found = graphs(&files);
        assert_eq!((found.launches, found.events, found.captures), (3, 303, 1));
        assert_eq!(found.source, Some(GraphSource::CaptureTrace));
        assert_eq!(found.covered_ns, found.device_ns);
        let [one] = found.attributed_by.as_slice() else {
            panic!("{:?}", found.attributed_by);
        };
        assert_eq!((one.events, one.covered_ns), (303, found.device_ns));
        let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
        for row in &found.operators {
            let name = row.operator.clone().expect("an operator");
            let shapes = tensors(&row.inputs.join(" "));
            *counts.entry((name, shapes.join(" "))).or_default() += row.events;
        }
        let expected = truth().into_iter().map(|(key, count)| (key, 3 * count));
        assert_eq!(counts, expected.collect());
        // Seven linears in each of two layers, and the head.
        let linears = found.operators.iter().filter(|row| {
            let module = row.module.as_deref().unwrap_or_default();
            module
                .rsplit('/')
                .next()
                .is_some_and(|last| last.starts_with("Linear"))
        });
        let calls: u64 = linears.map(|row| row.calls).sum();
        assert!(calls >= 3 * 15, "{calls}");
        let head = found.operators.iter().find(|row| {
            let inputs = row.inputs.join(" ");
            row.operator.as_deref() == Some("aten::mm") && inputs.contains("[256,2048]")
        });
        let head = head.expect("the head");
        assert_eq!(head.calls, 3);
        let module = head.module.as_deref().expect("a module");
        assert!(module.starts_with("Qwen2ForCausalLM"), "{module}");
    }
}

/// Without the capture nothing says which operators these kernels are.
#[test]
fn a_replay_alone_has_no_origin() {
    let found = graphs(&["replay.json.gz"]);
    assert_eq!((found.launches, found.events), (3, 303));
    assert_eq!((found.source, found.attributed_by.len()), (None, 0));
    assert!(found.operators.is_empty());
}
