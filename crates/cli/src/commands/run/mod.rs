//! The main job: compose, plan, execute, analyze, report.

mod command;
mod comparison;
mod job;
mod prompts;
mod sources;
mod sweep;

use std::process::ExitCode;

use llmprof_config::hydra::{Execution, Outcome};

use crate::{app, args::RunArgs, failure::Failure, moved_keys, output::Output, progress::Show};

pub(crate) fn run(args: RunArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let host = app::host()?;
    let application = app::llmprof(&host.cwd);
    let outcome = moved_keys::perform(args.hydra.into_command(), &application, &host)
        .map_err(app::own_failure)?;
    match outcome {
        Outcome::Text(text) => output.text(&text).map(|()| ExitCode::SUCCESS),
        Outcome::Execution(Execution::Run(job)) => {
            let ended = job::run(&job, &host.cwd, Show::detect())?;
            ended.print(output)?;
            Ok(ended.exit_code())
        }
        Outcome::Execution(Execution::Multirun(multirun)) => {
            sweep::sweep(&multirun, args.jobs, &host.cwd, output)
        }
    }
}
