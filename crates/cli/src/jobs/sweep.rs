//! The jobs of a sweep: one after the other, or a few at once.

use std::{
    collections::VecDeque,
    fs::File,
    path::Path,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use llmprof_capture::process::Interrupt;
use llmprof_config::hydra::{Host, HydraCommand, HydraJob, Launcher, Multirun};
use llmprof_record::{
    plan::ModelPlace,
    run::RunRecord,
    store::{
        Folder, RunStatus, StoreError, StoredRun, check_folder, lock_folder, write_atomically,
    },
};
use llmprof_report::compose::sweep::{self, SweepFigures, SweepRow};

use super::{
    attempts::set_aside,
    job::{self, EndedJob},
    launcher::{JobsFile, LaunchRequest, SWEEP_FILE, follow_submitted, is_in_queue, launch},
};
use crate::{
    failure::Failure,
    output::Output,
    page_link::page_link,
    plan::{PlanPurpose, plan},
    progress::Show,
};

/// Between two looks at a sweep that another process runs.
const ATTACHED_POLL: Duration = Duration::from_millis(500);

/// How a sweep is run.
pub(super) struct SweepMode<'a> {
    pub(super) jobs_at_once: usize,
    /// Whether jobs that are complete in the sweep directory are kept.
    pub(super) resume: bool,
    pub(super) command: &'a HydraCommand,
    pub(super) host: &'a Host,
}

/// Runs every job. One that fails does not stop the others; the exit code tells. After an interrupt no job starts, and none does
/// where the request of one is a mistake: it would come to light hours later.
pub(super) fn sweep(
    multirun: &Multirun,
    how: &SweepMode<'_>,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    let cwd = &how.host.cwd;
    let mut uses_gpu = false;
    for job in &multirun.jobs {
        let plan = plan(&job.composed, PlanPurpose::Run)?;
        uses_gpu |= plan.device != ModelPlace::Cpu;
    }
    let dir = cwd.join(&multirun.dir);
    let folder =
        check_folder(&dir).map_err(|error| Failure::directory(&error, "hydra.sweep.dir=DIR"))?;
    // Held as long as the sweep runs: who attaches to it waits for that.
    let held = match lock_folder(&folder) {
        Ok(held) => held,
        Err(StoreError::InUse { .. }) if how.resume => return attach(&dir, output),
        Err(StoreError::InUse { .. }) => {
            return Err(
                Failure::new(format!("the sweep in {} is running", dir.display()))
                    .hint(format!("llmprof run --attach {} follows it", dir.display())),
            );
        }
        Err(error) => return Err(error.into()),
    };
    if how.resume
        && let Ok(file) = JobsFile::read(&dir.join(SWEEP_FILE))
        && is_in_queue(&file)?
    {
        drop(held);
        return attach(&dir, output);
    }
    write_atomically(
        &dir.join("multirun.yaml"),
        multirun.multirun_yaml.as_bytes(),
    )?;
    let pending = if how.resume {
        pending(multirun, cwd)?
    } else {
        (0..multirun.jobs.len()).collect()
    };
    JobsFile::new(multirun, how.command, how.host, &pending).write(&dir.join(SWEEP_FILE))?;
    let launcher = multirun.launcher()?;
    let (mut rows, stopped) = if launcher == Launcher::Basic {
        in_this_process(multirun, &pending, how.jobs_at_once, cwd)
    } else {
        let request = LaunchRequest {
            command: how.command,
            host: how.host,
            uses_gpu,
        };
        let launched = launch(launcher, multirun, &request, &pending, &crate::output::note)?;
        let ended = pending.iter().filter_map(|&number| {
            let state = launched.states.get(&number).map(String::as_str);
            let started = state.is_some() || is_run(&multirun.jobs[number], cwd);
            started.then(|| stored(number, &multirun.jobs[number], state, cwd))
        });
        (ended.collect(), launched.was_interrupted)
    };
    let kept = (0..multirun.jobs.len()).filter(|number| !pending.contains(number));
    rows.extend(kept.map(|number| stored(number, &multirun.jobs[number], None, cwd)));
    let is_complete = conclude(rows, multirun.jobs.len(), &dir, output)?;
    if stopped {
        return Ok(ExitCode::from(job::INTERRUPTED));
    }
    Ok(exit_code(is_complete, launcher, &dir))
}

