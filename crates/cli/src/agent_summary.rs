//! The short answer about a run for agents.

use std::path::Path;

use llmprof_view::agent::{AgentQuestion, Asked, Caller};

use crate::{failure::Failure, output::Output, viewing};

/// Prints the short answer about a run that was just written.
pub(crate) fn print_summary(run: &Path, output: &mut Output) -> Result<(), Failure> {
    let opened = viewing::open(run)?;
    let asked = Asked {
        caller: Caller::Shell,
        run: run.display().to_string(),
    };
    match opened.ask(&asked, &AgentQuestion::Summary) {
        Ok(text) | Err(text) => output.line(&text),
    }
}
