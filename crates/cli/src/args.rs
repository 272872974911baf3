//! The arguments, as clap reads them.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use llmprof_config::hydra;
use llmprof_units::{Bytes, Share};

use crate::arg_duration::duration;
use crate::args_assets::{BootstrapArgs, DatasetCommand, ExternalsCommand, InitArgs};
use crate::args_kernels::{DoctorArgs, KernelsCommand};
use crate::args_view::ShowArgs;

/// Wider lines are hard to read.
pub(crate) const HELP_WIDTH_MAX: usize = 110;

/// Profiles LLM inference: what a model did on a device, what it should have cost, and where the difference went.
#[derive(Debug, Parser)]
#[command(
    name = "llmprof",
    version,
    max_term_width = HELP_WIDTH_MAX,
    arg_required_else_help = true,
    after_help = "\
Examples:
  llmprof run                                   profile a model on this CPU and report
  llmprof run runtime=pytorch device=cuda:0 model=local model.path=DIR
  llmprof record -- python serve.py             profile any CUDA program
  llmprof import trace.json.gz                  analyze an existing profile
  llmprof model model=qwen2_5_7b hardware.spec=h200

`llmprof COMMAND --help` has more. Exit codes: 0 done, 1 a check, gate or SLO failed, 2 failure,
3 done but samples of the dataset were skipped, 130 interrupted; `record` passes on the exit code
of its command and uses 125 for its own failures."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Profile a model: compose the config, run, analyze, report.
    #[command(after_help = "\
Examples:
  llmprof run                                        the default job
  llmprof run model=gpt2 workload.prompt_tokens=512  another model and prompt
  llmprof run runtime=pytorch device=cuda:0 model=local model.path=DIR
  llmprof run --cfg job                              print the composed config and stop
  llmprof run runtime=command 'runtime.argv=[python3,serve.py]'
  llmprof run -m runtime.batch_size=1,4,16           one job per value
  llmprof run -m runtime.batch_size=1,4 hydra/launcher=submitit_slurm hydra.launcher.partition=gpu")]
    Run(RunArgs),
    /// Profile any CUDA program: kernels, copies, launches, GPU idle time.
    ///
    /// The command runs unmodified. A CUPTI library that the CUDA driver loads into it and its children records kernels,
    /// copies, synchronizations, launches and NVTX ranges. The exit code is the command's; 125 is a failure of llmprof.
    #[command(after_help = "\
Examples:
  llmprof record -- python serve.py --port 8000
  llmprof record --after 60s --for 10s -- python serve.py     ten seconds, after warmup
  llmprof record --nvtx-range decode -- python bench.py       only inside NVTX ranges of that name
  llmprof record --overhead 2% -- python serve.py             sampled in slices, overhead up to 2 %")]
    Record(RecordArgs),
    /// Import profiles of other tools and report where the time went.
    ///
    /// Kineto and Chrome JSON traces (plain, .gz, .zst), Nsight Systems exports (.sqlite, .nsys-rep where nsys is
    /// installed) and `nsys stats` tables, Nsight Compute reports and pages (--csv), rocprofv3 output, memory snapshots of torch
    /// (.pickle), logs of cuBLAS and NCCL, telemetry of nvidia-smi and NVML, recordings of `llmprof record` (RUN/cupti). The format
    /// is recognized by content. Traces of several ranks are one run; the trace of a graph capture, given beside a timeline,
    /// attributes the kernels of its graphs.
    #[command(after_help = "\
Examples:
  llmprof import trace.json.gz --open
  llmprof import trace.json.gz --model Qwen/Qwen2.5-0.5B     with roofline times
  llmprof import report.sqlite decode_raw.csv -o runs/mine     a timeline and its kernel counters
  llmprof import trace.json --json | jq .timeline.totals")]
    Import(ImportArgs),
    /// Analyze a run again and rewrite its reports.
    #[command(after_help = "\
Examples:
  llmprof analyze runs/mine
  llmprof analyze runs/mine --device h100_sxm     roofline of another device")]
    Analyze(AnalyzeArgs),
    /// Render the reports of a run again from its analysis.
    #[command(after_help = "\
