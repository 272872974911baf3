//! Runs for agents: `llmprof explain`, `llmprof mcp`, and `--format agent` of other commands.

mod explain;
mod mcp;
mod protocol;
mod root;
mod schema;
mod tools;

use std::path::Path;

use llmprof_view::agent::{Asked, Caller, Question};

pub(crate) use self::explain::explain;
pub(crate) use self::mcp::mcp;
pub(crate) use self::schema::schema;
use crate::{failure::Failure, output::Output, viewing};

/// What teaches an agent to use this program.
pub(crate) const SKILL: &str = include_str!("../../skill/SKILL.md");

/// Prints the short answer about a run that was just written.
pub(crate) fn print_summary(run: &Path, output: &mut Output) -> Result<(), Failure> {
    let opened = viewing::open(run)?;
    let asked = Asked {
        caller: Caller::Shell,
        run: run.display().to_string(),
    };
    match opened.ask(&asked, &Question::Summary) {
        Ok(text) | Err(text) => output.line(&text),
    }
}
