//! Runs as agents see them: `llmprof mcp`, `llmprof explain`, `--format agent`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod client;
use crate::common;
mod faults;
mod hostile;
mod shell;
mod tools;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn fixture(name: &str) -> String {
    let path = root().join("fixtures").join(name);
    path.to_str().unwrap().to_owned()
}