Examples:
  llmprof report runs/mine
  llmprof report $(llmprof runs path) --open      the newest run, in the browser")]
    Report(ReportArgs),
    /// Show runs and profiles in the browser: timeline, findings, tables.
    ///
    /// Served on 127.0.0.1 under an address with a random token; nothing leaves the machine. For a remote machine, forward the port:
    /// ssh -L 8470:127.0.0.1:8470 HOST, then llmprof view --port 8470 --no-open there. Ctrl-C ends it.
    #[command(after_help = "\
Examples:
  llmprof view runs/mine
  llmprof view trace.json.gz
  llmprof view runs/a runs/b                      side by side
  llmprof view runs/mine --port 8470 --no-open    for ssh -L
  llmprof view runs/mine -o page/                 as files for any web server")]
    View(crate::args_view::ViewArgs),
    /// Ask a run with SQL: kernels, launches, host operators, steps, idle gaps, copies, samples, findings.
    ///
    /// Read-only; docs/view.md describes the tables. Times are integer nanoseconds since the first event.
    #[command(after_help = "\
Examples:
  llmprof query runs/mine                          the tables
  llmprof query runs/mine 'SELECT category, count(*) n, sum(duration_ns) ns FROM kernel GROUP BY 1 ORDER BY 3 DESC'
  llmprof query trace.json.gz 'SELECT sum(host_busy_ns), sum(launch_latency_ns) FROM idle_gap' --format csv")]
    Query(crate::args_view::QueryArgs),
    /// Explain a run for an agent or a script: cause, place and gain of its findings in at most 8 KB of JSON, with the next command to ask.
    ///
    /// The same answers as the tools of `llmprof mcp`. Text between ⟦ and ⟧ was recorded from the profiled program; docs/agents.md.
    #[command(after_help = "\
Examples:
  llmprof explain runs/mine                        the run in short
  llmprof explain runs/mine finding=1              evidence and place of a finding
  llmprof explain runs/mine kernels --filter gemm
  llmprof explain runs/mine step=3                 what ran in one step")]
    Explain(crate::args_agents::ExplainArgs),
    /// Serve runs to a coding agent over the Model Context Protocol on stdin and stdout.
    ///
    /// Read-only, and only below the folder that it is started in: tools for runs, findings, kernels, time windows, comparisons and
    /// predictions; docs/agents.md.
    #[command(after_help = "\
Examples:
  claude mcp add llmprof -- llmprof mcp
  llmprof mcp --root runs/")]
    Mcp(crate::args_agents::McpArgs),
    /// Print a skill file that teaches a coding agent to use llmprof.
    #[command(after_help = "\
Examples:
  llmprof skill > .claude/skills/llmprof/SKILL.md")]
    Skill,
    /// Print the JSON Schema of a file or of what a command prints, or list all.
    #[command(after_help = "\
