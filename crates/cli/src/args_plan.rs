//! The arguments of `plan`.

use std::path::PathBuf;

use llmprof_traffic::slo::Slo;

use crate::arg_load::LoadArgs;

/// Which load is to be served, within which objectives, on which devices.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    /// The model, then config overrides: llama3_1_8b, or model=local model.path=DIR workload.weights=fp8.
    #[arg(value_name = "MODEL|OVERRIDE", required_unless_present = "config")]
    pub(crate) words: Vec<String>,
    /// The model, by its Hugging Face config.json: model=local model.config=FILE.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// An objective, such as ttft:p99<500ms. May be repeated: all must be met.
    #[arg(long, value_name = "SLO", required = true)]
    pub(crate) slo: Vec<Slo>,
    /// Devices to choose from: names of `llmprof hardware list`, or device files.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "l4,l40s,a100_sxm_80gb,h100_sxm,h200,b200"
    )]
    pub(crate) devices: Vec<String>,
    /// GPUs of all replicas at most.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) max_gpus: u64,
    /// The engine: vllm, sglang, trtllm, fused, or another of `llmprof predict`.
    #[arg(
        long,
        visible_alias = "efficiency",
        value_name = "NAME",
        default_value = "vllm"
    )]
    pub(crate) engine: String,
    /// Benches of one server that shift predicted step times: run directories of `llmprof bench`, or JSON of `vllm bench serve --save-result`.
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "from_server")]
    pub(crate) from: Vec<PathBuf>,
    /// What served these benches, as overrides of `llmprof simulate`: 'hardware.spec=h200 parallel.tensor=2'.
    #[arg(long, value_name = "OVERRIDES", requires = "from")]
    pub(crate) from_server: Option<String>,
    /// Keep the weight and KV cache formats of the model: without it, FP8 is tried too where the device computes in it.
    #[arg(long)]
    pub(crate) keep_formats: bool,
    /// Consider prefill and decode on engines of their own, too.
    #[arg(long)]
    pub(crate) disaggregated: bool,
    /// Rank by cost: a file with a line `NAME: PRICE` for each device, the price of one device for an hour.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Share of device memory that an engine uses.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    pub(crate) gpu_memory_utilization: f64,
    /// Engines to simulate at most, the cheapest by their bounds first.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) simulate_max: usize,
    /// Requests of one simulated engine at most; they double until the 99th percentiles settle.
    #[arg(long, value_name = "N", default_value_t = 16_000)]
    pub(crate) requests_max: usize,
    /// Write the answer as an HTML report, too.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print the numbers as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
