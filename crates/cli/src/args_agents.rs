//! Arguments of `explain` and `mcp`, and formats that other commands print for agents and CI.

use std::path::PathBuf;

use clap::ValueEnum;

/// What is explained.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// A run directory, or a profile of any format that `import` reads [default: the newest run below ./runs].
    #[arg(value_name = "RUN|FILE")]
    pub(crate) run: Option<PathBuf>,
    /// What to explain: findings, kernels, finding=N, kernel=N, phase=NAME, step=N, request=N or window=FROM..TO (ns) [default: the run in short].
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// With findings and kernels: start at this number.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) from: usize,
    /// With kernels: only those with this text in their name or category.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
}

/// Where the server of an agent reads.
#[derive(Debug, clap::Args)]
pub(crate) struct McpArgs {
    /// Read runs and profiles below this folder only [default: the current directory].
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// How a command prints its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultFormat {
    /// For people.
    Text,
    /// As --json.
    Json,
    /// At most 8 KB of JSON with findings, abstentions and the next command; docs/agents.md.
    Agent,
}

impl ResultFormat {
    /// The format that `--format` and `--json` choose together.
    pub(crate) fn chosen(format: Option<Self>, json: bool) -> Self {
        format.unwrap_or(if json { Self::Json } else { Self::Text })
    }
}

/// How one job is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunFormat {
    /// For people.
    Text,
    /// At most 8 KB of JSON with findings, abstentions and the next command; docs/agents.md.
    Agent,
}

/// How a comparison is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// For people.
    Text,
    /// As --json.
    Json,
    /// As --github: annotations, and the summary of the job.
    Github,
    /// At most 8 KB of JSON with verdicts, reasons and the next command; docs/agents.md.
    Agent,
}
