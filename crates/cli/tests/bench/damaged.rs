//! Files of a load that somebody damaged: every command that reads them ends in order.

use std::{fs, process::Command};

use super::{bench, stub};
use crate::fuzz_replay::mutate::{CaseRandom, mutated};

/// Damaged copies of each file.
const CASES: u64 = 40;

#[test]
fn damaged_files_of_a_load_are_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let server = stub();
    let url = server.url();
    for name in ["good", "run"] {
        let args = [&url, "--requests", "6", "--warmup", "0", "-o", name];
        let (code, _, said) = bench(folder.path(), &args);
        assert_eq!(code, 0, "{said}");
    }
    let commands: [&[&str]; 4] = [
        &["compare", "good", "run", "--json"],
        &["runs", "show", "run"],
        &["runs", "export", "--root", "."],
        &["report", "run"],
    ];
    for file in ["bench.json", "requests.csv", "vllm_bench.json", "run.json"] {
        let path = folder.path().join("run").join(file);
        let whole = fs::read(&path).unwrap();
        for number in 0..CASES {
            let damaged = mutated(&whole, &whole, &mut CaseRandom::from_seed(number));
            fs::write(&path, &damaged).unwrap();
            let words = commands[usize::try_from(number).unwrap() % commands.len()];
            let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
                .args(words)
                .current_dir(folder.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let is_in_order = output.status.code().is_some_and(|code| code <= 2);
            assert!(is_in_order, "{file}, case {number}, {words:?}: {said}");
        }
        fs::write(&path, whole).unwrap();
    }
}
