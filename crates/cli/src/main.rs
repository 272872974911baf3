//! The command line: the only place for exit codes, colour and progress.
//!
//! Data goes to stdout, everything else to stderr. Exit code 0 is done, 1 a threshold the user set was crossed,
//! 2 a failure, 130 an interrupted run. `record` passes its command's code on and has 125 for its own failures.

mod app;
mod args;
mod args_assets;
mod calibration;
mod clock;
mod commands;
mod failure;
mod fit;
mod moved_keys;
mod output;
mod outputs;
mod plan;
mod progress;
mod subject;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

use crate::{args::Args, failure::Failure, output::Output};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    let mut output = Output::stdout();
    let given: Vec<OsString> = std::env::args_os().collect();
    if let Some(done) = commands::internal(&given, &mut output) {
        return match done {
            Ok(code) => code,
            Err(failure) => failed(&failure),
        };
    }
    let words = args::with_long_names(given);
    let args = match Args::try_parse_from(&words) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return usage_code(&error, words.get(1));
        }
    };
    commands::dispatch(args.command, &mut output).unwrap_or_else(|failure| failed(&failure))
}

fn failed(failure: &Failure) -> ExitCode {
    failure.report();
    ExitCode::from(failure::EXIT_CODE)
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
