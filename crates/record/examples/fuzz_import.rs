//! Feeds damaged files to the importers, to the reader of wire records and to those of run directories; the seeds are those
//! of `fuzz/corpus`.
//!
//!     cargo run --profile fuzz -p llmprof-record --example fuzz_import -- COUNT [TARGET…]
//!
//! Each target gets COUNT inputs. One that panics, takes longer than ten seconds or more memory than its size explains is
//! written to the temporary folder. The inputs are the same in every run. `LLMPROF_FUZZ_FIRST` is the number of the first.

#![allow(
    unreachable_pub,
    dead_code,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints its result, of files that are modules of the fuzz targets too"
)]

#[path = "../../../fuzz/src/importers.rs"]
mod importers;
#[path = "../../../fuzz/src/memory.rs"]
mod memory;
#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/src/run_directory.rs"]
mod run_directory;
#[path = "../../../fuzz/src/runner.rs"]
mod runner;
#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use runner::FuzzTarget;
use seeds::Seeds;

#[global_allocator]
static MEMORY: memory::CountingAllocator = memory::CountingAllocator;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut targets = Vec::new();
    for name in importers::formats() {
        targets.push(FuzzTarget {
            name,
            seeds: Seeds::read(&fuzz, name)?,
            read: Box::new(move |bytes| importers::import(name, bytes)),
        });
    }
    targets.push(FuzzTarget {
        name: "wire_records",
        seeds: Seeds::read(&fuzz, "llmprof_wire")?,
        read: Box::new(|bytes| {
            let read = llmprof_wire::Reader::new(bytes);
            read.is_ok_and(|(_, records)| records.count() > 0)
        }),
    });
    targets.extend(run_directories(&fuzz)?);
    runner::main(targets)
}

/// One target for each file of a run that is read again.
fn run_directories(fuzz: &Path) -> Result<Vec<FuzzTarget>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    run_directory::make(&run, fuzz)?;
    let mut targets = Vec::new();
    for file in run_directory::FILES {
        let Ok(seed) = fs::read(run.join(file)) else {
            continue;
        };
        let own = tempfile::tempdir()?;
        for entry in fs::read_dir(&run)? {
            let path = entry?.path();
            if path.is_file() {
                fs::copy(&path, own.path().join(path.file_name().unwrap_or_default()))?;
            }
        }
        targets.push(FuzzTarget {
            name: file,
            seeds: Seeds::one(seed),
            read: Box::new(move |bytes| run_directory::read(own.path(), file, bytes)),
        });
    }
    Ok(targets)
}
