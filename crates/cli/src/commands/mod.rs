//! One file per command.

mod completions;
mod runs;

use std::process::ExitCode;

use crate::{args::Command, failure::Failure, output::Output};

/// Does what was asked; the exit code says how it went.
pub(crate) fn dispatch(command: Command, output: &mut Output) -> Result<ExitCode, Failure> {
    match command {
        Command::Runs { command } => runs::runs(command, output)?,
        Command::Completions { shell } => completions::completions(shell, output)?,
    }
    Ok(ExitCode::SUCCESS)
}
