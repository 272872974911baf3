//! Models by the names that people type: shipped names, ids of the Hugging Face hub, names that do not exist.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use common::{refused, works};
use serde_json::Value;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_hub_id_is_the_shipped_model() {
    let folder = folder();
    let cost = |line: &str| works(folder.path(), &["model", line, "hardware.spec=h200"]);
    let shipped = cost("model=qwen3_8b");
    for line in ["model=Qwen/Qwen3-8B", "model=qwen/qwen3-8b"] {
        assert_eq!(cost(line), shipped, "{line}");
    }
    // Each value of a sweep, too.
    let sweep = ["predict", "hardware.spec=h200", "--json"];
    let line = "model=Qwen/Qwen3-8B,meta-llama/Llama-3.1-8B";
    let rows = works(folder.path(), &[&sweep[..], &[line]].concat());
    let rows: Value = serde_json::from_str(&rows).unwrap();
    let by_format = ["predict", "hardware.spec=h200", "--format", "json", line];
    let same: Value = serde_json::from_str(&works(folder.path(), &by_format)).unwrap();
    assert_eq!(rows, same);
    assert_eq!(rows["points"].as_array().unwrap().len(), 2, "{rows}");
}

#[test]
fn shipped_models_are_listed_with_ids_that_work() {
    let folder = folder();
    let listed = works(folder.path(), &["model", "list", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let shipped = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/model"));
    assert_eq!(listed.len(), shipped.unwrap().count() - 2, "base and local");
    for model in &listed {
        assert!(model["hub_id"].as_str().unwrap().contains('/'), "{model}");
        assert!(model["parameters"].as_u64().unwrap() > 1_000_000, "{model}");
    }
    let named = |name: &str| listed.iter().find(|model| model["name"] == name).unwrap();
    // As its model card counts them.
    assert_eq!(named("qwen3_8b")["parameters"], 8_190_735_360_u64);
    let table = works(folder.path(), &["model", "list"]);
    let row = table.lines().find(|line| line.starts_with("qwen3_8b"));
    let words: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(words, ["qwen3_8b", "Qwen/Qwen3-8B", "8.191", "B"]);
}

#[test]
fn an_unknown_model_is_answered_with_few_names() {
    let folder = folder();
    for command in [&["model"][..], &["import", "trace.json"], &["predict"]] {
        let said = refused(folder.path(), &[command, &["model=qwen3"]].concat());
        assert!(said.contains("unknown model `qwen3`"), "{said}");
        let near = "did you mean `qwen3_8b` or `qwen3_30b_a3b`?";
        assert!(said.contains(near), "{said}");
        assert!(said.contains("--config path/to/config.json"), "{said}");
        assert!(
            !said.contains("search path") && !said.contains("gemma"),
            "{said}"
        );
    }
}
