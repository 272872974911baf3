//! The command runtime: any command line, only watched.

use std::{path::Path, time::Duration};

use llmprof_capture::{
    process::{Interrupt, Launch, Stop},
    session::Halt,
};
use llmprof_config::hydra::HydraJob;
use llmprof_record::{
    plan::{Plan, Word},
    store::{Pass, RunDir, RunStatus},
};

/// How many of a failed child's last lines are shown.
const LAST_LINES: usize = 12;

/// The user's command as a run in this directory starts it; `None` where there is none.
pub(super) fn launch(plan: &Plan, job: &HydraJob, cwd: &Path, run: &Path) -> Option<Launch> {
    let words: Vec<&String> = plan.runtime.argv.iter().map(|Word(text)| text).collect();
    let (program, args) = words.split_first()?;
    let directory = match &plan.runtime.cwd {
        Some(directory) => cwd.join(directory),
        None if job.chdir => run.to_path_buf(),
        None => cwd.to_path_buf(),
    };
    let mut launch = Launch::new(*program)
        .args(args.iter().copied())
        .in_directory(directory);
    for (name, value) in &job.env_set {
        launch = launch.env(name, value);
    }
    for (name, Word(value)) in &plan.runtime.env {
        launch = launch.env(name, value);
    }
    Some(launch)
}

/// Runs the user's command and waits for it; the answer is what to say of it.
pub(super) fn command(
    plan: &Plan,
    job: &HydraJob,
    cwd: &Path,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
) -> Result<String, Halt> {
    let launch = launch(plan, job, cwd, store.path())
        .ok_or_else(|| Halt::failed("runtime.argv is empty"))?;
    let program = launch.program.clone();
    store.write("command/cmd.txt", format!("{launch}\n"))?;
    let mut pass = Pass {
        name: "plain".to_owned(),
        status: RunStatus::Running,
        duration_ns: None,
        exit_code: None,
    };
    store.set_pass(pass.clone())?;

    let mut child = launch.spawn(&store.path().join("command"), "command")?;
    let limit = plan.runtime.timeout_s.map(Duration::from_secs_f64);
    let ended = child.wait(interrupt, limit)?;
    pass.duration_ns = Some(ended.duration);
    pass.exit_code = ended.status.code();
    let halt = match ended.stopped {
        Some(Stop::Interrupted) => Some(Halt::Interrupted),
        Some(Stop::TimedOut) => Some(format!(
            "`{program}` did not end within runtime.timeout_s={}",
            plan.runtime.timeout_s.unwrap_or_default()
        ))
        .map(Halt::failed),
        None if !ended.status.success() => {
            let mut message = format!("`{program}` failed: {}", ended.describe());
            let lines = child.last_lines(LAST_LINES);
            if !lines.is_empty() {
                message += &format!("; its last lines:\n{}", lines.join("\n"));
            }
            Some(Halt::failed(message))
        }
        None => None,
    };
    pass.status = match &halt {
        None => RunStatus::Complete,
        Some(Halt::Interrupted) => RunStatus::Interrupted,
        Some(Halt::Failed { .. }) => RunStatus::Failed,
    };
    store.set_pass(pass)?;
    let reported = format!(
        "`{program}` took {}; what it wrote is in command/",
        ended.duration
    );
    halt.map_or(Ok(reported), Err)
}
