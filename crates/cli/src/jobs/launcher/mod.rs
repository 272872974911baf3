//! Sweeps through submitit's launchers: `hydra/launcher=submitit_slurm` and `submitit_local`.
//!
//! The script, folders and names are submitit's. The command in the script is `llmprof sweep-job FILE`, where the plugin unpickles a Python
//! function; a job that fails exits with a code other than 0, so that Slurm knows.

mod jobs_file;
mod keys;
mod local;
mod script;
mod slurm;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use llmprof_capture::process::Interrupt;
use llmprof_config::hydra::{Host, HydraCommand, Launcher, Multirun};
use llmprof_record::store::{RunStatus, StoredRun};

pub(crate) use self::jobs_file::JobsFile;
use self::keys::LauncherKeys;
use self::slurm::Submitted;
use super::attempts::set_aside;
use crate::{failure::Failure, progress::Show};

/// The sweep in its own directory, for whoever attaches to it.
pub(super) const SWEEP_FILE: &str = "jobs.json";
/// The command that a job of a sweep is.
pub(crate) const SWEEP_JOB: &str = "sweep-job";

/// What is needed to make a sweep again in another process.
pub(super) struct LaunchRequest<'a> {
    pub(super) command: &'a HydraCommand,
    pub(super) host: &'a Host,
    pub(super) uses_gpu: bool,
}

/// How jobs ended, by number.
pub(super) struct LaunchedJobs {
    /// Slurm's words, where there are any.
    pub(super) states: BTreeMap<usize, String>,
    pub(super) was_interrupted: bool,
}

/// Runs the jobs with these numbers; `tell` hears of every change.
pub(super) fn launch(
    launcher: Launcher,
    multirun: &Multirun,
    request: &LaunchRequest<'_>,
    pending: &[usize],
    tell: &dyn Fn(&str),
) -> Result<LaunchedJobs, Failure> {
    let keys = LauncherKeys::read(&multirun.master, &request.host.cwd)?;
    if launcher == Launcher::SubmititLocal {
        keys.refuse_resources()?;
    }
    let keys = if request.uses_gpu && launcher == Launcher::SubmititSlurm {
        keys.with_a_gpu()
    } else {
        keys
    };
    let mut launched = LaunchedJobs {
        states: BTreeMap::new(),
        was_interrupted: false,
    };
    let mut interrupt = Interrupt::install().map_err(|error| Failure::new(error.to_string()))?;
    let mut left = pending.to_vec();
    for attempt in 0..=keys.max_num_timeout {
        if attempt > 0 {
            left = not_complete(multirun, &request.host.cwd, &left)?;
        }
        if left.is_empty() || launched.was_interrupted {
            break;
        }
        let file = write_jobs(&keys, multirun, request, &left, attempt)?;
        if launcher == Launcher::SubmititSlurm {
            let submitted = submit_to_slurm(&keys, &file, &left, tell)?;
            let mut sweep = JobsFile::new(multirun, request.command, request.host, &left);
            sweep.slurm_job = Some(submitted.id.clone());
            sweep.write(&request.host.cwd.join(&multirun.dir).join(SWEEP_FILE))?;
            follow_slurm(
                &keys,
                &submitted,
                &left,
                &mut interrupt,
                &mut launched,
                tell,
            )?;
        } else {
            here(&keys, &file, &left, &mut interrupt, &mut launched, tell)?;
        }
        let timed_out = |number: &usize| {
            let state = launched.states.get(number);
            state.is_some_and(|state| state == "TIMEOUT")
        };
        left.retain(timed_out);
    }
    Ok(launched)
}

/// Those of the jobs that did not end before their time was up; what they left is moved aside.
fn not_complete(multirun: &Multirun, cwd: &Path, jobs: &[usize]) -> Result<Vec<usize>, Failure> {
    let mut left = Vec::new();
    for &number in jobs {
        if !is_complete(&cwd.join(&multirun.jobs[number].dir))? {
            left.push(number);
        }
    }
    Ok(left)
}

fn write_jobs(
    keys: &LauncherKeys,
    multirun: &Multirun,
    request: &LaunchRequest<'_>,
    jobs: &[usize],
    attempt: u64,
) -> Result<PathBuf, Failure> {
    let folder = keys.shared_folder();
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::new(format!("cannot create {}: {error}", folder.display())))?;
    let stamp = jiff::Timestamp::now().as_millisecond();
    let path = folder.join(format!("jobs_{stamp}_{attempt}.json"));
    JobsFile::new(multirun, request.command, request.host, jobs).write(&path)?;
    Ok(path)
}

fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program: {error}")))
}

fn submit_to_slurm(
    keys: &LauncherKeys,
    file: &Path,
    jobs: &[usize],
    tell: &dyn Fn(&str),
) -> Result<Submitted, Failure> {
    let program = program()?;
    let words = [
        program.to_string_lossy(),
        SWEEP_JOB.into(),
        file.to_string_lossy(),
    ];
    let command: Vec<String> = words.iter().map(|word| script::quoted(word)).collect();
    let submitted = slurm::submit(keys, jobs.len(), &command.join(" "))?;
    tell(&format!(
        "submitted job {} ({} of a sweep)",
        submitted.id,
        jobs.len()
    ));
    Ok(submitted)
}

