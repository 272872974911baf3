//! `export --to sqlite`: the trace and the tables of a query, a file for each rank.

use std::path::Path;

use llmprof_record::store::{StoredRun, full_disk_hint};
use llmprof_view::OpenedRun;

use super::{is_gzip, of_rank};
use crate::{failure::Failure, job_ranks, output::Output, viewing};

pub(super) fn export_sqlite(
    run: StoredRun,
    target: &Path,
    output: &mut Output,
) -> Result<(), Failure> {
    if is_gzip(target) {
        return Err(Failure::new(format!(
            "{}: a SQLite file is not compressed",
            target.display()
        ))
        .hint(format!("-o {}", target.with_extension("").display())));
    }
    let opened = viewing::open(&run.path)?;
    let locked = target
        .starts_with(&run.path)
        .then(|| run.lock())
        .transpose()?;
    let write = |traces: &OpenedRun, rank: Option<u32>, file: &Path| {
        traces.write_sqlite(&opened, rank, file).map_err(|error| {
            let hint = error.is_full_disk().then(|| full_disk_hint(file));
            Failure::new(error.to_string()).hint(hint)
        })
    };
    let summaries = &opened.record.rank_summaries;
    let ranks = opened.record.ranks();
    if !summaries.is_empty() {
        job_ranks::each_rank(summaries, |rank, record| {
            let traces = opened
                .open_rank(record)
                .map_err(|error| Failure::new(error.to_string()))?;
            let file = of_rank(target, Some(rank));
            write(&traces, None, &file)?;
            output.line(&file.display().to_string())
        })?;
    } else if ranks.is_empty() {
        write(&opened, None, target)?;
        output.line(&target.display().to_string())?;
    } else {
        for (rank, _) in ranks {
            let file = of_rank(target, Some(rank));
            write(&opened, Some(rank), &file)?;
            output.line(&file.display().to_string())?;
        }
    }
    if let Some(locked) = locked {
        locked.finish()?;
    }
    Ok(())
}
