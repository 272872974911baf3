//! `run --dry-run`: the commands that a run would start.

use std::path::Path;

use llmprof_capture::{profiler::nsight::ToolError, session::list_commands};
use llmprof_config::hydra::HydraJob;
use llmprof_record::plan::RuntimeType;
use llmprof_report::{
    compose::kernel_report::sentences::notes_to_keep, text::run_weights::weights_line,
};

use super::command;
use crate::{
    failure::Failure,
    kernel_notes,
    output::{Output, note},
    plan::{PlanPurpose, plan},
    serving::server_command,
    weights,
};

/// Prints them, one a line, as the run writes them to `cmd.txt`; which launches ncu would profile is known only from the timeline.
pub(super) fn print(job: &HydraJob, cwd: &Path, output: &mut Output) -> Result<(), Failure> {
    let plan = plan(&job.composed, PlanPurpose::Run)?;
    let run = cwd.join(&job.dir);
    let (lines, missing) = match plan.runtime.kind {
        RuntimeType::None => (Vec::new(), Vec::new()),
        RuntimeType::Command => {
            let launch = command::launch(&plan, job, cwd, &run);
            (launch.iter().map(ToString::to_string).collect(), Vec::new())
        }
        kind if kind.is_serving() => {
            let launch = server_command(&plan);
            (launch.iter().map(ToString::to_string).collect(), Vec::new())
        }
        _ => list_commands(&plan, cwd, &run),
    };
    if lines.is_empty() {
        note(match plan.runtime.kind {
            RuntimeType::None => "nothing would be started: theoretical cost only",
            _ => "nothing would be started: the load goes to a server that is up",
        });
    }
    if let Some(weights) = weights::describe(&plan, cwd) {
        note(&weights_line(&weights));
    }
    for line in lines {
        output.line(&line)?;
    }
    warn_of_missing_tools(&missing);
    let ncu = &plan.pipeline.ncu;
    if let Some(path) = ncu.kernel_info.as_ref().filter(|_| ncu.is_enabled()) {
        let (notes, _) = kernel_notes::read(path)?;
        note(&notes_to_keep(&path.display().to_string(), notes.len()));
    }
    if ncu.is_enabled() {
        note("how many launches ncu skips and profiles is chosen from the timeline");
    }
    Ok(())
}

/// Says what a run does without the tools of its stages.
pub(super) fn warn_of_missing_tools(missing: &[ToolError]) {
    for error in missing {
        let instead = match error {
            ToolError::NotFound { name: "nsys" } | ToolError::NoImporter { .. } => {
                ", with a timeline of llmprof's own library"
            }
            _ => "",
        };
        Failure::new(format!("{error}: the run goes on without it{instead}"))
            .hint(error.hint())
            .warn();
    }
}
