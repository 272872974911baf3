//! The seeds of `fuzz/corpus/config` and damaged copies of them: no config is a panic, and none takes work without end.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "the files are modules of the fuzz targets too"
)]

#[path = "../../../fuzz/src/config.rs"]
mod config;
#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

use std::fmt::Write as _;

#[test]
fn damaged_configs_are_errors() {
    let seeds = replay::seeds("config");
    assert!(seeds.all().iter().all(|seed| config::read(seed)));
    replay::damaged("config", &seeds, 6000, |input| {
        config::read(input);
    });
}

/// A hundred lines of it are 10³⁰ bytes.
#[test]
fn doubling_interpolations_end_in_an_error() {
    let mut text = "a0: xxxxxxxxxx\n".to_owned();
    for number in 1..60 {
        writeln!(text, "a{number}: ${{a{0}}}${{a{0}}}", number - 1).expect("memory takes it");
    }
    assert!(!config::read(text.as_bytes()));
}

/// Converting took time that grows with the square of the digits.
#[test]
fn endless_digits_end() {
    for digits in [
        "9".repeat(1_000_000),
        format!("0x{}", "f".repeat(1_000_000)),
        format!("0b{}", "1".repeat(1_000_000)),
        format!("1{}", ":59".repeat(300_000)),
    ] {
        config::read(format!("a: {digits}").as_bytes());
    }
}
