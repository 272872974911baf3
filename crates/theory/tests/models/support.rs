//! Reads the published configs under `tests/data/models`.

use std::path::PathBuf;

use llmprof_theory::Model;
use serde_json::Value;

/// A JSON file under `tests/data`.
pub(crate) fn data(path: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(path);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub(crate) fn config(name: &str) -> Value {
    data(&format!("models/{name}.json"))
}

/// The model that a published config describes.
pub(crate) fn published(name: &str) -> Model {
    Model::from_config(&config(name), None).unwrap()
}

/// The names of all published configs.
pub(crate) fn names() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/models");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            path.file_stem().unwrap().to_string_lossy().into_owned()
        })
        .collect();
    names.sort();
    names
}
