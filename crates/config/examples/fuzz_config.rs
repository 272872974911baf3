//! Feeds damaged configs to the parser of YAML, overrides and interpolations; the seeds are those of `fuzz/corpus/config`.
//!
//!     cargo run --profile fuzz -p llmprof-config --example fuzz_config -- COUNT

#![allow(
    unreachable_pub,
    dead_code,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints its result, of files that are modules of the fuzz targets too"
)]

#[path = "../../../fuzz/src/config.rs"]
mod config;
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
    runner::main(vec![runner::FuzzTarget {
        name: "config",
        seeds: seeds::Seeds::read(&fuzz, "config")?,
        read: Box::new(config::read),
    }])
}