Examples:
  llmprof schema
  llmprof schema analysis
  llmprof schema llmprof.agent.summary/1")]
    Schema {
        /// A name from the list; a part of it that only one has is enough.
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Export a run's timeline or its numbers for another tool.
    #[command(after_help = "\
Examples:
  llmprof export runs/mine --to pftrace            opens in Perfetto
  llmprof export runs/mine --to chrome             opens in Perfetto and chrome://tracing
  llmprof export runs/mine --to sqlite -o t.sqlite && sqlite3 t.sqlite .tables
  llmprof export runs/mine --to flat-json -o -     one row for MLflow or W&B")]
    Export(ExportArgs),
    /// Show the theoretical cost of a model: parameters, FLOPs, bytes, memory, roofline time on a device.
    #[command(after_help = "\
Examples:
  llmprof model model=qwen2_5_7b hardware.spec=h200
  llmprof model --config path/to/config.json workload.prompt_tokens=2048 --json
  llmprof model model=qwen2_5_7b model.num_key_value_heads=28   change one design parameter
  llmprof model model=Qwen/Qwen3-8B               by its id on the Hugging Face hub
  llmprof model list                              the shipped models
  llmprof model --layers | less")]
    Model(ModelArgs),
    /// Predict latency over models, designs, devices and workloads, given as sweeps.
    #[command(after_help = "\
Examples:
  llmprof predict hardware.spec=h100_sxm,h200 runtime.batch_size=1,8,32
  llmprof predict model=qwen2_5_7b 'model.num_key_value_heads=4,28' hardware.spec=h200
  llmprof predict model=llama3_1_70b hardware.spec=h200 workload.weights=bf16,fp8 --efficiency vllm
  llmprof predict model=llama3_1_70b hardware.spec=h200 parallel.tensor=1,2,4,8
  llmprof predict model=qwen2_5_7b hardware.spec=h200 runtime=pytorch --advise
  llmprof predict --from runs/a/b/c workload.batch_size=1,8,32
  llmprof predict hardware.spec=l4 'workload.prompt_tokens=range(128,8192,128)' --format csv > t.csv")]
    Predict(PredictArgs),
    /// Simulate a serving engine under a load: TTFT, TPOT, goodput, best settings, number of GPUs.
    ///
    /// Continuous batching as vLLM schedules it, step by step, with step times from the predictor or fitted to a profiled server.
    /// Exit code 1: an SLO (--slo) is not met.
    #[command(after_help = "\
Examples:
  llmprof simulate model=llama3_1_8b hardware.spec=h200 --rate 8 --slo 'ttft:p99<500ms'
  llmprof simulate hardware.spec=h200 --rate 30 --slo 'tpot:p90<40ms' --search-replicas
  llmprof simulate model=qwen2_5_7b hardware.spec=l40s --trace mooncake.jsonl --search-settings
  llmprof simulate --calibrate rank0.pt.trace.json.gz --kv-blocks 4096 --rate 2 --json | jq .summary")]
    Simulate(Box<crate::args_simulate::SimulateArgs>),
    /// Plan a deployment: which GPUs, how many, and which layout serve a load within its objectives.
    ///
    /// Devices × tensor, pipeline and expert layouts × weight and KV cache formats × batch limits × replicas: bounds rule out what cannot
    /// work, the cheapest of the rest are simulated until their 99th percentiles settle. Exit code 1: nothing meets the objectives.
    #[command(after_help = "\
Examples:
  llmprof plan llama3_1_70b --rate 2 --prompt-tokens 1024 --output-tokens 256 --slo 'ttft:p99<500ms' --slo 'tpot:p99<50ms'
  llmprof plan llama3_1_8b --rate 20 --slo 'tpot:p90<30ms' --devices l4,l40s,h100_sxm --prices prices.yaml -o plan.html
  llmprof plan qwen3_30b_a3b --trace mooncake.jsonl --slo 'ttft:p90<2s' --max-gpus 16 --keep-formats --json | jq '.candidates[0]'")]
    Plan(Box<crate::args_plan::PlanArgs>),
    /// Load-test a serving endpoint, watch the server, and say where each request's time went.
    ///
    /// OpenAI-compatible completions and chat, streaming or not. Latencies are measured from the time a request was due. Tokens are
    /// counted by the server's usage field, or by a tokenizer. Exit code 1: an SLO (--slo) was not met.
    #[command(after_help = "\
Examples:
  llmprof bench http://localhost:8000 --rate 4 --requests 200
  llmprof bench http://localhost:8000 --concurrency 16 --prompt-tokens lognormal:512:0.6
  llmprof bench http://localhost:8000 --sweep 1:64 --slo 'ttft:p99<500ms' --slo 'tpot:p90<40ms'
  llmprof bench http://localhost:8000 --trace mooncake.jsonl --speedup 2 --json | jq .ttft_ms.p99
  llmprof bench --serve 'vllm serve DIR --port 8000' --overhead 2% --rate 4
  llmprof bench --import vllm_result.json sglang.jsonl")]
    Bench(Box<crate::args_bench::BenchArgs>),
    /// Compare runs: what differs, how sure that is, and which kernels explain it.
    ///
    /// Sides are run directories, traces, folders of runs, or a named baseline; with --run, two configs that run in turns until the
    /// 95 % interval of their ratio is narrow enough. Exit code 1: a gate failed.
    #[command(after_help = "\
Examples:
  llmprof compare runs/a runs/b                             why b is slower than a
  llmprof compare before.json.gz after.json.gz              two traces
  llmprof compare --run 'runtime.cuda_graph=false' --run 'runtime.cuda_graph=true' --resolution 1%
  llmprof compare runs/b --save-baseline main               keep it as baselines/main.json
  llmprof compare runs/c --baseline main --gate 'tpot<+3%' --junit gate.xml")]
    Compare(Box<crate::args_compare::CompareArgs>),
    /// Find the kernels that matter, collect their counters with Nsight Compute, and say what limits them.
    #[command(after_help = "\
Examples:
  llmprof kernels top runs/mine --coverage 95% -o top-kernels.yaml
  llmprof kernels profile top-kernels.yaml -o ncu/ -- python bench.py
  llmprof kernels analyze ncu/ -o analysis/")]
    Kernels {
        #[command(subcommand)]
        command: KernelsCommand,
    },
    /// Check what profiling needs: driver, tools, permissions, Python; and say what would fix it.
    #[command(after_help = "\
Examples:
  llmprof doctor
  llmprof doctor --python .venv/bin/python --json")]
    Doctor(DoctorArgs),
    /// Show devices: peaks, bandwidths, caches, with sources.
    #[command(after_help = "\
Examples:
  llmprof hardware list
  llmprof hardware show h200
  llmprof hardware measure                         this CPU, for hardware.spec=auto
  llmprof hardware show 'NVIDIA H100 80GB HBM3' --json
  llmprof hardware show my_device.yaml             a custom device file
  llmprof hardware show custom_npu --yaml          a template for one")]
    Hardware {
        #[command(subcommand)]
        command: HardwareCommand,
    },
    /// Compose a config as a Hydra application would, and print it.
    ///
    /// Without `--config-path` it is llmprof's own: the project's conf/ if there is one, then the built-in tree.
    #[command(after_help = "\
Examples:
  llmprof config                                    llmprof's own config, composed
  llmprof config model=qwen2_5_7b --package model   one part of it
  llmprof config --info defaults-tree               how it was composed
  llmprof config -cp other/conf -cn config --cfg job --resolve db=mysql")]
    Config(HydraArgs),
    /// Show earlier runs.
    #[command(after_help = "\
Examples:
  llmprof runs list                     every run below ./runs, oldest first
  llmprof runs list --json | jq '.[].path'
  llmprof runs show                     the newest run
  llmprof runs export -o runs.csv       one line per run, for pandas
  cd $(llmprof runs path)")]
    Runs {
        #[command(subcommand)]
        command: RunsCommand,
    },
    /// Create a project: config, models, datasets, third_party, a pixi manifest. `llmprof run` works in it at once.
    #[command(after_help = "\
Examples:
  llmprof init my-profiles --yes && cd my-profiles && llmprof run
  llmprof init . --force --dry-run              what a folder with files would get")]
    Init(InitArgs),
    /// Link models and datasets of this host into the project, as bootstrap.yaml files declare them.
    ///
    /// Roots come from $HF_SNAPSHOTS_ROOT, $MODELS_ROOT and $DATASETS_ROOT. A missing target or file is an error; only links inside
    /// the project are replaced.
    #[command(after_help = "\
Examples:
  llmprof bootstrap --dry-run
  HF_SNAPSHOTS_ROOT=/nvme/hf-cache llmprof bootstrap models --yes
  llmprof bootstrap all --check                 in CI: exit code 1 where a link is not as declared")]
    Bootstrap(BootstrapArgs),
    /// Manage the datasets of a project: add, list, show, verify, prepare variants.
    #[command(after_help = "\
Examples:
  llmprof dataset add openwebtext --source /data/openwebtext --yes
  llmprof dataset variant openwebtext --samples 1000 --yes
  llmprof run dataset=openwebtext dataset.variant=subset-1000")]
    Dataset {
        #[command(subcommand)]
        command: DatasetCommand,
    },
    /// Manage third-party sources in third_party/ at pinned revisions.
    #[command(after_help = "\
Examples:
  llmprof externals init --yes
  llmprof externals status --check
  llmprof externals update github/transformers --dry-run
  llmprof externals guard --install --yes")]
    Externals {
        #[command(subcommand)]
        command: ExternalsCommand,
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
    /// Write man pages, one for each command.
    #[command(after_help = "\
Examples:
  llmprof man ~/.local/share/man/man1 && man llmprof-import")]
    Man {
        /// Folder for the pages; it is created.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// What a Hydra application understands.
#[derive(Debug, clap::Args)]
pub(crate) struct HydraArgs {
    /// Config directory; -cp for short.
    #[arg(long, value_name = "DIR")]
    pub(crate) config_path: Option<PathBuf>,
    /// Primary config in that directory; -cn for short.
    #[arg(long, value_name = "NAME")]
    pub(crate) config_name: Option<String>,
    /// Additional directory on the config search path; -cd for short.
    #[arg(long, value_name = "DIR")]
    pub(crate) config_dir: Option<PathBuf>,
    /// Print the composed config and stop.
    #[arg(short, long, value_name = "WHAT", conflicts_with_all = ["info", "run", "multirun"])]
    pub(crate) cfg: Option<Cfg>,
    /// With --cfg: only this part, a dotted key.
    #[arg(short, long, value_name = "KEY")]
    pub(crate) package: Option<String>,
    /// With --cfg: resolve interpolations.
    #[arg(long)]
    pub(crate) resolve: bool,
    /// Print how the config was composed and stop.
    #[arg(short, long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "all", conflicts_with_all = ["run", "multirun"])]
    pub(crate) info: Option<InfoKind>,
    /// A single job (the default).
    #[arg(short, long, conflicts_with = "multirun")]
    pub(crate) run: bool,
    /// One job for each combination of the sweeps in the overrides.
    #[arg(short, long)]
    pub(crate) multirun: bool,
    /// Config overrides: key=value, +key=value, ~key, group=option.
    #[arg(value_name = "OVERRIDE")]
    pub(crate) overrides: Vec<String>,
}

/// What the main job takes beside the config.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) hydra: HydraArgs,
    /// The model, by its Hugging Face config.json: model=local model.config=FILE.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The run directory, as hydra.run.dir=DIR; with --multirun that of the sweep [default: runs/NAME/MODEL/TIME].
    #[arg(short, long, value_name = "DIR", conflicts_with = "attach")]
    pub(crate) output: Option<PathBuf>,
    /// Print the commands that the run would start, and stop.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With --multirun: number of concurrent jobs. Concurrent profiles disturb each other.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// With --multirun and a fixed hydra.sweep.dir: keep jobs that are complete there, run the others again.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Follow a sweep that is running, in another process or on Slurm, and print its table when it ends: the folder hydra.sweep.dir.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "resume", "multirun", "overrides", "format"])]
    pub(crate) attach: Option<PathBuf>,
    /// Output format of one job.
    #[arg(long, value_enum, conflicts_with_all = ["dry_run", "multirun", "view"])]
    pub(crate) format: Option<crate::args_agents::RunFormat>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Which part of a config is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Cfg {
    /// The application's own keys.
    Job,
    /// Hydra's keys.
    Hydra,
    /// Both.
    All,
}

/// Which part of the composition is explained.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum InfoKind {
    /// Everything.
    All,
    /// The composed config.
    Config,
    /// The defaults list.
    Defaults,
    /// The defaults tree.
    DefaultsTree,
    /// The config search path.
    Searchpath,
}

impl HydraArgs {
    pub(crate) fn into_command(self) -> hydra::HydraCommand {
        hydra::HydraCommand {
            config_path: self.config_path,
            config_name: self.config_name,
            config_dir: self.config_dir,
            cfg: self.cfg.map(|kind| match kind {
                Cfg::Job => hydra::CfgKind::Job,
                Cfg::Hydra => hydra::CfgKind::Hydra,
                Cfg::All => hydra::CfgKind::All,
            }),
            package: self.package,
            resolve: self.resolve,
            info: self.info.map(|kind| match kind {
                InfoKind::All => hydra::InfoTopic::All,
                InfoKind::Config => hydra::InfoTopic::Config,
                InfoKind::Defaults => hydra::InfoTopic::Defaults,
                InfoKind::DefaultsTree => hydra::InfoTopic::DefaultsTree,
                InfoKind::Searchpath => hydra::InfoTopic::SearchPath,
            }),
            run: self.run,
            multirun: self.multirun,
            overrides: self.overrides,
        }
    }
}

/// What is watched, and when.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// The run directory [default: runs/record/PROGRAM/TIME].
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Record for this long, then let the command continue unrecorded.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) length: Option<Duration>,
    /// Start recording this long after the command started.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) after: Option<Duration>,
    /// Record only inside NVTX ranges of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) nvtx_range: Option<String>,
    /// Sample in slices so that recording adds at most this share of the run time: 2%. With CUDA Graphs, budgets below 2% are
    /// exceeded.
    #[arg(long, value_name = "SHARE")]
    pub(crate) overhead: Option<Share>,
    /// Keep CUPTI attached between slices and after --for. Launches stay slower, but a slice starts sooner.
    #[arg(long)]
    pub(crate) no_detach: bool,
    /// Record every CUDA API call, not only launches, synchronizations, allocations and module loads. About ten times the records.
    #[arg(long)]
    pub(crate) all_calls: bool,
    /// Do not sample what host threads do (Python stacks, waits, the GIL).
    #[arg(long)]
    pub(crate) no_host_stacks: bool,
    /// Stop recording when its files have this size (500M, 2G); the command continues [default: a quarter of the free disk].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<Bytes>,
    /// Device for the roofline instead of the one the driver reports.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// Print the analysis as JSON; the command's stdout goes to stderr.
    #[arg(long, conflicts_with = "view")]
    pub(crate) json: bool,
    /// The command and its arguments.
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// Which profiles are read.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// Profiles, then config overrides for the model that ran and its workload: model=NAME,
    /// workload.prompt_tokens=128. Without a model there are no roofline times. The ranks of a job are
    /// files, 'patterns', folders of timelines or @LIST, a file with a path a line.
    #[arg(required_unless_present = "join", value_name = "FILE|OVERRIDE")]
    pub(crate) files: Vec<PathBuf>,
    /// The model that ran: a shipped one by its name or hub id, as model=NAME (`llmprof model list`).
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub(crate) model: Option<String>,
    /// The model that ran, by its Hugging Face config.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The run directory [default: runs/import/NAME/TIME].
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Device for the roofline instead of the one the profile names.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Only reduce each rank to a summary in the folder of -o; ranks that it has are not read again.
    #[arg(long, conflicts_with_all = ["join", "launcher", "view", "model", "config", "device"])]
    pub(crate) summary_only: bool,
    /// Join the rank summaries of a folder as one run.
    #[arg(long, value_name = "DIR", conflicts_with = "launcher")]
    pub(crate) join: Option<PathBuf>,
    /// Keep the summaries of more than 16 ranks in a folder beside the run, for imports with further ranks.
    #[arg(long, value_name = "DIR", conflicts_with = "join")]
    pub(crate) summaries: Option<PathBuf>,
    /// Memory for reading ranks of a job [default: half of what is free].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<Bytes>,
    /// Read ranks as an array job of Slurm and join them in a dependent one.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["view", "json", "format"])]
    pub(crate) launcher: Option<ImportLauncher>,
    /// Open report.html in the browser.
    #[arg(long, conflicts_with_all = ["view", "summary_only", "launcher"])]
    pub(crate) open: bool,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// Print the analysis as JSON.
    #[arg(long, conflicts_with = "view")]
    pub(crate) json: bool,
    /// Output format: --json is `json`.
    #[arg(long, value_enum, conflicts_with_all = ["json", "view"])]
    pub(crate) format: Option<crate::args_agents::ResultFormat>,
}

