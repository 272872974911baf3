//! The arguments of `simulate`.

use std::{path::PathBuf, time::Duration};

use llmprof_traffic::slo::Slo;

use crate::{arg_duration::duration, arg_load::LoadArgs};

/// Which engine is simulated, and under which load.
#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    /// Requests to simulate; of a trace (--trace) at most those it has.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000)]
    pub(crate) requests: usize,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// The software that runs the model: vllm, sglang, trtllm, fused (any engine with fused kernels), ideal (no losses), or another of `llmprof predict`.
    #[arg(long, value_name = "NAME", default_value = "vllm")]
    pub(crate) efficiency: String,
    /// The model, by its Hugging Face config.json: model=local model.config=FILE.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Engine overhead added to every predicted step: scheduling, sampling, detokenization.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "calibrate")]
    pub(crate) step_overhead: Option<Duration>,
    /// Fit step times to a profiled server instead: a Kineto trace with vLLM's or SGLang's step labels (`bench --profile`).
    #[arg(long, value_name = "TRACE")]
    pub(crate) calibrate: Option<PathBuf>,
    /// An objective, such as ttft:p99<500ms. May be repeated: all must be met, else the exit code is 1.
    #[arg(long, value_name = "SLO")]
    pub(crate) slo: Vec<Slo>,
    /// Search max_num_batched_tokens and max_num_seqs; lists the best settings first.
    #[arg(long)]
    pub(crate) search_settings: bool,
    /// Find the fewest replicas, up to MAX, that meet the objectives.
    #[arg(long, value_name = "MAX", num_args = 0..=1, default_missing_value = "64", requires = "slo", conflicts_with = "replicas")]
    pub(crate) search_replicas: Option<u64>,
    /// Print the numbers as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Config overrides: model=NAME, hardware.spec=h200, workload.weights=fp8. A bare NAME is model=NAME.
    #[arg(value_name = "OVERRIDE", value_parser = crate::args_model::model_or_override)]
    pub(crate) overrides: Vec<String>,
}

/// The engine, under vLLM's names.
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct EngineArgs {
    /// Maximum new tokens per step.
    #[arg(long, value_name = "N", default_value_t = 8192)]
    pub(crate) max_num_batched_tokens: u64,
    /// Maximum concurrent sequences.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_num_seqs: u64,
    /// Tokens per KV block.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) block_size: u64,
    /// Number of KV blocks [default: as many as fit beside the weights].
    #[arg(long, value_name = "N")]
    pub(crate) kv_blocks: Option<u64>,
    /// Share of device memory that the engine uses.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.9,
        conflicts_with = "kv_blocks"
    )]
    pub(crate) gpu_memory_utilization: f64,
    /// Disable chunked prefill: a prompt is computed in one step.
    #[arg(long)]
    pub(crate) no_chunked_prefill: bool,
    /// Disable prefix caching: every prompt is computed in full.
    #[arg(long)]
    pub(crate) no_prefix_caching: bool,
    /// Start a request only when its whole answer has KV blocks: nothing is preempted.
    #[arg(long)]
    pub(crate) reserve_answer: bool,
    /// Put the next step together while one runs: requests that arrive meanwhile wait for the step after it.
    #[arg(long)]
    pub(crate) async_scheduling: bool,
    /// Steps that prompts wait for others to run with.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) wait_steps: u64,
    /// Tokens of a step that end the wait [default: those of a full step].
    #[arg(long, value_name = "N")]
    pub(crate) wait_tokens: Option<u64>,
    /// Time between sending a request and the engine receiving it: network, parsing.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) request_delay: Option<Duration>,
    /// Time to tokenize one prompt token; requests pass the tokenizer one after another.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) token_delay: Option<Duration>,
    /// Engines behind a round-robin load balancer.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) replicas: u64,
}
