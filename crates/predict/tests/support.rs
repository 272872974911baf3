//! Models and devices that several tests predict for.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use llmprof_theory::{
    Model,
    device::{Catalog, Device},
};
use serde_json::Value;

/// The published config of a model, as the tests of `theory` keep it.
pub(crate) fn published_config(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../theory/tests/data/models");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn published_model(name: &str) -> Model {
    Model::from_config(&published_config(name), None).unwrap()
}

pub(crate) fn embedded_device(name: &str) -> Device {
    Catalog::embedded().by_name(name).unwrap()
}
