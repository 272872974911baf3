//! The seeds of `fuzz/corpus` and damaged copies of them, with the overflow checks of a test: nothing that a server or another
//! load generator says is a panic. `cargo fuzz` goes on where this ends.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "the files are modules of the fuzz targets too"
)]

#[path = "../../../fuzz/src/load.rs"]
mod load;
#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

/// Damaged copies of the seeds of each format.
const CASES: u64 = 1500;

#[test]
fn every_reader_has_a_target_and_reads_its_seeds() {
    for format in load::FORMATS {
        for seed in replay::seeds(format).all() {
            let text = String::from_utf8_lossy(seed);
            assert!(load::read(format, seed), "{format}: {text}");
        }
    }
}

#[test]
fn damaged_answers_and_results_are_errors_or_left_out() {
    for format in load::FORMATS {
        replay::damaged(format, &replay::seeds(format), CASES, |input| {
            load::read(format, input);
        });
    }
}
