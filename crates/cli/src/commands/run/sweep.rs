//! The jobs of a sweep: one after the other, or a few at once.

use std::{
    collections::VecDeque,
    path::Path,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use llmprof_config::hydra::{Job, Multirun};
use llmprof_record::store::{RunStatus, write_atomically};

use super::{
    comparison::{self, Figures, Row},
    job::{self, Ended},
};
use crate::{
    failure::Failure,
    output::Output,
    plan::{Purpose, plan},
    progress::Show,
};

/// Runs every job. One that fails does not stop the others; the exit code tells. After an interrupt no job starts, and none does
/// where the request of one is a mistake: it would come to light hours later.
pub(super) fn sweep(
    multirun: &Multirun,
    jobs_at_once: usize,
    cwd: &Path,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    for job in &multirun.jobs {
        plan(&job.composed, Purpose::Run)?;
    }
    let dir = cwd.join(&multirun.dir);
    std::fs::create_dir_all(&dir)
        .map_err(|error| Failure::new(format!("cannot create {}: {error}", dir.display())))?;
    write_atomically(
        &dir.join("multirun.yaml"),
        multirun.multirun_yaml.as_bytes(),
    )?;

    let waiting: Mutex<VecDeque<(usize, &Job)>> =
        Mutex::new(multirun.jobs.iter().enumerate().collect());
    let rows = Mutex::new(Vec::new());
    // Bars of several jobs would overwrite each other.
    let show = if jobs_at_once > 1 {
        Show::Lines
    } else {
        Show::detect()
    };
    let stop = AtomicBool::new(false);
    let worker = || {
        while !stop.load(Ordering::Relaxed) {
            let next = waiting.lock().ok().and_then(|mut jobs| jobs.pop_front());
            let Some((number, job)) = next else {
                return;
            };
            let (all, overrides) = (multirun.jobs.len(), job.overrides.join(" "));
            tell(&format!("job {number} (of {all}): {overrides}"));
            let outcome = job::run(job, cwd, show);
            if matches!(&outcome, Ok(ended) if ended.status == RunStatus::Interrupted) {
                stop.store(true, Ordering::Relaxed);
            }
            if let Ok(mut rows) = rows.lock() {
                rows.push(row(number, job, outcome));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs_at_once.min(multirun.jobs.len()) {
            scope.spawn(worker);
        }
        worker();
    });

    let mut rows = rows.into_inner().unwrap_or_default();
    rows.sort_by_key(|row| row.number);
    for line in comparison::warnings(&rows) {
        tell(&line);
    }
    output.table(&comparison::table(&rows))?;
    write_atomically(
        &dir.join("comparison.md"),
        comparison::document(&rows).as_bytes(),
    )?;
    write_atomically(
        &dir.join("comparison.csv"),
        comparison::csv(&rows).as_bytes(),
    )?;
    let skipped = multirun.jobs.len() - rows.len();
    match skipped {
        0 => {}
        1 => output.line("1 job was not started")?,
        _ => output.line(&format!("{skipped} jobs were not started"))?,
    }
    if stop.into_inner() {
        return Ok(ExitCode::from(job::INTERRUPTED));
    }
    let complete = skipped == 0 && rows.iter().all(|row| row.complete);
    Ok(if complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(crate::failure::EXIT_CODE)
    })
}

/// A line on standard error. Nobody may be reading; that must not end the sweep.
fn tell(line: &str) {
    let line = format!("{line}\n");
    let _ = std::io::Write::write_all(&mut anstream::stderr(), line.as_bytes());
}

fn row(number: usize, job: &Job, outcome: Result<Ended, Failure>) -> Row {
    let mut figures = None;
    let mut issues = Vec::new();
    let (state, complete) = match outcome {
        Ok(ended) => {
            figures = ended.analysis.as_ref().map(Figures::of);
            issues = ended.issues;
            if let Some(error) = &ended.error {
                Failure::new(format!("job {number}: {error}")).report();
            }
            (
                ended.status.to_string(),
                ended.status == RunStatus::Complete,
            )
        }
        Err(failure) => {
            failure.report();
            ("not started".to_owned(), false)
        }
    };
    Row {
        number,
        overrides: job.overrides.clone(),
        issues,
        state,
        dir: job.dir.display().to_string(),
        complete,
        figures,
    }
}
