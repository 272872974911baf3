//! One file per command.

mod bench;
mod completions;
mod config;
mod hardware;
mod model;
mod predict;
mod profile;
mod record;
mod run;
mod runs;
mod trtexec;
mod worker;

use std::process::ExitCode;

pub(crate) use bench::BenchArgs;
pub(crate) use record::OWN_FAILURE as RECORD_FAILED;

use crate::{args::Command, failure::Failure, output::Output};

/// Does what was asked; the exit code says how it went.
pub(crate) fn dispatch(command: Command, output: &mut Output) -> Result<ExitCode, Failure> {
    match command {
        Command::Config(args) => config::config(args, output)?,
        Command::Run(args) => return run::run(args, output),
        Command::Record(args) => return Ok(record::record(&args, output)),
        Command::Bench(args) => return bench::bench(&args, output),
        Command::Import(args) => profile::import(&args, output)?,
        Command::Analyze(args) => profile::analyze(&args, output)?,
        Command::Report(args) => profile::report(&args, output)?,
        Command::Export(args) => profile::export(&args, output)?,
        Command::Model(args) => model::model(&args, output)?,
        Command::Predict(args) => predict::predict(&args, output)?,
        Command::Hardware { command } => hardware::hardware(command, output)?,
        Command::Runs { command } => runs::runs(command, output)?,
        Command::Worker => worker::worker()?,
        Command::Completions { shell } => completions::completions(shell, output)?,
    }
    Ok(ExitCode::SUCCESS)
}