/// Where ranks are read.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ImportLauncher {
    Slurm,
}

/// Which run is analyzed again.
#[derive(Debug, clap::Args)]
pub(crate) struct AnalyzeArgs {
    /// The run directory [default: the newest run below ./runs].
    pub(crate) run: Option<PathBuf>,
    /// Device for the roofline instead of the one the profile names.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Print the analysis as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which run is reported again.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// The run directory [default: the newest run below ./runs].
    pub(crate) run: Option<PathBuf>,
    /// Open report.html in the browser.
    #[arg(long)]
    pub(crate) open: bool,
}

/// What is written, and for whom.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// The run directory [default: the newest run below ./runs].
    pub(crate) run: Option<PathBuf>,
    /// The format; `perfetto` is pftrace.
    #[arg(long, value_enum, default_value = "pftrace")]
    pub(crate) to: ExportFormat,
    /// The file [default: in the run directory]. One that ends with .gz is compressed.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What a timeline can be written as.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Perfetto's protobuf: smaller than JSON, right for events that overlap, with phases and idle causes.
    #[value(alias = "perfetto")]
    Pftrace,
    /// Chrome JSON, which Perfetto opens.
    Chrome,
    /// A SQLite file with the tables of `llmprof query` and of the trace.
    Sqlite,
    /// The tables of `llmprof query` as Parquet files for DuckDB, pandas and Spark, in folders `run=NAME/rank=N`. Needs a build with `--features parquet`.
    Parquet,
    /// Host stacks while no GPU was busy, one line each, for flamegraph.pl and inferno.
    Folded,
    /// Host stacks while no GPU was busy, and all of them, for speedscope.
    Speedscope,
    /// One flat JSON object of the run's numbers for MLflow, W&B or a table: metrics, phases, gains. `-o -` prints it.
    FlatJson,
}

