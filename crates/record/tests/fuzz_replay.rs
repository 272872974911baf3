//! The seeds of `fuzz/corpus` and damaged copies of them, with the overflow checks of a test: no input is a panic, and what
//! could be read of it can be exported. `cargo fuzz` goes on where this ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/src/importers.rs"]
#[allow(
    unreachable_pub,
    reason = "the same file is a module of the fuzz targets"
)]
mod importers;
#[path = "../../../fuzz/src/mutate.rs"]
#[allow(
    unreachable_pub,
    reason = "the same file is a module of the fuzz targets"
)]
mod mutate;
#[path = "../../../fuzz/src/run_directory.rs"]
#[allow(
    unreachable_pub,
    reason = "the same file is a module of the fuzz targets"
)]
mod run_directory;

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
    assert!(!seeds.is_empty(), "{format}");
    seeds
}

#[test]
fn every_importer_has_a_target_and_seeds_that_it_reads() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for format in importers::formats() {
        assert!(
            manifest.contains(&format!("name = \"{format}\"")),
            "{format}"
        );
        assert!(fuzz().join(format!("fuzz_targets/{format}.rs")).is_file());
        assert!(
            seeds(format)
                .iter()
                .any(|seed| importers::import(format, seed)),
            "{format} reads none of its seeds"
        );
    }
}

#[test]
fn damaged_profiles_are_errors_or_issues() {
    for format in importers::formats() {
        let seeds = seeds(format);
        for number in 0..CASES {
            let mut random = mutate::Random::of(number);
            let seed = &seeds[random.below(seeds.len())];
            let other = &seeds[random.below(seeds.len())];
            let input = mutate::mutated(seed, other, &mut random);
            let read = std::panic::catch_unwind(|| importers::import(format, &input));
            assert!(read.is_ok(), "{format}, case {number}");
        }
    }
}

#[test]
fn damaged_wire_records_end() {
    let seeds = seeds("llmprof_wire");
    for number in 0..CASES {
        let mut random = mutate::Random::of(number);
        let input = mutate::mutated(&seeds[0], &[], &mut random);
        if let Ok((_, records)) = llmprof_wire::Reader::new(&input) {
            assert!(records.count() <= input.len());
        }
    }
}

#[test]
fn damaged_run_directories_are_errors() {
    use llmprof_record::import::{Limits, import};
    use llmprof_record::run::RunRecord;
    use llmprof_record::store::RunDir;

    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let store = RunDir::create(&run, "2026-01-01T00:00:00Z".into(), "0.0.0").unwrap();
    let mut record = RunRecord::default();
    for profile in run_directory::PROFILES {
        let path = fuzz().join("corpus").join(profile);
        let (_, profile) = import(&path, &Limits::default()).unwrap();
        assert!(record.add_profile("profile", profile).is_ok());
    }
    record.save(&run).unwrap();
    drop(store);
    for file in run_directory::FILES {
        let Ok(seed) = fs::read(run.join(file)) else {
            continue;
        };
        assert!(run_directory::read(&run, file, &seed), "{file}");
        for number in 0..CASES / 3 {
            let mut random = mutate::Random::of(number);
            let input = mutate::mutated(&seed, &[], &mut random);
            run_directory::read(&run, file, &input);
        }
        assert!(run_directory::read(&run, file, &seed), "{file}");
    }
}
