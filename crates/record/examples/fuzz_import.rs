//! Feeds damaged files to the importers, to the reader of wire records and to those of run directories; the seeds are those
//! of `fuzz/corpus`.
//!
//!     cargo run --profile fuzz -p llmprof-record --example fuzz_import -- COUNT [TARGET…]
//!
//! Each target gets COUNT inputs. One that panics, takes longer than ten seconds or more memory than its size explains is
//! written to the temporary folder. The inputs are the same in every run. `LLMPROF_FUZZ_FIRST` is the number of the first.

#![allow(
    unreachable_pub,
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

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use llmprof_record::import::{Limits, import};
use llmprof_record::run::RunRecord;
use llmprof_record::store::RunDir;
use runner::{Target, seeds};

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut targets = Vec::new();
    for name in importers::formats() {
        targets.push(Target {
            name,
            seeds: seeds(&corpus, name)?,
            read: Box::new(move |bytes| importers::import(name, bytes)),
        });
    }
    targets.push(Target {
        name: "wire_records",
        seeds: seeds(&corpus, "llmprof_wire")?,
        read: Box::new(|bytes| {
            let read = llmprof_wire::Reader::new(bytes);
            read.is_ok_and(|(_, records)| records.count() > 0)
        }),
    });
    targets.extend(run_directories(&corpus)?);
    runner::main(targets)
}

/// One target for each file of a run that is read again.
fn run_directories(corpus: &Path) -> Result<Vec<Target>, Box<dyn Error>> {
    let mut record = RunRecord::default();
    for profile in run_directory::PROFILES {
        let (_, profile) = import(&corpus.join(profile), &Limits::default())?;
        if record.add_profile("profile", profile).is_err() {
            return Err("a seed has no place in a run".into());
        }
    }
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    drop(RunDir::create(
        &run,
        "2026-01-01T00:00:00Z".into(),
        "0.0.0",
    )?);
    record.save(&run)?;
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
        targets.push(Target {
            name: file,
            seeds: vec![seed],
            read: Box::new(move |bytes| run_directory::read(own.path(), file, bytes)),
        });
    }
    Ok(targets)
}