/// `run --attach DIR`: waits for a sweep that another process or Slurm runs, says how its jobs change, and joins what they made.
pub(super) fn attach(dir: &Path, output: &mut Output) -> Result<ExitCode, Failure> {
    let path = dir.join(SWEEP_FILE);
    if !path.is_file() {
        return Err(Failure::new(format!("{} is not a sweep", dir.display()))
            .hint("--attach takes the folder of a sweep: hydra.sweep.dir".to_owned()));
    }
    let file = JobsFile::read(&path)?;
    let mut multirun = file.multirun()?;
    // Paths are shown as they are called from here.
    let cwd = crate::app::host()?.cwd;
    for job in &mut multirun.jobs {
        if let Ok(below) = job.dir.strip_prefix(&cwd) {
            job.dir = below.to_owned();
        }
    }
    let mut interrupt = Interrupt::install().map_err(|error| Failure::new(error.to_string()))?;
    let tell = &crate::output::note;
    let Some(_held) = wait_for_owner(&multirun, &cwd, dir, &mut interrupt)? else {
        tell("detached; the sweep goes on");
        return Ok(ExitCode::from(job::INTERRUPTED));
    };
    // The process that is gone may have submitted an array meanwhile.
    let file = JobsFile::read(&path)?;
    let launched = follow_submitted(&file, &multirun, &mut interrupt, tell)?;
    let jobs = multirun.jobs.iter().enumerate();
    let rows = jobs
        .filter(|(number, job)| launched.states.contains_key(number) || is_run(job, &cwd))
        .map(|(number, job)| {
            let state = launched.states.get(&number).map(String::as_str);
            stored(number, job, state, &cwd)
        });
    let is_complete = conclude(rows.collect(), multirun.jobs.len(), dir, output)?;
    if launched.was_interrupted {
        return Ok(ExitCode::from(job::INTERRUPTED));
    }
    Ok(exit_code(is_complete, multirun.launcher()?, dir))
}

/// Says how jobs change until no process runs the sweep, and takes it; `None` after an interrupt. Where none runs it, Slurm says how jobs change.
fn wait_for_owner(
    multirun: &Multirun,
    cwd: &Path,
    dir: &Path,
    interrupt: &mut Interrupt,
) -> Result<Option<File>, Failure> {
    let folder = Folder::open(dir)
        .map_err(|error| Failure::new(format!("cannot use {}: {error}", dir.display())))?;
    let mut told: Vec<Option<String>> = vec![None; multirun.jobs.len()];
    loop {
        let held = lock_folder(&folder);
        let is_owned = matches!(held, Err(StoreError::InUse { .. }));
        if is_owned || told.iter().any(Option::is_some) {
            tell_changes(multirun, cwd, &mut told);
        }
        if !is_owned {
            return Ok(Some(held?));
        }
        std::thread::sleep(ATTACHED_POLL);
        if interrupt.stop_count() > 0 {
            return Ok(None);
        }
    }
}

fn tell_changes(multirun: &Multirun, cwd: &Path, told: &mut [Option<String>]) {
    for (number, job) in multirun.jobs.iter().enumerate() {
        let run = StoredRun::open(cwd.join(&job.dir)).ok();
        let state = run.as_ref().map(|run| run.manifest.status.to_string());
        if let Some(shown) = &state
            && state != told[number]
        {
            crate::output::note(&format!("job {number}: {shown}"));
            told[number] = state;
        }
    }
}

/// Prints the table of a sweep and writes its comparison. Says whether every job is complete.
fn conclude(
    mut rows: Vec<SweepRow>,
    jobs: usize,
    dir: &Path,
    output: &mut Output,
) -> Result<bool, Failure> {
    rows.sort_by_key(|row: &SweepRow| row.number);
    for row in &mut rows {
        row.report_link = page_link(dir, &Path::new(&row.dir).join("report.html"));
    }
    for line in sweep::warnings(&rows) {
        crate::output::note(&line);
    }
    output.summary(&sweep::summary(&rows))?;
    output.table(&sweep::table(&rows))?;
    write_results(&rows, dir)?;
    let skipped = jobs - rows.len();
    match skipped {
        0 => {}
        1 => output.line("1 job was not started")?,
        _ => output.line(&format!("{skipped} jobs were not started"))?,
    }
    let page = dir.join("comparison.html");
    // A sweep that is followed is named by its relative path, and says the same.
    let here = std::env::current_dir().unwrap_or_default();
    let shown = page.strip_prefix(&here).unwrap_or(&page);
    output.line(&format!("report: {}", shown.display()))?;
    Ok(skipped == 0 && rows.iter().all(|row| row.complete))
}

/// The code of a sweep that ended; where jobs ran elsewhere, how to run the missing ones is said.
fn exit_code(is_complete: bool, launcher: Launcher, dir: &Path) -> ExitCode {
    if is_complete {
        return ExitCode::SUCCESS;
    }
    if launcher != Launcher::Basic {
        crate::output::note(&format!(
            "the same command with hydra.sweep.dir='{}' --resume runs what is not complete again",
            dir.display()
        ));
    }
    ExitCode::from(crate::failure::EXIT_CODE)
}

