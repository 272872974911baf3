//! The arguments of `compare`.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;
use llmprof_analysis::compare::Gate;
use llmprof_units::Share;

use crate::arg_duration::duration;
use crate::args_agents::CompareFormat;
use crate::args_view::ShowArgs;

/// What is compared, and what must hold.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// Run directories, traces, or folders of runs; the first is what the others are compared with.
    #[arg(value_name = "RUN", conflicts_with = "run")]
    pub(crate) sides: Vec<PathBuf>,
    /// Overrides of one side, as `llmprof run` takes them. Given twice, both sides run in turns (ABBA).
    #[arg(long, value_name = "OVERRIDES", allow_hyphen_values = true)]
    pub(crate) run: Vec<String>,
    /// With --run: rounds to begin with, each one run a side. More follow until the interval is within --resolution.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) rounds: u64,
    /// With --run: start no further round after this time.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10min")]
    pub(crate) time: Duration,
    /// Difference that does not matter: an interval within it on both sides is `same`.
    #[arg(long, value_name = "SHARE", default_value = "2%")]
    pub(crate) resolution: Share,
    /// Threshold: 'tpot<+3%', 'tokens_per_s>-5%', 'ttft:p99<200ms'. Exit code 1 if the whole interval lies beyond it, or if a gate cannot be evaluated (a late client, a metric that a side lacks).
    #[arg(long, value_name = "GATE")]
    pub(crate) gate: Vec<Gate>,
    /// Exit code where the interval contains the threshold.
    #[arg(long, value_enum, default_value = "pass")]
    pub(crate) inconclusive: Inconclusive,
    /// Compare with this baseline of the project (baselines/NAME.json).
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    pub(crate) baseline: Option<String>,
    /// Keep the last side as this baseline of the project.
    #[arg(long, value_name = "NAME")]
    pub(crate) save_baseline: Option<String>,
    /// Write the gates and metrics as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Print gates as GitHub annotations and add the summary to $GITHUB_STEP_SUMMARY [default: in GitHub Actions].
    #[arg(long)]
    pub(crate) github: bool,
    /// Directory for compare.md, compare.html, compare.json and plots [default with --run: runs/compare/TIME].
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// Print JSON.
    #[arg(long, conflicts_with = "view")]
    pub(crate) json: bool,
    /// Output format: --json is `json`, --github is `github`.
    #[arg(long, value_enum, conflicts_with_all = ["json", "github", "view"])]
    pub(crate) format: Option<CompareFormat>,
}

impl CompareArgs {
    /// The format that `--format`, `--json` and `--github` choose together.
    pub(crate) fn chosen_format(&self) -> CompareFormat {
        self.format.unwrap_or(match (self.json, self.github) {
            (true, _) => CompareFormat::Json,
            (false, true) => CompareFormat::Github,
            (false, false) => CompareFormat::Text,
        })
    }

    /// Whether standard output is for a program.
    pub(crate) fn is_data(&self) -> bool {
        let format = self.chosen_format();
        matches!(format, CompareFormat::Json | CompareFormat::Agent)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Inconclusive {
    /// Exit code 0, with a warning.
    Pass,
    /// Exit code 1.
    Fail,
}
