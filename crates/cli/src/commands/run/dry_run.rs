//! `run --dry-run`: the commands that a run would start.

use std::path::Path;

use llmprof_capture::session::commands;
use llmprof_config::hydra::Job;
use llmprof_report::text::kernel_report::notes_to_keep;

use crate::{
    failure::Failure,
    kernel_notes,
    output::{Output, note},
    plan::{Purpose, plan},
};

/// Prints them, one a line, as the run writes them to `cmd.txt`; which launches ncu would profile is known only from the timeline.
pub(super) fn print(job: &Job, cwd: &Path, output: &mut Output) -> Result<(), Failure> {
    let plan = plan(&job.composed, Purpose::Run)?;
    let run = cwd.join(&job.dir);
    let (lines, missing) = commands(&plan, cwd, &run);
    for line in lines {
        output.line(&line)?;
    }
    for error in missing {
        Failure::new(format!("{error}: the run would go on without it"))
            .hint(error.hint())
            .warn();
    }
    let ncu = &plan.pipeline.ncu;
    if let Some(path) = ncu.kernel_info.as_ref().filter(|_| ncu.enable) {
        let (notes, _) = kernel_notes::read(path)?;
        note(&notes_to_keep(&path.display().to_string(), notes.len()));
    }
    if ncu.enable {
        note("how many launches ncu skips and profiles is chosen from the timeline of nsys");
    }
    Ok(())
}
