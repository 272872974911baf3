//! Feeds damaged copies of requests, queries, summaries, models, devices, prices, texts and messages to their readers; the seeds are those of
//! `fuzz/corpus`. Messages go to the program beside this one.
//!
//!     cargo build --profile fuzz -p llmprof
//!     cargo run --profile fuzz -p llmprof --example fuzz_cli -- COUNT [TARGET…]

#![allow(
    unreachable_pub,
    dead_code,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints its result, of files that are modules of the fuzz targets too"
)]

#[path = "../../../fuzz/src/mcp.rs"]
mod mcp;
#[path = "../../../fuzz/src/memory.rs"]
mod memory;
#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/src/other_inputs.rs"]
mod other_inputs;
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
    for name in other_inputs::FORMATS {
        let folder = fuzz.clone();
        targets.push(runner::FuzzTarget {
            name,
            seeds: seeds::Seeds::read(&fuzz, name)?,
            read: Box::new(move |bytes| other_inputs::read(&folder, name, bytes)),
        });
    }
    let here = std::env::current_exe()?;
    let program = here.parent().and_then(Path::parent).ok_or("no folder")?;
    let server = mcp::McpServer::new(&program.join("llmprof"), &fuzz);
    targets.push(runner::FuzzTarget {
        name: mcp::FORMAT,
        seeds: seeds::Seeds::read(&fuzz, mcp::FORMAT)?,
        read: Box::new(move |bytes| server.read(bytes)),
    });
    runner::main(targets)
}
