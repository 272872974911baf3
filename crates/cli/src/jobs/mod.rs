//! The main job: compose, plan, execute, analyze, report.

mod attempts;
mod command;
mod direct;
mod dry_run;
mod job;
mod launcher;
mod power;
mod prompts;
mod sources;
mod sweep;
mod visuals;

use std::process::ExitCode;

pub(crate) use self::launcher::{JobsFile, SWEEP_JOB, sweep_job};
pub(crate) use self::power::guard as guard_power_limit;
pub(crate) use self::sources::CodeRevision;

use llmprof_config::hydra::{self, CommandOutcome, Execution, HydraJob};
use llmprof_record::store::RunStatus;

use crate::{
    app,
    args::RunArgs,
    args_agents::RunFormat,
    failure::Failure,
    moved_keys,
    output::Output,
    plan::{PlanPurpose, plan},
    progress::Show,
    viewing,
};

pub(crate) fn run(args: RunArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    if let Some(dir) = &args.attach {
        return sweep::attach(dir, output);
    }
    let host = app::host()?;
    let application = app::llmprof(&host.cwd);
    let command = args.hydra.into_command();
    let outcome =
        moved_keys::perform(command.clone(), &application, &host).map_err(app::own_failure)?;
    match outcome {
        CommandOutcome::Text(text) => output.text(&text).map(|()| ExitCode::SUCCESS),
        CommandOutcome::Execution(Execution::Run(job)) if args.dry_run => {
            dry_run::print(&job, &host.cwd, output)?;
            Ok(ExitCode::SUCCESS)
        }
        CommandOutcome::Execution(Execution::Multirun(_)) if args.dry_run => {
            Err(Failure::new("--dry-run shows one job").hint("leave -m out".to_owned()))
        }
        CommandOutcome::Execution(Execution::Multirun(_)) if args.show.view => {
            Err(Failure::new("--view shows one run").hint("leave -m out".to_owned()))
        }
        CommandOutcome::Execution(Execution::Run(job)) => {
            let ended = job::run(&job, &host.cwd, Show::detect())?;
            if args.format == Some(RunFormat::Agent) {
                ended.print_for_agents(output)?;
            } else {
                ended.print(output)?;
            }
            if args.show.view && ended.status != RunStatus::Interrupted && ended.analysis.is_some()
            {
                viewing::show_runs(std::slice::from_ref(&ended.dir), output)?;
            }
            Ok(ended.exit_code())
        }
        CommandOutcome::Execution(Execution::Multirun(multirun)) => {
            let how = sweep::SweepMode {
                jobs_at_once: args.jobs,
                resume: args.resume,
                command: &command,
                host: &host,
            };
            sweep::sweep(&multirun, &how, output)
        }
    }
}

/// How a run that another command asked for ended.
pub(crate) struct FinishedJobs {
    pub(crate) status: RunStatus,
    pub(crate) error: Option<String>,
}

/// Finds mistakes in the request of a run.
pub(crate) fn check(overrides: &[String]) -> Result<(), Failure> {
    plan(&composed(overrides)?.0.composed, PlanPurpose::Run).map(|_| ())
}

/// One run with these overrides.
pub(crate) fn run_once(overrides: &[String], show: Show) -> Result<FinishedJobs, Failure> {
    let (job, cwd) = composed(overrides)?;
    let ended = job::run(&job, &cwd, show)?;
    Ok(FinishedJobs {
        status: ended.status,
        error: ended.error,
    })
}

fn composed(overrides: &[String]) -> Result<(HydraJob, std::path::PathBuf), Failure> {
    let host = app::host()?;
    let application = app::llmprof(&host.cwd);
    let command = hydra::HydraCommand {
        overrides: overrides.to_vec(),
        ..hydra::HydraCommand::default()
    };
    match moved_keys::perform(command, &application, &host).map_err(app::own_failure)? {
        CommandOutcome::Execution(Execution::Run(job)) => Ok((*job, host.cwd)),
        _ => Err(
            Failure::new("a side of a comparison is one run, not a sweep")
                .hint("give one value per key, and no hydra.mode".to_owned()),
        ),
    }
}
