//! The command line: the only place for exit codes, colour and progress.
//!
//! Data goes to stdout, everything else to stderr. Exit code 0 is done, 1 a threshold the user set was crossed,
//! 2 a failure, 130 an interrupted run. `record` passes its command's code on and has 125 for its own failures.

mod app;
mod args;
mod args_assets;
mod clock;
mod commands;
mod failure;
mod measured;
mod moved_keys;
mod output;
mod outputs;
mod plan;
mod progress;
mod slices;
mod subject;
mod telemetry;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

use crate::{args::Args, output::Output};

/// Version of llmprof.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    let words = args::with_long_names(std::env::args_os());
    let args = match Args::try_parse_from(&words) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return usage_code(&error, words.get(1));
        }
    };
    let mut output = Output::stdout();
    match commands::dispatch(args.command, &mut output) {
        Ok(code) => code,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure::EXIT_CODE)
        }
    }
}

/// The exit code of a command line that is no request: help that was asked for is none of that, and `record` keeps other
/// codes for its command.
fn usage_code(error: &clap::Error, command: Option<&OsString>) -> ExitCode {
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let records = command.is_some_and(|command| command == "record");
    ExitCode::from(if records {
        commands::RECORD_FAILED
    } else {
        failure::EXIT_CODE
    })
}
