//! A sweep as a job array of Slurm: `sbatch`, then `squeue` until all have ended.

use std::{
    collections::BTreeMap,
    fs, io,
    io::{BufRead as _, IsTerminal as _},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use llmprof_capture::process::Interrupt;

use super::{keys::LauncherKeys, script};
use crate::failure::Failure;

const FIRST_POLL: Duration = Duration::from_millis(200);
const POLL_MAX: Duration = Duration::from_secs(5);

/// What became of the jobs of one submission, by place in the array.
pub(super) struct Followed {
    /// Slurm's last word, such as `COMPLETED`; absent where the queue forgot the job.
    pub(super) states: Vec<Option<String>>,
    pub(super) was_interrupted: bool,
}

/// A job array that was accepted.
pub(super) struct Submitted {
    pub(super) id: String,
    pub(super) count: usize,
}

/// Writes the script as submitit leaves it and hands it to `sbatch`.
pub(super) fn submit(
    keys: &LauncherKeys,
    count: usize,
    command: &str,
) -> Result<Submitted, Failure> {
    let folder = keys.shared_folder();
    fs::create_dir_all(&folder).map_err(|error| Failure::cannot_write(&folder, &error))?;
    let file = folder.join(format!(".submission_file_{}.sh", unique()));
    let text = script::script(keys, count, command);
    fs::write(&file, text).map_err(|error| Failure::cannot_write(&file, &error))?;
    let said = call("sbatch", &[&file.to_string_lossy()])?;
    let id = job_id(&said).ok_or_else(|| {
        Failure::new(format!(
            "sbatch answered `{}`, which names no job",
            said.trim()
        ))
        .hint(format!("its script is {}", file.display()))
    })?;
    let own = keys.job_folder(&id);
    fs::create_dir_all(&own).map_err(|error| Failure::cannot_write(&own, &error))?;
    let kept = own.join(format!("{id}_submission.sh"));
    fs::rename(&file, &kept).map_err(|error| Failure::cannot_write(&kept, &error))?;
    // submitit leaves a link where the file was; without it nothing is lost.
    let _ = std::os::unix::fs::symlink(&kept, &file);
    if count > 1 {
        for place in 0..count {
            let folder = keys.job_folder(&format!("{id}_{place}"));
            fs::create_dir_all(&folder).map_err(|error| Failure::cannot_write(&folder, &error))?;
        }
    }
    Ok(Submitted { id, count })
}

fn job_id(said: &str) -> Option<String> {
    let (_, after) = said.split_once("job ")?;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

fn unique() -> String {
    let now = jiff::Timestamp::now().as_nanosecond() as u128;
    format!("{:032x}", (now << 32) ^ u128::from(std::process::id()))
}

impl Submitted {
    fn name(&self, place: usize) -> String {
        if self.count == 1 {
            self.id.clone()
        } else {
            format!("{}_{place}", self.id)
        }
    }

    /// Waits until every job has ended. `tell` hears of every change.
    pub(super) fn follow(
        &self,
        interrupt: &mut Interrupt,
        mut tell: impl FnMut(usize, &str),
    ) -> Result<Followed, Failure> {
        let mut followed = Followed {
            states: vec![None; self.count],
            was_interrupted: false,
        };
        let mut pause = FIRST_POLL;
        loop {
            let now = self.queue()?;
            let mut running = 0;
            for place in 0..self.count {
                let state = now.get(&self.name(place));
                if let Some(state) = state
                    && followed.states[place].as_ref() != Some(state)
                {
                    tell(place, state);
                    followed.states[place] = Some(state.clone());
                }
                running += usize::from(state.is_some_and(|state| !has_ended(state)));
            }
            if running == 0 {
                return Ok(followed);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(POLL_MAX);
            if interrupt.stop_count() > 0 {
                followed.was_interrupted = true;
                self.offer_to_cancel()?;
                return Ok(followed);
            }
        }
    }

    /// Whether a job waits or runs.
    pub(super) fn is_running(&self) -> Result<bool, Failure> {
        Ok(self.queue()?.values().any(|state| !has_ended(state)))
    }

    /// Slurm's state of every job that it still knows.
    fn queue(&self) -> Result<BTreeMap<String, String>, Failure> {
        let args = ["-h", "-r", "-t", "all", "-j", &self.id, "-o", "%i %T"];
        let output = apart("squeue")
            .args(args)
            .output()
            .map_err(|error| missing("squeue", &error))?;
        let said = String::from_utf8_lossy(&output.stderr);
        // A job that ended minutes ago is forgotten: its directory says how it went.
        if !output.status.success() && !said.contains("Invalid job id") {
            return Err(
                Failure::new(format!("squeue failed: {}", said.trim())).hint(format!(
                    "the jobs go on: squeue -j {0}; scancel {0}",
                    self.id
                )),
            );
        }
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let pairs = lines.lines().filter_map(|line| line.trim().split_once(' '));
        Ok(pairs
            .map(|(id, state)| (id.to_owned(), state.trim().to_owned()))
            .collect())
    }

    /// Asks on a terminal whether the jobs shall end too.
    fn offer_to_cancel(&self) -> Result<(), Failure> {
        let id = &self.id;
        if !io::stdin().is_terminal() {
            crate::output::note(&format!(
                "interrupted: the jobs go on; `scancel {id}` ends them"
            ));
            return Ok(());
        }
        anstream::eprint!("interrupted: cancel job {id} as well? [y/N] ");
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        if read.is_ok() && answer.trim().eq_ignore_ascii_case("y") {
            call("scancel", &[id])?;
            crate::output::note(&format!("job {id} canceled"));
        } else {
            crate::output::note(&format!("the jobs go on; `scancel {id}` ends them"));
        }
        Ok(())
    }
}

/// Whether nothing more happens in a state, as squeue's manual lists them.
fn has_ended(state: &str) -> bool {
    const ENDED: [&str; 9] = [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "TIMEOUT",
    ];
    ENDED.contains(&state)
}

/// A command in a process group of its own: Ctrl-C on the terminal is for us, and must not end what asks or tells Slurm.
fn apart(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).process_group(0);
    command
}

fn call(program: &str, args: &[&str]) -> Result<String, Failure> {
    let output = apart(program)
        .args(args)
        .output()
        .map_err(|error| missing(program, &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("{program} failed: {}", said.trim()))
            .hint(format!("the call was: {program} {}", args.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn missing(program: &str, error: &io::Error) -> Failure {
    Failure::new(format!("cannot run {program}: {error}"))
        .hint("hydra/launcher=submitit_slurm needs Slurm's commands on the PATH; submitit_local needs none".to_owned())
}

/// Where the logs of a job are.
pub(super) fn log_file(keys: &LauncherKeys, submitted: &Submitted, place: usize) -> PathBuf {
    let name = submitted.name(place);
    keys.job_folder(&name).join(format!("{name}_0_log.err"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_from_what_sbatch_says() {
        assert_eq!(job_id("Submitted batch job 77\n").as_deref(), Some("77"));
        assert_eq!(
            job_id("Submitted batch job 12 on cluster a").as_deref(),
            Some("12")
        );
        assert_eq!(job_id("sbatch: queued"), None);
        assert!(has_ended("TIMEOUT") && !has_ended("COMPLETING") && !has_ended("PENDING"));
    }
}
