//! What a plain test of a target does: `crates/*/tests/fuzz_replay.rs` have it in common.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::seeds::Seeds;

/// The folder of the targets, seen from a crate.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The seeds of a target that cargo-fuzz knows and has the source of.
pub fn seeds(target: &str) -> Seeds {
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).expect("it is there");
    let name = format!("name = \"{target}\"");
    assert!(manifest.contains(&name), "{target} is no target");
    let source = folder().join(format!("fuzz_targets/{target}.rs"));
    assert!(source.is_file(), "{} is missing", source.display());
    Seeds::read(&folder(), target)
        .unwrap_or_else(|error| panic!("{target} has no seeds in corpus/{target}: {error}"))
}

/// Reads `cases` damaged copies of the seeds: none may panic.
pub fn damaged(target: &str, seeds: &Seeds, cases: u64, read: impl Fn(&[u8])) {
    for number in 0..cases {
        let input = seeds.damaged(number);
        let outcome = catch_unwind(AssertUnwindSafe(|| read(&input)));
        assert!(outcome.is_ok(), "{target}, case {number}");
    }
}