fn write_results(rows: &[SweepRow], dir: &Path) -> Result<(), Failure> {
    let document = sweep::document(rows);
    let mut files = vec![
        (
            "comparison.html".to_owned(),
            llmprof_report::render::html::report(&document),
        ),
        (
            "comparison.md".to_owned(),
            llmprof_report::render::markdown::document(&document),
        ),
        ("comparison.csv".to_owned(), sweep::csv(rows)),
    ];
    for (name, plot) in llmprof_report::plots(&document) {
        files.push((format!("plots/{name}.svg"), plot.file()));
    }
    // A sweep that is resumed may come from somebody else: no link inside it is followed.
    let folder = Folder::open(dir).map_err(|error| Failure::cannot_write(dir, &error))?;
    for (name, contents) in files {
        folder
            .replace(&name, contents.as_bytes())
            .map_err(|error| Failure::cannot_write(&dir.join(name), &error))?;
    }
    Ok(())
}

/// Hydra's own launcher: one after the other, or a few at once.
fn in_this_process(
    multirun: &Multirun,
    pending: &[usize],
    jobs_at_once: usize,
    cwd: &Path,
) -> (Vec<SweepRow>, bool) {
    let waiting: Mutex<VecDeque<(usize, &HydraJob)>> = Mutex::new(
        pending
            .iter()
            .map(|&number| (number, &multirun.jobs[number]))
            .collect(),
    );
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
            crate::output::note(&format!("job {number} (of {all}): {overrides}"));
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
        for _ in 1..jobs_at_once.min(pending.len()) {
            scope.spawn(worker);
        }
        worker();
    });
    (rows.into_inner().unwrap_or_default(), stop.into_inner())
}

fn is_run(job: &HydraJob, cwd: &Path) -> bool {
    StoredRun::open(cwd.join(&job.dir)).is_ok()
}

/// Jobs that are not complete in their directories. What an earlier attempt left is moved aside, never overwritten.
fn pending(multirun: &Multirun, cwd: &Path) -> Result<Vec<usize>, Failure> {
    let mut pending = Vec::new();
    for (number, job) in multirun.jobs.iter().enumerate() {
        let dir = cwd.join(&job.dir);
        let Ok(run) = StoredRun::open(&dir) else {
            pending.push(number);
            continue;
        };
        if run.manifest.status == RunStatus::Complete {
            if run.manifest.overrides != job.overrides {
                return Err(Failure::new(format!(
                    "{} is a run of {}, not of {}",
                    dir.display(),
                    run.manifest.overrides.join(" "),
                    job.overrides.join(" ")
                ))
                .hint(
                    "--resume continues the same sweep: give the command line that made it"
                        .to_owned(),
                ));
            }
            continue;
        }
        set_aside(&run, &dir)?;
        pending.push(number);
    }
    Ok(pending)
}

/// A job as its directory tells; `state` is Slurm's word for it.
fn stored(number: usize, job: &HydraJob, state: Option<&str>, cwd: &Path) -> SweepRow {
    let dir = cwd.join(&job.dir);
    let run = StoredRun::open(&dir).ok();
    let complete = run
        .as_ref()
        .is_some_and(|run| run.manifest.status == RunStatus::Complete);
    let record = RunRecord::load(&dir).ok().flatten();
    let record = record.filter(|_| complete).filter(RunRecord::has_times);
    let analysis = record.and_then(|record| llmprof_analysis::analyze(&record, None).ok());
    // A run that was killed says `running`: what ended it is Slurm's to say.
    let said = state
        .filter(|state| *state != "COMPLETED")
        .map(str::to_lowercase);
    let status = run.as_ref().map(|run| run.manifest.status.to_string());
    if let Some(error) = run.as_ref().and_then(|run| run.manifest.error.as_ref()) {
        Failure::new(format!("job {number}: {error}")).report();
    }
    let shown = match (complete, said, status) {
        (false, Some(said), _) => said,
        (_, _, Some(status)) => status,
        (_, _, None) => "not started".to_owned(),
    };
    SweepRow {
        number,
        overrides: job.overrides.clone(),
        state: shown,
        dir: job.dir.display().to_string(),
        report_link: None,
        complete,
        figures: analysis.as_ref().map(SweepFigures::from_analysis),
        issues: run.map(|run| run.manifest.issues).unwrap_or_default(),
    }
}

fn row(number: usize, job: &HydraJob, outcome: Result<EndedJob, Failure>) -> SweepRow {
    let mut figures = None;
    let mut issues = Vec::new();
    let (state, complete) = match outcome {
        Ok(ended) => {
            figures = ended.analysis.as_ref().map(SweepFigures::from_analysis);
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
    SweepRow {
        number,
        overrides: job.overrides.clone(),
        issues,
        state,
        dir: job.dir.display().to_string(),
        report_link: None,
        complete,
        figures,
    }
}
