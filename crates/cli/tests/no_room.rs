//! Files that cannot be written for want of room: the exit code and the hint say so.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use crate::common;

/// Larger than the small files of a run, smaller than its trace, its report and what is made of them.
const FILE_BLOCKS_MAX: u32 = 30;

fn limited(folder: &Path, words: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_llmprof");
    let limited = format!("ulimit -f {FILE_BLOCKS_MAX} && exec '{program}' {words}");
    let mut command = Command::new("sh");
    command.current_dir(folder).arg("-c").arg(limited);
    command.output().unwrap()
}

/// An output that was a device or a link was replaced by a regular file.
#[test]
fn outputs_that_are_devices_or_links_stay_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let trace = root.join("fixtures/faults/gc_each_step.json.gz");
    std::fs::copy(trace, at("trace.json.gz")).unwrap();
    common::works(folder.path(), &["import", "trace.json.gz", "-o", "run"]);
    std::fs::write(at("file"), "old").unwrap();
    std::os::unix::fs::symlink("file", at("link")).unwrap();
    std::os::unix::fs::symlink("/dev/full", at("full")).unwrap();
    for words in [
        &["export", "run", "--to", "chrome", "-o"][..],
        &["kernels", "top", "run", "-o"],
        &["runs", "export", "--root", ".", "-o"],
    ] {
        common::works(folder.path(), &[words, &["link"]].concat());
        assert_ne!(std::fs::read(at("file")).unwrap(), b"old", "{words:?}");
        let said = common::refused(folder.path(), &[words, &["full"]].concat());
        assert!(said.contains("No space left"), "{words:?}: {said}");
        for link in ["link", "full"] {
            let entry = std::fs::symlink_metadata(at(link)).unwrap();
            assert!(entry.is_symlink(), "{words:?}: {link}");
        }
        std::fs::write(at("file"), "old").unwrap();
    }
}

#[test]
fn what_cannot_be_written_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let trace = root.join("fixtures/faults/gc_each_step.json.gz");
    std::fs::copy(trace, folder.path().join("trace.json.gz")).unwrap();
    common::works(folder.path(), &["import", "trace.json.gz", "-o", "run"]);
    for words in [
        "import trace.json.gz -o other",
        "export run --to pftrace -o out.pftrace",
        "export run --to chrome -o out.json",
        "view run -o pages",
        "compare run run -o compared",
        "plan llama3_1_8b --slo 'ttft:p99<1s' --rate 2 --devices h200 --simulate-max 1 --requests-max 500 -o plan.html",
    ] {
        let output = limited(folder.path(), words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains("`ulimit -f`"), "{words}: {said}");
    }
    let output = limited(folder.path(), "export run --to sqlite -o out.sqlite");
    assert_eq!(output.status.code(), Some(2));
    for file in ["out.pftrace", "out.json", "out.sqlite", "plan.html"] {
        assert!(!folder.path().join(file).exists(), "{file} is cut");
    }
}
