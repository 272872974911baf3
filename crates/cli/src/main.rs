//! The command line: the only place for exit codes, colour and progress.
//!
//! Data goes to stdout, everything else to stderr. Exit code 0 is done, 1 a threshold the user set was crossed,
//! 2 a failure, 130 an interrupted run. `record` passes its command's code on and has 125 for its own failures.

mod agent_summary;
mod agents;
mod app;
mod arg_duration;
mod arg_load;
mod args;
mod args_agents;
mod args_assets;
mod args_bench;
mod args_compare;
mod args_kernels;
mod args_model;
mod args_plan;
mod args_simulate;
mod args_view;
mod browser;
mod calibration;
mod changes;
mod clock;
mod command_groups;
mod commands;
mod comparing;
mod contracts;
mod dispatch;
mod efficiency;
mod engine_trace;
mod failure;
mod fit;
mod foreign_flags;
mod job_ranks;
mod jobs;
mod kernel_notes;
mod moved_keys;
mod named_schema;
mod output;
mod outputs;
mod page_link;
mod plan;
mod profiles;
mod progress;
mod recording;
mod run_files;
mod serving;
mod shipped_models;
mod stored;
mod subject;
mod terminal_width;
mod threads;
mod trtexec;
mod unknown_option;
mod viewing;
mod weights;

use std::{ffi::OsString, process::ExitCode};

use clap::{
    FromArgMatches as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use llmprof_capture::process::survive_file_size_limit;
use llmprof_record::mapped::was_cut;

use crate::{args::Args, failure::Failure, output::Output};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    survive_file_size_limit();
    // A column of a trace file that was cut while it is mapped reads as zeros, which no code has to expect.
    let ended = std::panic::catch_unwind(run);
    if was_cut() {
        return failed(&Failure::cut());
    }
    match ended {
        Ok(code) => code,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn run() -> ExitCode {
    let mut output = Output::stdout();
    let given: Vec<OsString> = std::env::args_os().collect();
    if let Some(done) = dispatch::internal(&given, &mut output) {
        return match done {
            Ok(code) => code,
            Err(failure) => failed(&failure),
        };
    }
    let words = args::with_long_names(given);
    let parsed = command_groups::command_line()
        .try_get_matches_from(&words)
        .and_then(|mut matches| Args::from_arg_matches_mut(&mut matches));
    let args = match parsed {
        Ok(args) => args,
        Err(mut error) => {
            let command = words.get(1).and_then(|word| word.to_str());
            let hint = foreign_flags::hint_for(&mut error, command);
            let _ = error.print();
            match hint {
                Some(hint) => output::note(&format!("\n  tip: {hint}")),
                None => tell_setting(&error, words.get(1)),
            }
            return usage_code(&error, words.get(1));
        }
    };
    threads::prepare();
    dispatch::dispatch(args.command, &mut output).unwrap_or_else(|failure| failed(&failure))
}

/// Says which setting was meant by a flag that does not exist.
fn tell_setting(error: &clap::Error, command: Option<&OsString>) {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return;
    };
    let command = command.and_then(|command| command.to_str());
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(setting) = command.and_then(|command| app::setting_of_flag(command, flag))
    {
        output::note(&format!("\n  tip: {setting}"));
    }
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