/// What is predicted, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct PredictArgs {
    /// The software that runs the model: hf_eager, hf_graph, torch_compile (transformers: eager, CUDA graph, compiled), vllm, sglang, trtllm, native (llmprof's CPU
    /// engine), fused (any engine with fused kernels), ideal (no losses), or a YAML file; docs/prediction.md [default: by runtime=, runtime.cuda_graph, runtime.compile].
    #[arg(long, value_name = "NAME")]
    pub(crate) efficiency: Option<String>,
    /// The model, by its Hugging Face config.json: model=local model.config=FILE.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Start from a measured run: its request with other batch sizes, contexts, dtypes or designs, predicted with its measured efficiencies.
    #[arg(long, value_name = "RUN")]
    pub(crate) from: Option<PathBuf>,
    /// Target TTFT: show what it would need (200ms, 1.5s).
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) ttft: Option<Duration>,
    /// Target TPOT: show what it would need.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) tpot: Option<Duration>,
    /// Rank changes of one request by predicted gain, each with the overrides that try it.
    #[arg(long)]
    pub(crate) advise: bool,
    /// As --advise, then run the best change that runs here, in turns with the request, and show predicted beside measured.
    #[arg(long = "try")]
    pub(crate) try_best: bool,
    /// With --try: start no further round after this time.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "3min")]
    pub(crate) time: Duration,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: PredictFormat,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Config overrides; those with several values span the grid. A bare NAME is model=NAME.
    #[arg(value_name = "OVERRIDE", value_parser = crate::args_model::model_or_override)]
    pub(crate) overrides: Vec<String>,
}

