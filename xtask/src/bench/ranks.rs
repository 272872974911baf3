//! Measures how reading a job grows with its ranks: makes jobs without faults (1.4 MB and four steps a rank, see `make_ranks`), reads and
//! reduces one rank after another in a process of its own, and joins them. Prints a row of docs/ranks.md for each.
//!
//!     cargo run --release -p xtask -- bench ranks 8 64 256 1024 4096

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use llmprof_analysis::analyze;
use llmprof_analysis::ranks::summarize;
use llmprof_record::import::{self, Limits, Profile};
use llmprof_record::rank_summary::{RankSummary, SummarySource};
use llmprof_record::run::RunRecord;

use super::process_figures::{MemoryPeak, numbers_of_child, processor_seconds};
use crate::make_ranks::{MadeJob, read_template};

pub(super) fn run_bench(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    if let ["--child", folder, ranks] = arguments {
        return read_ranks(Path::new(folder), ranks.parse()?);
    }
    println!("| ranks | events | time | CPU time | memory | summaries |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for &words in arguments {
        let ranks: u64 = words.parse()?;
        let folder = tempfile::tempdir()?;
        write_ranks(folder.path(), ranks)?;
        let numbers = numbers_of_child(&[
            "ranks".as_ref(),
            "--child".as_ref(),
            folder.path().as_ref(),
            words.as_ref(),
        ])?;
        let &[events, wall, joined, processors, memory, bytes] = &numbers[..] else {
            return Err("a child printed something else".into());
        };
        let (a_rank, an_event) = (ranks as f64, events.max(1.0));
        println!(
            "| {ranks} | {events} | {wall:.2} s, of which {joined:.2} s to join; {:.1} ms a rank | {processors:.2} s, {:.1} µs an event | {:.0} MB, {:.0} KB a rank | {:.2} MB, {:.1} KB a rank, {:.1} bytes an event |",
            1e3 * wall / a_rank,
            1e6 * processors / an_event,
            memory / 1e6,
            memory / 1e3 / a_rank,
            bytes / 1e6,
            bytes / 1e3 / a_rank,
            bytes / an_event,
        );
    }
    Ok(())
}

fn write_ranks(folder: &Path, ranks: u64) -> Result<(), Box<dyn Error>> {
    let job = MadeJob {
        ranks,
        steps: 4,
        operators: 4,
        ..MadeJob::default()
    };
    let template = read_template();
    let timeline = job.run(&template);
    for rank in 0..ranks {
        std::fs::write(
            folder.join(format!("rank{rank}.json")),
            timeline.profile(rank),
        )?;
    }
    Ok(())
}

/// Prints events, seconds of all and of joining, seconds of processors, peak anonymous bytes, and bytes of the summaries.
fn read_ranks(folder: &Path, ranks: u64) -> Result<(), Box<dyn Error>> {
    let peak = MemoryPeak::watch();
    let began = Instant::now();
    let mut record = RunRecord::default();
    let mut bytes = 0;
    for rank in 0..ranks {
        let file = folder.join(format!("rank{rank}.json"));
        let (_, Profile::Trace(trace)) = import::import(&file, &Limits::default())? else {
            return Err("not a timeline".into());
        };
        // As the file of a rank brings it back.
        let written = summarize(&trace, rank as u32, SummarySource::default()).to_bytes();
        bytes += written.len();
        record
            .rank_summaries
            .push(RankSummary::from_bytes(&written)?);
    }
    let read = began.elapsed().as_secs_f64();
    let ranks = analyze(&record, None)?.ranks;
    let job = ranks.and_then(|ranks| ranks.job).ok_or("no job")?;
    let wall = began.elapsed().as_secs_f64();
    println!(
        "{} {wall} {} {} {} {bytes}",
        job.events,
        wall - read,
        processor_seconds(),
        peak.bytes()?
    );
    Ok(())
}
