//! The seeds of `fuzz/corpus/config` and damaged copies of them: no config is a panic, and none takes work without end.

#[path = "../../../fuzz/src/config.rs"]
#[allow(
    unreachable_pub,
    reason = "the same file is a module of the fuzz targets"
)]
mod config;
#[path = "../../../fuzz/src/mutate.rs"]
#[allow(
    unreachable_pub,
    reason = "the same file is a module of the fuzz targets"
)]
mod mutate;

use std::fmt::Write as _;
use std::path::Path;

#[test]
fn damaged_configs_are_errors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config");
    let mut seeds: Vec<Vec<u8>> = std::fs::read_dir(folder)
        .expect("the seeds are there")
        .map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a seed"))
        .collect();
    seeds.sort();
    assert!(seeds.iter().all(|seed| config::read(seed)));
    for number in 0..6000 {
        let mut random = mutate::Random::of(number);
        let seed = &seeds[random.below(seeds.len())];
        let other = &seeds[random.below(seeds.len())];
        let input = mutate::mutated(seed, other, &mut random);
        let read = std::panic::catch_unwind(|| config::read(&input));
        assert!(read.is_ok(), "case {number}");
    }
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
