//! Completion in shells: scripts that ask llmprof itself, so that overrides, options of groups and devices complete too.

mod candidates;
mod overrides;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{args::Args, failure::Failure, output::Output};

/// The command that the scripts call with the words of the line, the one being typed last. People have no use for it.
pub(crate) const COMMAND: &str = "__complete";

pub(crate) fn completions(shell: Shell, output: &mut Output) -> Result<(), Failure> {
    let script = match shell {
        Shell::Bash => include_str!("completions/llmprof.bash"),
        Shell::Zsh => include_str!("completions/llmprof.zsh"),
        Shell::Fish => include_str!("completions/llmprof.fish"),
        // Commands and flags alone.
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut Args::command(), "llmprof", &mut script);
            return output.text(&String::from_utf8_lossy(&script));
        }
    };
    output.text(script)
}

/// Prints what the last of the words may become, a line each; nothing where files are wanted.
pub(crate) fn complete(words: &[String], output: &mut Output) -> Result<(), Failure> {
    for candidate in candidates::candidates(words) {
        output.line(&candidate)?;
    }
    Ok(())
}
