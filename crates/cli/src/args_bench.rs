//! The arguments of `bench`.

use std::{path::PathBuf, time::Duration};

use llmprof_load::{
    arrivals::{RATE_MAX, RATE_MIN},
    slo::Slo,
};
use llmprof_units::Share;

use crate::args_agents::ResultFormat;
use crate::args_view::ShowArgs;
use crate::{arg_duration::duration, arg_load::LoadArgs};

/// Which endpoint is loaded, and how.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct BenchArgs {
    /// The endpoint: HOST:PORT or http(s)://HOST:PORT, with or without /v1 or the path of an interface.
    #[arg(required_unless_present_any = ["serve", "import"], value_name = "URL")]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) served: ServedArgs,
    /// Requests to send.
    #[arg(
        short = 'n',
        long,
        visible_alias = "num-prompts",
        value_name = "N",
        default_value_t = 100
    )]
    pub(crate) requests: usize,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// With --rate or --trace: maximum requests in flight. Others wait in the client; that wait counts as latency. Alone: the same
    /// as --concurrency.
    #[arg(long, value_name = "C")]
    pub(crate) max_concurrency: Option<usize>,
    /// Turns per conversation; each sends the turns before it as context.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) turns: u32,
    /// Time between an answer and the next turn.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) think_time: Option<Duration>,
    /// Take prompts from a file: JSONL with `prompt` or `turns`, or ShareGPT JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub(crate) dataset: Option<PathBuf>,
    /// Use /v1/chat/completions.
    #[arg(long)]
    pub(crate) chat: bool,
    /// Do not stream; TTFT and ITL are then not measured.
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// The model's name [default: the first that /v1/models lists].
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Environment variable that holds the API key. The key is sent and never stored.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// Certificates to trust beside the system's, PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Let the model end answers early. Without it, ignore_eos is sent to servers that support it.
    #[arg(long)]
    pub(crate) stop_at_eos: bool,
    /// The model's tokenizer.json, or its directory: counts tokens if the server does not.
    #[arg(long, value_name = "PATH")]
    pub(crate) tokenizer: Option<PathBuf>,
    /// Size of the vocabulary that prompts are drawn from.
    #[arg(long, value_name = "N", default_value_t = 32_000)]
    pub(crate) vocabulary: u64,
    /// Additional fields of every request, a JSON object.
    #[arg(long, value_name = "JSON")]
    pub(crate) extra_body: Option<String>,
    /// Warm-up requests, completed before the measurement.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) warmup: usize,
    /// Timeout of a request [default: 10min, and 2min for the first one, which asks what the server understands].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Client threads.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) workers: usize,
    /// An objective, such as ttft:p99<500ms. May be repeated: all must be met, else the exit code is 1.
    #[arg(long, value_name = "SLO")]
    pub(crate) slo: Vec<Slo>,
    /// Find the highest rate that meets the objectives: from MIN up to MAX requests per second, and below MIN where that fails.
    #[arg(long, value_name = "MIN:MAX", requires = "slo", conflicts_with_all = ["concurrency", "trace"], value_parser = bounds)]
    pub(crate) sweep: Option<(f64, f64)>,
    /// Additional Prometheus metrics to scrape, such as those of a DCGM exporter.
    #[arg(long, value_name = "URL")]
    pub(crate) metrics: Vec<String>,
    /// Do not scrape the server's metrics.
    #[arg(long)]
    pub(crate) no_metrics: bool,
    /// Interval between scrapes.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "500ms")]
    pub(crate) scrape_interval: Duration,
    /// GPUs of this machine to sample during the load, by number [default: all, if the server is on this machine].
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(crate) gpus: Option<Vec<u32>>,
    /// Do not sample CPUs and GPUs of this machine.
    #[arg(long, conflicts_with = "gpus")]
    pub(crate) no_telemetry: bool,
    #[command(flatten)]
    pub(crate) profile: ServerProfileArgs,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    /// Show results of other load generators instead: `vllm bench serve`, SGLang, AIPerf.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["url", "serve", "view"])]
    pub(crate) import: Vec<PathBuf>,
    /// The run directory [default: runs/bench/MODEL/TIME].
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// Print the numbers as JSON.
    #[arg(long, conflicts_with = "view")]
    pub(crate) json: bool,
    /// Output format: --json is `json`.
    #[arg(long, value_enum, conflicts_with_all = ["json", "import", "view"])]
    pub(crate) format: Option<ResultFormat>,
}

