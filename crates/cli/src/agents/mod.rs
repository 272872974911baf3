//! Runs for agents: `llmprof explain`, `llmprof mcp`, and `--format agent` of other commands.

mod explain;
mod mcp;
mod protocol;
mod root;
mod schema;
mod tools;

pub(crate) use self::explain::explain;
pub(crate) use self::mcp::mcp;
pub(crate) use self::schema::schema;

/// What teaches an agent to use this program.
pub(crate) const SKILL: &str = include_str!("../../skill/SKILL.md");
