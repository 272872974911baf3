//! The binary as tests run it, and what it says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

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
#[allow(dead_code, reason = "each test program uses its part of this")]
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

/// Runs a script as root of a mount namespace of its own, with a small disk at `disk`.
#[allow(dead_code, reason = "each test program uses its part of this")]
pub(crate) fn on_small_disk(folder: &Path, bytes: u64, script: &str) -> Output {
    fs::create_dir_all(folder.join("disk")).unwrap();
    let mount = format!("mount -t tmpfs -o size={bytes} tmpfs disk || exit 77; {script}");
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", &mount])
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let is_mounted = output.status.code() != Some(77) && !said.starts_with("unshare:");
    assert!(is_mounted, "{output:?}");
    output
}