impl PredictArgs {
    pub(crate) fn chosen_format(&self) -> PredictFormat {
        if self.json {
            PredictFormat::Json
        } else {
            self.format
        }
    }
}

/// How a grid is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PredictFormat {
    /// For people.
    Table,
    /// For spreadsheets.
    Csv,
    /// For programs.
    Json,
}

/// A size: `500M`, `2GiB`, `1000000`. Prefixes are binary.
pub(crate) fn size(text: &str) -> Result<Bytes, String> {
    let wrong = || format!("`{text}` is not a size such as 500M or 2G");
    let letters = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(letters.unwrap_or(text.len()));
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let bytes = number * (1_u64 << shift) as f64;
    if bytes >= 1.0 && bytes < 2_f64.powi(63) {
        Ok(Bytes(bytes as u64))
    } else {
        Err(wrong())
    }
}

/// What to show of devices.
#[derive(Debug, Subcommand)]
pub(crate) enum HardwareCommand {
    /// List known devices.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Calibrate the peaks of this CPU: FLOP/s, memory and cache bandwidth. `hardware.spec=auto` uses them.
    ///
    /// With --gpu, measure how long kernels take on a GPU (GEMM, attention, elementwise, launches, copies), in at most three minutes, and
    /// write a device file with kernel curves: `llmprof predict hardware.spec=FILE` uses them.
    Measure {
        /// Where to write the device file [default: the cache directory].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Measure kernels of a GPU, through PyTorch.
        #[arg(long)]
        gpu: bool,
        #[command(flatten)]
        kernels: KernelArgs,
    },
    /// Show one device, each figure with its source.
    Show {
        /// Its name, the name its driver reports, or a YAML file.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Print the YAML file of a built-in device, to start your own from: that of custom_npu documents every key.
        #[arg(long, conflicts_with = "json")]
        yaml: bool,
    },
}

