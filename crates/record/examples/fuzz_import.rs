//! Feeds damaged files to the importers; the seeds are those of `fuzz/corpus`.
//!
//!     cargo run --profile fuzz -p llmprof-record --example fuzz_import -- COUNT [FORMAT…]
//!
//! Each format gets COUNT inputs. A panic, or an input that takes longer than ten seconds, is written to the temporary
//! folder. The inputs are the same in every run. `LLMPROF_FUZZ_FIRST` is the number of the first.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints its result"
)]

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

use std::env;
use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// An input that takes longer is a hang.
const SLOW: Duration = Duration::from_secs(10);
/// Inputs that are kept of one format.
const MOST_KEPT: u64 = 20;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let count: u64 = arguments.next().as_deref().unwrap_or("10000").parse()?;
    let first: u64 = env::var("LLMPROF_FUZZ_FIRST").map_or(Ok(0), |text| text.parse())?;
    let chosen: Vec<String> = arguments.collect();
    std::panic::set_hook(Box::new(|_| {}));
    let mut failed = false;
    for format in importers::formats() {
        if !chosen.is_empty() && !chosen.iter().any(|name| name == format) {
            continue;
        }
        let seeds = seeds(format)?;
        let (mut read, mut panics, mut slow) = (0_u64, 0_u64, 0_u64);
        let began = Instant::now();
        for number in first..first + count {
            let mut random = mutate::Random::of(number);
            let seed = &seeds[random.below(seeds.len())];
            let other = &seeds[random.below(seeds.len())];
            let input = mutate::mutated(seed, other, &mut random);
            let start = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| importers::import(format, &input)));
            let is_slow = start.elapsed() > SLOW;
            slow += u64::from(is_slow);
            panics += u64::from(outcome.is_err());
            if (outcome.is_err() || is_slow) && panics + slow <= MOST_KEPT {
                let path = env::temp_dir().join(format!("fuzz_{format}_{number}"));
                fs::write(&path, &input)?;
                eprintln!("{format}: input {number} fails: {}", path.display());
            }
            read += u64::from(outcome.unwrap_or(false));
        }
        failed |= panics + slow > 0;
        println!(
            "{format}: {count} inputs, {read} read in part, {panics} panics, {slow} slow, {:.0} s",
            began.elapsed().as_secs_f64()
        );
        std::io::stdout().flush()?;
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn seeds(format: &str) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut seeds = Vec::new();
    for entry in fs::read_dir(folder.join(format))? {
        seeds.push(fs::read(entry?.path())?);
    }
    seeds.sort();
    Ok(seeds)
}
