//! The seeds of `fuzz/corpus` and damaged copies of them, with the overflow checks of a test: nothing that a server or another
//! load generator says is a panic. `cargo fuzz` goes on where this ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/src/load.rs"]
#[allow(
    unreachable_pub,
    reason = "the same file is a module of the fuzz targets"
)]
mod load;
#[path = "../../../fuzz/src/mutate.rs"]
#[allow(
    unreachable_pub,
    reason = "the same file is a module of the fuzz targets"
)]
mod mutate;

use std::fs;
use std::path::{Path, PathBuf};

/// Damaged copies of the seeds of each format.
const CASES: u64 = 1500;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn seeds(format: &str) -> Vec<Vec<u8>> {
    let folder = fuzz().join("corpus").join(format);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{format} has no seeds in {}: {error}", folder.display()));
    let mut seeds: Vec<Vec<u8>> = entries
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    seeds.sort();
    seeds
}

#[test]
fn every_reader_has_a_target_and_seeds_that_it_reads() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for format in load::FORMATS {
        let name = format!("name = \"{format}\"");
        assert!(manifest.contains(&name), "{format}");
        assert!(fuzz().join(format!("fuzz_targets/{format}.rs")).is_file());
        for seed in seeds(format) {
            let text = String::from_utf8_lossy(&seed).into_owned();
            assert!(load::read(format, &seed), "{format}: {text}");
        }
    }
}

#[test]
fn damaged_answers_and_results_are_errors_or_left_out() {
    for format in load::FORMATS {
        let seeds = seeds(format);
        assert!(!seeds.is_empty(), "{format}");
        for number in 0..CASES {
            let mut random = mutate::Random::of(number);
            let seed = &seeds[random.below(seeds.len())];
            let other = &seeds[random.below(seeds.len())];
            let input = mutate::mutated(seed, other, &mut random);
            let read = std::panic::catch_unwind(|| load::read(format, &input));
            assert!(read.is_ok(), "{format}, case {number}");
        }
    }
}