/// How `hardware measure --gpu` runs.
#[derive(Debug, clap::Args)]
pub(crate) struct KernelArgs {
    /// PyTorch device.
    #[arg(
        long,
        value_name = "DEVICE",
        default_value = "cuda:0",
        requires = "gpu"
    )]
    pub(crate) device: String,
    /// Python with torch and transformers.
    #[arg(long, value_name = "PATH", default_value = "python3", requires = "gpu")]
    pub(crate) python: String,
    /// Time budget; kernels that have not run by then are skipped.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "140s", requires = "gpu")]
    pub(crate) time: Duration,
    /// A few small sizes only, to see that it runs.
    #[arg(long, requires = "gpu")]
    pub(crate) quick: bool,
}

/// Which model is analyzed, and how it is shown.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ModelCommand>,
    /// Read the model from this config.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Read the config as this model family, whatever `model_type` says.
    #[arg(long = "as", value_name = "FAMILY")]
    pub(crate) family: Option<String>,
    /// List every operator.
    #[arg(long)]
    pub(crate) layers: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "layers")]
    pub(crate) json: bool,
    /// Also write static_compute.json and static_compute.md there.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Config overrides: model=NAME, workload.prompt_tokens=512, hardware.spec=h200. A bare NAME is model=NAME.
    #[arg(value_name = "OVERRIDE", value_parser = crate::args_model::model_or_override)]
    pub(crate) overrides: Vec<String>,
}

