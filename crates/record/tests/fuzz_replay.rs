//! The seeds of `fuzz/corpus` and damaged copies of them, with the overflow checks of a test: no input is a panic, and what
//! could be read of it can be exported. `cargo fuzz` goes on where this ends.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "the files are modules of the fuzz targets too"
)]

#[path = "../../../fuzz/src/importers.rs"]
mod importers;
#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/run_directory.rs"]
mod run_directory;
#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

use seeds::Seeds;

/// Damaged copies of the seeds of each format.
const CASES: u64 = 1500;

#[test]
fn every_importer_has_a_target_and_reads_a_seed() {
    for format in importers::formats() {
        let seeds = replay::seeds(format);
        assert!(
            seeds
                .all()
                .iter()
                .any(|seed| importers::import(format, seed)),
            "{format} reads none of its seeds"
        );
    }
}

#[test]
fn damaged_profiles_are_errors_or_issues() {
    for format in importers::formats() {
        replay::damaged(format, &replay::seeds(format), CASES, |input| {
            importers::import(format, input);
        });
    }
}

#[test]
fn damaged_wire_records_end() {
    replay::damaged(
        "wire_records",
        &replay::seeds("llmprof_wire"),
        CASES,
        |input| {
            if let Ok((_, records)) = llmprof_wire::Reader::new(input) {
                assert!(records.count() <= input.len());
            }
        },
    );
}

#[test]
fn damaged_run_directories_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    run_directory::make(&run, &replay::folder()).unwrap();
    let mut files = 0;
    for file in run_directory::FILES {
        let Ok(seed) = std::fs::read(run.join(file)) else {
            continue;
        };
        files += 1;
        assert!(run_directory::read(&run, file, &seed), "{file}");
        replay::damaged(file, &Seeds::one(seed.clone()), CASES / 3, |input| {
            run_directory::read(&run, file, input);
        });
        assert!(run_directory::read(&run, file, &seed), "{file}");
    }
    assert_eq!(files, 7);
}
