//! Arguments of `llmprof kernels` and `llmprof doctor`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use llmprof_units::Share;

#[derive(Debug, Subcommand)]
pub(crate) enum KernelsCommand {
    /// List the kernels with the most GPU time, by phase; with -o as YAML for `kernels profile`.
    #[command(after_help = "\
Examples:
  llmprof kernels top runs/mine --phase decode
  llmprof kernels top runs/mine --coverage 95% -o top-kernels.yaml
  llmprof kernels top summary_cuda_gpu_kern_sum.csv --topk 30")]
    Top(TopArgs),
    /// Profile kernels with Nsight Compute in one run of a program.
    ///
    /// Each distinct (kernel, grid, block) is profiled once or a few times. With --timeline, launches are chosen from it, so
    /// that the fewest cover the asked share of GPU time; the program must launch the same kernels in the same order again.
    #[command(after_help = "\
Examples:
  llmprof kernels profile top-kernels.yaml -o ncu/ -- python bench.py
  llmprof kernels profile top.yaml --timeline report.sqlite --tier full -o ncu/ -- python bench.py
  llmprof kernels profile top-kernels.yaml --dry-run -- python bench.py")]
    Profile(KernelProfileArgs),
    /// Read counters: class, roofline, occupancy, stalls and advice for each kernel.
    ///
    /// Nsight Compute reports (.ncu-rep), pages (--csv), directories of them, or a run.
    #[command(after_help = "\
Examples:
  llmprof kernels analyze ncu/ -o analysis/
  llmprof kernels analyze decode.ncu-rep --device h200
  llmprof kernels analyze ncu/ --kernel-desc kernel-info.yaml --json | jq '.launches[].class'")]
    Analyze(AnalyzeKernelsArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// A run, an `nsys stats` kernel summary (.csv), or any timeline that `llmprof import` reads.
    #[arg(value_name = "RUN|FILE")]
    pub(crate) source: PathBuf,
    /// Write the list for `kernels profile` to this YAML file (`-` is standard output), instead of a table.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Only kernels that this phase launched: prefill, decode.
    #[arg(long, value_name = "PHASE")]
    pub(crate) phase: Option<String>,
    /// At most this many kernels.
    #[arg(long, value_name = "N")]
    pub(crate) topk: Option<usize>,
    /// As many kernels as hold this share of GPU time: 95%.
    #[arg(long, value_name = "SHARE")]
    pub(crate) coverage: Option<Share>,
}

/// How much is collected of each launch.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TierArg {
    /// Throughputs, occupancy, launch configuration.
    Basic,
    /// With FLOPs, bytes of every memory level, stalls.
    Roofline,
    /// Everything Nsight Compute has.
    Full,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KernelProfileArgs {
    /// What `llmprof kernels top` wrote.
    #[arg(value_name = "YAML")]
    pub(crate) kernels: PathBuf,
    /// Where reports and pages go.
    #[arg(short, long, value_name = "DIR", default_value = "ncu")]
    pub(crate) output: PathBuf,
    /// At most this many kernels of the YAML.
    #[arg(long, value_name = "N")]
    pub(crate) topk: Option<usize>,
    /// A timeline of the same program (a run, .sqlite, .nsys-rep), to choose launches by.
    #[arg(long, value_name = "RUN|FILE")]
    pub(crate) timeline: Option<PathBuf>,
    /// Share of GPU time that profiled launches are to cover; needs --timeline.
    #[arg(long, value_name = "SHARE", default_value = "95%")]
    pub(crate) coverage: Share,
    /// Which metrics to collect; more take more passes.
    #[arg(long, value_enum, default_value_t = TierArg::Roofline)]
    pub(crate) tier: TierArg,
    /// Without --timeline: launches of each (kernel, grid, block) to skip.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) skip: u64,
    /// Without --timeline: launches of each (kernel, grid, block) to profile.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) count: u64,
    /// The program `ncu`.
    #[arg(long, value_name = "PATH")]
    pub(crate) ncu: Option<PathBuf>,
    /// One more option for ncu; may be repeated.
    #[arg(long = "ncu-arg", value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) ncu_args: Vec<String>,
    /// Print the command and stop.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The program and its arguments.
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AnalyzeKernelsArgs {
    /// Reports, pages, directories of them, or a run.
    #[arg(required = true, value_name = "DIR|FILE")]
    pub(crate) sources: Vec<PathBuf>,
    /// Where the files go [default: analysis/ in the run, or in the working directory].
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Device whose datasheet peaks FLOP rates are compared with.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Compute and memory closer than this many points are balanced.
    #[arg(long, value_name = "POINTS", default_value_t = 5.0)]
    pub(crate) classify_margin: f64,
    /// A unit below this percentage of peak limits nothing.
    #[arg(long, value_name = "PERCENT", default_value_t = 35.0)]
    pub(crate) classify_low: f64,
    /// SM throughput from which a kernel is compute-bound.
    #[arg(long, value_name = "PERCENT", default_value_t = 60.0)]
    pub(crate) classify_high: f64,
    /// Your notes on kernels (raw_name, friendly_name, source_lib, data_shape, description), joined by canonical name; of a run,
    /// those that it kept.
    #[arg(long, value_name = "YAML")]
    pub(crate) kernel_desc: Option<PathBuf>,
    /// Print the analysis as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The Python interpreter to check.
    #[arg(long, value_name = "PATH", default_value = "python3")]
    pub(crate) python: String,
    /// Print the checks as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