/// What to show of models, beside one of them.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// List the models of the config tree: name, hub id, parameters.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
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
    /// Print one CSV of all runs: state, metrics, and a column per key they were started with.
    Export {
        /// Where to look.
        #[arg(long, default_value = "runs", value_name = "DIR")]
        root: PathBuf,
        /// The file [default: standard output].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
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

#[cfg(test)]
mod tests {
    use llmprof_config::hydra::RunMode;

    use super::*;
    use crate::{
        app,
        plan::{PlanPurpose, plan},
    };

    fn of_the_flag(text: &str) -> Result<Option<Share>, String> {
        let flag = format!("--overhead={text}");
        let args = Args::try_parse_from(["llmprof", "record", &flag, "--", "true"]);
        match args.map_err(|error| error.to_string())?.command {
            Command::Record(args) => Ok(args.overhead),
            other => panic!("{other:?}"),
        }
    }

    fn of_the_key(text: &str) -> Result<Option<Share>, String> {
        let host = app::host().unwrap();
        let line = format!("pipeline.cupti.overhead={text}");
        let composed = app::llmprof(&host.cwd).compose(&[line], RunMode::Run, &host);
        plan(&composed.unwrap(), PlanPurpose::Paper)
            .map(|plan| plan.pipeline.cupti.overhead)
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_flag_and_the_key_read_one_share() {
        for text in ["2%", "0.02", "2e-2", "1", "100%", "0.000001", "0.0001%"] {
            let flag = of_the_flag(text).unwrap();
            assert_eq!(of_the_key(text).unwrap(), flag, "{text}");
            assert_eq!(flag, text.parse().ok());
        }
        for text in ["0", "-1", "1.5", "2", "101%", "4e-7", "0.00001%", "much"] {
            let why = text.parse::<Share>().unwrap_err().to_string();
            for error in [of_the_flag(text), of_the_key(text)] {
                let error = error.unwrap_err();
                assert!(error.contains(&why), "{text}: {error}");
            }
        }
    }
}
