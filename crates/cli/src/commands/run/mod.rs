//! The main job: compose, plan, execute, analyze, report.

mod command;
mod comparison;
mod cupti;
mod device_facts;
mod feed;
mod halt;
mod job;
mod native;
mod passes;
mod processors;
mod pytorch;
mod sources;
mod sweep;
mod torch_profiler;
mod watch;

use std::process::ExitCode;

use llmprof_config::hydra::{Execution, Outcome};

use crate::{app, args::RunArgs, failure::Failure, moved_keys, output::Output, progress::Show};

pub(crate) fn run(args: RunArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let host = app::host()?;
    let application = app::llmprof(&host.cwd);
    match moved_keys::perform(args.hydra.into_command(), &application, &host)? {
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
