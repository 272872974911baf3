//! Arguments of `view` and `query`.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;

use crate::arg_duration::duration;

/// Which runs are shown, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct ViewArgs {
    /// Run directories and profiles of any format that `import` reads [default: the newest run below ./runs]. RUN#finding=1, RUN#kernel=1,
    /// RUN#phase=decode, RUN#step=0 and RUN#window=FROM..TO (ns) open at that place.
    #[arg(value_name = "RUN|FILE")]
    pub(crate) runs: Vec<PathBuf>,
    /// Write the pages to this directory for any web server, and stop: timeline, run pages, facts of events. Sums of a selection, search and
    /// SQL need `llmprof view`.
    #[arg(short, long, value_name = "DIR", conflicts_with_all = ["port", "no_open"])]
    pub(crate) output: Option<PathBuf>,
    /// Port on 127.0.0.1 [default: any free one].
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) port: u16,
    /// Print the address and open no browser.
    #[arg(long)]
    pub(crate) no_open: bool,
}

/// Whether a command goes on as `llmprof view`. Flattened by every command that leaves a run.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct ShowArgs {
    /// Then show the run in the browser, as `llmprof view` does, until Ctrl-C.
    #[arg(long)]
    pub(crate) view: bool,
}

/// What is asked of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct QueryArgs {
    /// A run directory, or a profile of any format that `import` reads [default: the newest run below ./runs].
    #[arg(value_name = "RUN|FILE")]
    pub(crate) run: Option<PathBuf>,
    /// One SELECT. Without it, the tables and their columns are printed.
    #[arg(value_name = "SQL")]
    pub(crate) sql: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: QueryFormat,
    /// Print JSON: --format json.
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Print at most this many rows.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) limit: usize,
    /// Stop after this time.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) timeout: Duration,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum QueryFormat {
    /// A table.
    Table,
    /// CSV with a head.
    Csv,
    /// An array of objects.
    Json,
}