/// The model that is served, for roofline times of its steps.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServedArgs {
    /// Config overrides for the model that is served: model=NAME, hardware.spec=h200. Without a model, steps of the server have
    /// no roofline times.
    #[arg(value_name = "OVERRIDE")]
    pub(crate) overrides: Vec<String>,
    /// The model that is served, by its Hugging Face config.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Device for the roofline instead of the one the server's trace names.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
}

/// The server's own profiler.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServerProfileArgs {
    /// Start and stop the server's own profiler during the load (/start_profile, /stop_profile of vLLM and SGLang).
    #[arg(long)]
    pub(crate) profile: bool,
    /// Start profiling this long after the load starts [default: once half of the requests are done].
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "profile")]
    pub(crate) profile_after: Option<Duration>,
    /// Start profiling once this many requests run in the server's batch.
    #[arg(long, value_name = "N", requires = "profile")]
    pub(crate) profile_when_running: Option<f64>,
    /// Profile for this long.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub(crate) profile_for: Duration,
    /// Engine steps to profile, for servers that count them (SGLang).
    #[arg(long, value_name = "N", requires = "profile")]
    pub(crate) profile_steps: Option<u64>,
    /// Additional options of SGLang's /start_profile, a JSON object: `{"with_stack": true}`.
    #[arg(long, value_name = "JSON", value_parser = object, requires = "profile")]
    pub(crate) profile_options: Option<serde_json::Map<String, serde_json::Value>>,
    /// Directory where the server writes traces; new ones are joined with the requests.
    #[arg(long, value_name = "DIR", requires = "profile")]
    pub(crate) profile_dir: Option<PathBuf>,
}

/// A server that bench starts and ends.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Start this server, load it once it is healthy, then stop it and its children.
    #[arg(long, value_name = "CMD")]
    pub(crate) serve: Option<String>,
    /// With --serve: URL of the server [default: http://127.0.0.1:8000, or the --port of the command].
    #[arg(long, value_name = "URL", requires = "serve")]
    pub(crate) serve_url: Option<String>,
    /// With --serve: time until the server must be healthy.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10min")]
    pub(crate) ready_timeout: Duration,
    /// With --serve: path of the health check.
    #[arg(long, value_name = "PATH", default_value = "/health")]
    pub(crate) health: String,
    /// With --serve: record the server's GPUs in slices, with at most this overhead: 2%.
    #[arg(long, value_name = "SHARE", requires = "serve")]
    pub(crate) overhead: Option<Share>,
    /// With --serve: do not record the server's GPUs.
    #[arg(long, requires = "serve", conflicts_with = "overhead")]
    pub(crate) no_record: bool,
}

/// A JSON object.
fn object(text: &str) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
}

/// `MIN:MAX`.
fn bounds(text: &str) -> Result<(f64, f64), String> {
    let rate = |text: &str| {
        let rate = text.trim().parse::<f64>().ok();
        rate.filter(|rate| (RATE_MIN..=RATE_MAX).contains(rate))
    };
    match text.split_once(':').map(|(a, b)| (rate(a), rate(b))) {
        Some((Some(least), Some(most))) if least <= most => Ok((least, most)),
        Some((Some(most), Some(least))) => {
            Err(format!("the lower rate comes first: {least}:{most}"))
        }
        _ => Err(format!(
            "two rates between {RATE_MIN} and {RATE_MAX}, such as 1:64"
        )),
    }
}
