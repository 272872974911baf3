//! Feeds damaged configs to the parser of YAML, overrides and interpolations; the seeds are those of `fuzz/corpus/config`.
//!
//!     cargo run --profile fuzz -p llmprof-config --example fuzz_config -- COUNT

#![allow(
    unreachable_pub,
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

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    runner::main(vec![runner::Target {
        name: "config",
        seeds: runner::seeds(&corpus, "config")?,
        read: Box::new(config::read),
    }])
}