/// Follows the array that another process submitted, where Slurm runs the sweep.
pub(super) fn follow_submitted(
    file: &JobsFile,
    multirun: &Multirun,
    interrupt: &mut Interrupt,
    tell: &dyn Fn(&str),
) -> Result<LaunchedJobs, Failure> {
    let mut launched = LaunchedJobs {
        states: BTreeMap::new(),
        was_interrupted: false,
    };
    if let Some(id) = &file.slurm_job {
        let keys = LauncherKeys::read(&multirun.master, &file.cwd)?;
        let submitted = Submitted {
            id: id.clone(),
            count: file.jobs.len(),
        };
        follow_slurm(
            &keys,
            &submitted,
            &file.jobs,
            interrupt,
            &mut launched,
            tell,
        )?;
    }
    Ok(launched)
}

/// Whether Slurm has jobs of the sweep that did not end.
pub(super) fn is_in_queue(file: &JobsFile) -> Result<bool, Failure> {
    match &file.slurm_job {
        Some(id) => Submitted {
            id: id.clone(),
            count: file.jobs.len(),
        }
        .is_running(),
        None => Ok(false),
    }
}

fn follow_slurm(
    keys: &LauncherKeys,
    submitted: &Submitted,
    jobs: &[usize],
    interrupt: &mut Interrupt,
    launched: &mut LaunchedJobs,
    tell: &dyn Fn(&str),
) -> Result<(), Failure> {
    let followed = submitted.follow(interrupt, |place, state| {
        tell(&format!("job {}: {}", jobs[place], state.to_lowercase()));
    })?;
    for (place, state) in followed.states.into_iter().enumerate() {
        if let Some(state) = state {
            if state != "COMPLETED" {
                let log = slurm::log_file(keys, submitted, place);
                tell(&format!(
                    "job {}: its log is {}",
                    jobs[place],
                    log.display()
                ));
            }
            launched.states.insert(jobs[place], state);
        }
    }
    launched.was_interrupted |= followed.was_interrupted;
    Ok(())
}

fn here(
    keys: &LauncherKeys,
    file: &Path,
    jobs: &[usize],
    interrupt: &mut Interrupt,
    launched: &mut LaunchedJobs,
    tell: &dyn Fn(&str),
) -> Result<(), Failure> {
    let program = program()?;
    for (place, number) in jobs.iter().enumerate() {
        tell(&format!("job {number}: running"));
        let args = [
            SWEEP_JOB.to_owned(),
            file.to_string_lossy().into_owned(),
            place.to_string(),
        ];
        let ran = local::run(keys, &program, &args, interrupt)?;
        tell(&format!("job {number}: {}", ran.state.to_lowercase()));
        launched.states.insert(*number, ran.state.to_owned());
        if ran.was_interrupted {
            launched.was_interrupted = true;
            break;
        }
    }
    Ok(())
}

/// `llmprof sweep-job FILE [PLACE]`: one job of a sweep, in a process that somebody else started. The place is that of the Slurm array where
/// it is not given.
pub(crate) fn sweep_job(words: &[OsString]) -> Result<ExitCode, Failure> {
    let [file, rest @ ..] = words else {
        return Err(Failure::new("sweep-job needs a file of jobs"));
    };
    let place = match rest {
        [place, ..] => place.to_str().and_then(|text| text.parse().ok()),
        [] => match std::env::var("SLURM_ARRAY_TASK_ID") {
            Ok(text) => text.parse().ok(),
            Err(_) => Some(0),
        },
    };
    let place: usize = place.ok_or_else(|| Failure::new("the place of a job is a number"))?;
    let jobs = JobsFile::read(Path::new(file))?;
    std::env::set_current_dir(&jobs.cwd)
        .map_err(|error| Failure::new(format!("cannot enter {}: {error}", jobs.cwd.display())))?;
    let job = jobs.job(place)?;
    if is_requeued() && is_complete(&jobs.cwd.join(&job.dir))? {
        return Ok(ExitCode::SUCCESS);
    }
    let ended = super::job::run(&job, &jobs.cwd, Show::Lines)?;
    if let Some(error) = &ended.error {
        Failure::new(error.clone()).report();
    }
    Ok(ended.exit_code())
}

/// Whether Slurm started this job before: it was preempted, its node failed, or somebody called `scontrol requeue`.
fn is_requeued() -> bool {
    let count = std::env::var("SLURM_RESTART_COUNT");
    count.is_ok_and(|count| count.parse::<u64>().is_ok_and(|count| count > 0))
}

/// Whether the attempt before had ended; what one left that had not is moved aside.
fn is_complete(dir: &Path) -> Result<bool, Failure> {
    match StoredRun::open(dir) {
        Ok(run) if run.manifest.status == RunStatus::Complete => Ok(true),
        Ok(run) => set_aside(&run, dir).map(|()| false),
        Err(_) => Ok(false),
    }
}
