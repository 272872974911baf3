//! The binary as tests run it, and what it says.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

pub(crate) fn llmprof(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .args(args)
        .output()
        .unwrap()
}

/// What a command prints that must succeed.
pub(crate) fn works(folder: &Path, args: &[&str]) -> String {
    let output = llmprof(folder, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// What is said when it does not work, without the breaks of a terminal's lines.
#[allow(dead_code, reason = "each test program uses its part of this")]
pub(crate) fn refused(folder: &Path, args: &[&str]) -> String {
    let output = llmprof(folder, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    text.split_whitespace()
        .filter(|word| *word != "│")
        .collect::<Vec<_>>()
        .join(" ")
}

#[allow(dead_code, reason = "each test program uses its part of this")]
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}
