//! The arguments of `simulate`.

use std::{path::PathBuf, time::Duration};

use llmprof_traffic::{lengths::Lengths, slo::Slo};

use crate::arg_duration::duration;

/// Which engine is simulated, and under which load.
#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Efficiency profile of the software stack: hf_eager, fused, ideal, or a YAML file.
    #[arg(long, value_name = "NAME", default_value = "fused")]
    pub(crate) efficiency: String,
    /// Time that the engine adds to every predicted step: scheduling, sampling, detokenization.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "calibrate")]
    pub(crate) step_overhead: Option<Duration>,
    /// Step times from a recorded server instead: a Kineto trace with vLLM's or SGLang's step labels (`bench --profile`).
    #[arg(long, value_name = "TRACE")]
    pub(crate) calibrate: Option<PathBuf>,
    /// An objective, such as ttft:p99<500ms; several are met together. Exit code 1 where one is not met.
    #[arg(long, value_name = "SLO")]
    pub(crate) slo: Vec<Slo>,
    /// Search max_num_batched_tokens and max_num_seqs: the best first.
    #[arg(long)]
    pub(crate) search_settings: bool,
    /// Search the fewest replicas, up to MOST, that meet the objectives.
    #[arg(long, value_name = "MOST", num_args = 0..=1, default_missing_value = "64", requires = "slo", conflicts_with = "replicas")]
    pub(crate) search_replicas: Option<u64>,
    /// Print the numbers as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Config overrides: model=NAME, hardware.spec=h200, workload.weights=fp8.
    #[arg(value_name = "OVERRIDE")]
    pub(crate) overrides: Vec<String>,
}

/// The requests, drawn as `bench` draws them: one seed is one load.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// Requests to simulate; a trace has no more than its own.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000)]
    pub(crate) requests: usize,
    /// Requests per second, as a Poisson process. Without it: a closed loop of --concurrency.
    #[arg(long, value_name = "R", conflicts_with = "concurrency")]
    pub(crate) rate: Option<f64>,
    /// With --rate: evenly spaced instead.
    #[arg(long, requires = "rate", conflicts_with = "burstiness")]
    pub(crate) constant: bool,
    /// With --rate: gamma-distributed inter-arrival times of this shape; below 1 bursty, 1 is Poisson.
    #[arg(long, value_name = "B", requires = "rate")]
    pub(crate) burstiness: Option<f64>,
    /// Requests in flight in a closed loop [default: 1].
    #[arg(long, value_name = "C")]
    pub(crate) concurrency: Option<usize>,
    /// Tokens of prompts: 128, uniform:64:256, normal:MEAN:DEVIATION, lognormal:MEDIAN:SIGMA.
    #[arg(long, value_name = "LENGTHS", default_value = "128")]
    pub(crate) prompt_tokens: Lengths,
    /// Output tokens per request, in the same syntax.
    #[arg(long, value_name = "LENGTHS", default_value = "128")]
    pub(crate) output_tokens: Lengths,
    /// Tokens that all prompts begin with.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) shared_prefix: u64,
    /// Replay a trace: Mooncake JSONL, BurstGPT CSV, or a detailed result of `vllm bench serve`. With --rate only its lengths.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Replay it this many times faster.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub(crate) speedup: f64,
    /// Seed of arrivals and lengths.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// The engine, under vLLM's names.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// Maximum new tokens per step.
    #[arg(long, value_name = "N", default_value_t = 8192)]
    pub(crate) max_num_batched_tokens: u64,
    /// Maximum concurrent sequences.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_num_seqs: u64,
    /// Tokens of a KV block.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) block_size: u64,
    /// KV blocks [default: what the device's memory leaves beside the weights].
    #[arg(long, value_name = "N")]
    pub(crate) kv_blocks: Option<u64>,
    /// Share of the device's memory that the engine takes.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.9,
        conflicts_with = "kv_blocks"
    )]
    pub(crate) gpu_memory_utilization: f64,
    /// Prompts are not split over steps.
    #[arg(long)]
    pub(crate) no_chunked_prefill: bool,
    /// Every prompt is computed whole.
    #[arg(long)]
    pub(crate) no_prefix_caching: bool,
    /// Engines behind a round-robin balancer.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) replicas: u64,
}
