//! The arguments, as clap reads them.

use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, Subcommand};
use clap_complete::Shell;

/// Profiles LLM inference: what a model did on a device, what it should have cost, and where the difference went.
#[derive(Debug, Parser)]
#[command(
    name = "llmprof",
    version,
    max_term_width = 110,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show earlier runs.
    #[command(after_help = "\
Examples:
  llmprof runs list                     every run below ./runs, oldest first
  llmprof runs list --json | jq .[].path
  llmprof runs show                     the newest run
  cd $(llmprof runs path)")]
    Runs {
        #[command(subcommand)]
        command: RunsCommand,
    },
    /// Print a script that completes llmprof's arguments in a shell.
    #[command(after_help = "\
Examples:
  llmprof completions bash > ~/.local/share/bash-completion/completions/llmprof
  llmprof completions zsh > ~/.zfunc/_llmprof
  llmprof completions fish > ~/.config/fish/completions/llmprof.fish")]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// What to show of earlier runs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List the runs below a directory, oldest first.
    List {
        /// Where to look.
        #[arg(long, default_value = "runs", value_name = "DIR")]
        root: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one run: its state, passes, issues and files.
    Show {
        #[command(flatten)]
        run: RunChoice,
        /// Print `run.json` and whether its process is alive.
        #[arg(long)]
        json: bool,
    },
    /// Print the path of one run.
    Path {
        #[command(flatten)]
        run: RunChoice,
    },
}

/// One run: the one named, or the newest.
#[derive(Debug, clap::Args)]
pub(crate) struct RunChoice {
    /// The run directory; the newest run below --root by default.
    pub(crate) run: Option<PathBuf>,
    /// Where to look for the newest.
    #[arg(long, default_value = "runs", value_name = "DIR")]
    pub(crate) root: PathBuf,
}

/// Hydra's two-letter flags, which clap has no notion of, in their long form.
const LONG_NAMES: &[(&str, &str)] = &[
    ("-cp", "--config-path"),
    ("-cn", "--config-name"),
    ("-cd", "--config-dir"),
];

/// The arguments with Hydra's two-letter flags spelled out, up to a `--`.
pub(crate) fn with_long_names(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut literal = false;
    args.into_iter()
        .map(|arg| {
            literal |= arg == "--";
            let Some(text) = arg.to_str().filter(|_| !literal) else {
                return arg;
            };
            let (flag, value) = text.split_once('=').unwrap_or((text, ""));
            match LONG_NAMES.iter().find(|(short, _)| *short == flag) {
                Some((_, long)) if text.contains('=') => format!("{long}={value}").into(),
                Some((_, long)) => (*long).into(),
                None => arg,
            }
        })
        .collect()
}
