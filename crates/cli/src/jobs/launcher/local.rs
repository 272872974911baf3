//! Jobs of a sweep in processes of their own, one after the other, with submitit's folders.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use llmprof_capture::process::Interrupt;
use rustix::process::{Pid, Signal, kill_process};

use super::keys::LauncherKeys;
use crate::failure::Failure;

const POLL: Duration = Duration::from_millis(50);
/// How long a job may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// How one job ended, in Slurm's words.
pub(super) struct Ran {
    pub(super) state: &'static str,
    pub(super) was_interrupted: bool,
}

/// Runs the job at `place` of a jobs file.
pub(super) fn run(
    keys: &LauncherKeys,
    program: &Path,
    args: &[String],
    interrupt: &mut Interrupt,
) -> Result<Ran, Failure> {
    let folder = keys.shared_folder();
    fs::create_dir_all(&folder).map_err(|error| Failure::cannot_write(&folder, &error))?;
    // The name of a log has the process id, which is known once the process is there.
    let waiting = folder.join(format!(".log_{}", std::process::id()));
    let (out, err) = (waiting.with_extension("out"), waiting.with_extension("err"));
    let open =
        |path: &Path| File::create(path).map_err(|error| Failure::cannot_write(path, &error));
    let stdout = open(&out)?;
    let stderr = if keys.stderr_to_stdout {
        stdout
            .try_clone()
            .map_err(|error| Failure::cannot_write(&out, &error))?
    } else {
        open(&err)?
    };
    let mut child = Command::new(program)
        .args(args)
        .env("SUBMITIT_EXECUTOR", "local")
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))?;
    let id = child.id().to_string();
    let own = keys.job_folder(&id);
    fs::create_dir_all(&own).map_err(|error| Failure::cannot_write(&own, &error))?;
    for (from, end) in [(&out, "out"), (&err, "err")] {
        let to = own.join(format!("{id}_0_log.{end}"));
        if from.is_file() {
            fs::rename(from, &to).map_err(|error| Failure::cannot_write(&to, &error))?;
        }
    }
    wait(&mut child, keys, interrupt)
}

fn wait(child: &mut Child, keys: &LauncherKeys, interrupt: &mut Interrupt) -> Result<Ran, Failure> {
    let started = Instant::now();
    let limit = Duration::from_secs(keys.timeout_min.saturating_mul(60));
    let mut told: Option<(Instant, &'static str)> = None;
    loop {
        let ended = child
            .try_wait()
            .map_err(|error| Failure::new(format!("cannot wait for a job: {error}")))?;
        let was_interrupted = interrupt.stop_count() > 0;
        if let Some(status) = ended {
            let state = match told {
                Some((_, why)) => why,
                None if status.success() => "COMPLETED",
                None => "FAILED",
            };
            return Ok(Ran {
                state,
                was_interrupted,
            });
        }
        match told {
            None if was_interrupted => told = Some((end(child, Signal::TERM), "CANCELLED")),
            None if started.elapsed() > limit => {
                told = Some((end(child, Signal::TERM), "TIMEOUT"));
            }
            Some((since, why)) if since.elapsed() > GRACE => {
                told = Some((end(child, Signal::KILL), why));
            }
            _ => {}
        }
        thread::sleep(POLL);
    }
}

fn end(child: &Child, signal: Signal) -> Instant {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // It may have ended in between.
        let _ = kill_process(pid, signal);
    }
    Instant::now()
}
