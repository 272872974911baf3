//! One file per command.

mod bench;
mod bootstrap;
mod changes;
mod compare;
mod completions;
mod config;
mod dataset;
mod doctor;
mod externals;
mod hardware;
mod init;
pub(crate) mod kernels;
mod model;
mod predict;
pub(crate) mod profile;
mod query;
mod record;
mod run;
mod runs;
mod simulate;
mod trtexec;
mod view;
mod worker;

use std::{ffi::OsString, process::ExitCode};

pub(crate) use record::OWN_FAILURE as RECORD_FAILED;

use llmprof_capture::telemetry::nvml::RESTORE;

use crate::{args::Command, failure::Failure, output::Output};

/// What llmprof and its completion scripts ask of llmprof, not people: `worker`, a job of a cluster's sweep, the guard of a power
/// limit, and the completion of a line. None is an argument that a help text or a completion shows.
pub(crate) fn internal(
    words: &[OsString],
    output: &mut Output,
) -> Option<Result<ExitCode, Failure>> {
    let (command, rest) = words.get(1..)?.split_first()?;
    if command == "worker" && rest.is_empty() {
        return Some(worker::worker().map(|()| ExitCode::SUCCESS));
    }
    if command == run::SWEEP_JOB {
        return Some(run::sweep_job(rest));
    }
    let texts = || -> Vec<String> {
        rest.iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    };
    if command == RESTORE {
        return Some(run::guard_power_limit(&texts()).map(|()| ExitCode::SUCCESS));
    }
    (command == completions::COMMAND)
        .then(|| completions::complete(&texts(), output).map(|()| ExitCode::SUCCESS))
}

/// Does what was asked; the exit code says how it went.
pub(crate) fn dispatch(command: Command, output: &mut Output) -> Result<ExitCode, Failure> {
    match command {
        Command::Config(args) => config::config(args, output)?,
        Command::Run(args) => return run::run(args, output),
        Command::Record(args) => return Ok(record::record(&args, output)),
        Command::Bench(args) => return bench::bench(&args, output),
        Command::Compare(args) => return compare::compare(&args, output),
        Command::Import(args) => profile::import(&args, output)?,
        Command::Analyze(args) => profile::analyze(&args, output)?,
        Command::Report(args) => profile::report(&args, output)?,
        Command::Export(args) => profile::export(&args, output)?,
        Command::Query(args) => query::query(&args, output)?,
        Command::View(args) => view::view(&args, output)?,
        Command::Model(args) => model::model(&args, output)?,
        Command::Predict(args) => predict::predict(&args, output)?,
        Command::Simulate(args) => return simulate::simulate(&args, output),
        Command::Doctor(args) => doctor::doctor(&args, output)?,
        Command::Kernels { command } => kernels::kernels(command, output)?,
        Command::Hardware { command } => hardware::hardware(command, output)?,
        Command::Runs { command } => runs::runs(command, output)?,
        Command::Init(args) => return init::init(&args, output),
        Command::Bootstrap(args) => return bootstrap::bootstrap(&args, output),
        Command::Dataset { command } => return dataset::dataset(command, output),
        Command::Externals { command } => return externals::externals(command, output),
        Command::Completions { shell } => completions::completions(shell, output)?,
    }
    Ok(ExitCode::SUCCESS)
}
