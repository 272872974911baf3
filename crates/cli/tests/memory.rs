//! Memory snapshots of torch on the command line.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn llmprof(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(args)
        .current_dir(folder)
        .env_clear()
        .output()
        .expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn a_snapshot_becomes_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/h200/memory_snapshot.pickle.gz"
    );
    let said = stdout(&llmprof(folder.path(), &["import", snapshot, "-o", "run"]));
    // 1,030,926,848 of 1,317,011,456 bytes; 1 − their quotient is 21.7 %.
    assert!(
        said.contains("0.960 GiB allocated of 1.227 GiB reserved in 46 segments (21.7 % free)"),
        "{said}"
    );
    assert!(said.contains("3120 allocations, 3120 frees"), "{said}");
    assert!(
        said.contains("transformers/models/qwen2/modeling_qwen2.py:465 forward"),
        "{said}"
    );
    let timeline = fs::read_to_string(folder.path().join("run/memory.csv")).unwrap();
    assert_eq!(timeline.lines().count(), 6242);
    let again = stdout(&llmprof(folder.path(), &["analyze", "run", "--json"]));
    let analysis: serde_json::Value = serde_json::from_str(&again).unwrap();
    let history = &analysis["memory"]["devices"][0]["history"];
    assert_eq!(history["peak"]["requested_bytes"], 1_063_456_266u64);
    assert_eq!(history.get("timeline"), None);
}

#[test]
fn a_snapshot_that_asks_for_more_than_data_fails() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("evil.pickle"),
        "(dVsegments\ncos\nsystem\n(S'true'\ntRs.",
    )
    .unwrap();
    let output = llmprof(folder.path(), &["import", "evil.pickle", "-o", "run"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).replace(['\n', '│', '|'], " ");
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("the opcode GLOBAL at byte 12 would import an object"),
        "{said}"
    );
    assert!(!folder.path().join("run").exists());
}

/// A snapshot that is taken before anything was allocated, or on a machine without a GPU.
#[test]
fn an_empty_snapshot_says_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("empty.pickle"),
        "(dVsegments\n(lsVdevice_traces\n(ls.",
    )
    .unwrap();
    let said = stdout(&llmprof(
        folder.path(),
        &["import", "empty.pickle", "-o", "run"],
    ));
    assert!(said.contains("holds no memory of any device"), "{said}");
}
