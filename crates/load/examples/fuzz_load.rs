//! Feeds damaged copies of what servers and load generators say to their readers; the seeds are those of `fuzz/corpus`.
//!
//!     cargo run --profile fuzz -p llmprof-load --example fuzz_load -- COUNT [TARGET…]

#![allow(
    unreachable_pub,
    dead_code,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints its result, of files that are modules of the fuzz targets too"
)]

#[path = "../../../fuzz/src/load.rs"]
mod load;
#[path = "../../../fuzz/src/memory.rs"]
mod memory;
#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/src/runner.rs"]
mod runner;
#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static MEMORY: memory::CountingAllocator = memory::CountingAllocator;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut targets = Vec::new();
    for name in load::FORMATS {
        targets.push(runner::FuzzTarget {
            name,
            seeds: seeds::Seeds::read(&fuzz, name)?,
            read: Box::new(move |bytes| load::read(name, bytes)),
        });
    }
    runner::main(targets)
}
