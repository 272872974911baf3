//! The command line: the only place for exit codes, colour and progress.
//!
//! Data goes to stdout, everything else to stderr. Exit code 0 is done, 1 a threshold the user set was crossed,
//! 2 a failure.

mod app;
mod args;
mod clock;
mod commands;
mod failure;
mod measured;
mod output;
mod outputs;
mod plan;
mod progress;
mod slices;
mod subject;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

use crate::{args::Args, output::Output};

/// Version of llmprof.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    let args = Args::parse_from(args::with_long_names(std::env::args_os()));
    let mut output = Output::stdout();
    match commands::dispatch(args.command, &mut output) {
        Ok(code) => code,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure::EXIT_CODE)
        }
    }
}
