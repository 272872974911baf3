//! `export --to parquet`: the tables of a run as files for other engines.

use std::path::Path;

use llmprof_record::store::StoredRun;

use crate::{failure::Failure, output::Output};

#[cfg(not(feature = "parquet"))]
pub(super) fn export_parquet(_: StoredRun, _: &Path, _: &mut Output) -> Result<(), Failure> {
    Err(
        Failure::new("this build of llmprof does not write Parquet").hint(
            "cargo build --release --features parquet; --to sqlite has the events as well"
                .to_owned(),
        ),
    )
}

#[cfg(feature = "parquet")]
pub(super) fn export_parquet(
    run: StoredRun,
    root: &Path,
    output: &mut Output,
) -> Result<(), Failure> {
    use llmprof_view::{ParquetExportError, ParquetFolder};

    let name = run_name(&run.path);
    let opened = crate::viewing::open(&run.path)?;
    let locked = root
        .starts_with(&run.path)
        .then(|| run.lock())
        .transpose()?;
    let failed = |error: ParquetExportError| Failure::new(error.to_string());
    let folder = ParquetFolder::create(root, &name).map_err(failed)?;
    let summaries = &opened.record.rank_summaries;
    if summaries.is_empty() {
        folder.write_ranks(&opened).map_err(failed)?;
    } else {
        crate::job_ranks::each_rank(summaries, |_, record| {
            let rank = opened
                .open_rank(record)
                .map_err(|error| Failure::new(error.to_string()))?;
            folder.write_ranks(&rank).map_err(failed)
        })?;
    }
    folder.write_run(&opened).map_err(failed)?;
    let written = folder.finish().map_err(failed)?;
    if let Some(locked) = locked {
        locked.finish()?;
    }
    output.line(&written.display().to_string())
}

/// The directory of a run, with the folder above where its name is a number: `sweep/3` for a job of a sweep.
#[cfg(feature = "parquet")]
fn run_name(run: &Path) -> String {
    let run = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
    let own = name(&run);
    match run.parent().map(name) {
        Some(above) if !above.is_empty() && own.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{above}/{own}")
        }
        _ => own,
    }
}
