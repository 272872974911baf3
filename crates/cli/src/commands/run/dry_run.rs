//! `run --dry-run`: the commands that a run would start.

use std::path::Path;

use llmprof_capture::session::commands;
use llmprof_config::hydra::Job;

use crate::{
    failure::Failure,
    output::Output,
    plan::{Purpose, plan},
};

/// Prints them, one a line; which launches ncu would profile is known only from the timeline.
pub(super) fn print(job: &Job, cwd: &Path, output: &mut Output) -> Result<(), Failure> {
    let plan = plan(&job.composed, Purpose::Run)?;
    let run = cwd.join(&job.dir);
    let lines = commands(&plan, cwd, &run)
        .map_err(|error| Failure::new(error.to_string()).hint(error.hint()))?;
    for line in lines {
        output.line(&line)?;
    }
    Ok(())
}
