//! From arguments to a load: every mistake is found here, before anything is sent.

use std::{path::PathBuf, sync::Arc, time::Duration};

use llmprof_capture::tokenizer::TokenizerProcess;
use llmprof_load::{
    arrivals::{Arrivals, CONCURRENCY_MAX},
    body::{Dialect, RequestTemplate},
    client::CountTokens,
    dataset,
    description::LoadDescription,
    endpoint::{Api, ApiKey, Endpoint},
    plan::LoadSource,
    prompt::PromptSource,
    replay,
    server::profile::ProfileRequest,
    slo::Metric,
};

use crate::{
    args_bench::{BenchArgs, ServeArgs, ServerProfileArgs},
    failure::Failure,
    subject::RunSubject,
};

/// Most requests of a load: their records are kept in memory, about 1 KB each and 16 bytes a token.
const REQUESTS_MAX: usize = 10_000_000;
/// How long a request may take by default.
const TIMEOUT: Duration = Duration::from_mins(10);
/// How long a request of a few tokens may take by default before a server is taken for one that does not answer.
const PROBE_TIMEOUT: Duration = Duration::from_mins(2);

/// What a bench does: the load, and what is watched, recorded and profiled beside it.
pub(super) struct BenchRequest {
    pub(super) load: LoadDescription,
    /// How long the request may take that asks what the server understands.
    pub(super) probe_timeout: Duration,
    /// Whether the server was asked.
    pub(super) is_probed: bool,
    /// Counts tokens where the server does not.
    pub(super) tokenizer: Option<Arc<TokenizerProcess>>,
    /// The model that is served, where it is known.
    pub(super) subject: Option<RunSubject>,
    /// Least and most requests per second between which the highest rate is looked for that meets the objectives.
    pub(super) sweep: Option<(f64, f64)>,
    pub(super) scraping: Scraping,
    /// `None` where this machine is not sampled.
    pub(super) telemetry: Option<TelemetryChoice>,
    pub(super) profile: Option<AskedProfile>,
    /// The server that bench starts, if it starts one.
    pub(super) serve: ServeArgs,
}

/// Which metrics are scraped during the load.
pub(super) struct Scraping {
    pub(super) leaves_out_server: bool,
    /// Addresses beside the server's.
    pub(super) pages: Vec<String>,
    pub(super) interval: Duration,
}

/// What of this machine is sampled during the load.
pub(super) struct TelemetryChoice {
    /// `None`: all where the server is on this machine.
    pub(super) gpus: Option<Vec<u32>>,
}

/// A profile that the server is to make of itself.
pub(super) struct AskedProfile {
    pub(super) request: ProfileRequest,
    /// Where the server writes it.
    pub(super) folder: Option<PathBuf>,
}

impl AskedProfile {
    fn from_args(args: &ServerProfileArgs) -> Option<Self> {
        args.profile.then(|| Self {
            request: ProfileRequest {
                when_running: args.profile_when_running,
                after: args.profile_after,
                length: args.profile_for,
                steps: args.profile_steps,
                options: args.profile_options.clone().unwrap_or_default(),
            },
            folder: args.profile_dir.clone(),
        })
    }
}

impl BenchRequest {
    pub(super) fn from_args(args: &BenchArgs, url: &str) -> Result<Self, Failure> {
        let wrong = |what: String| Failure::new(what);
        let mut endpoint = Endpoint::parse(url).map_err(wrong)?;
        if args.chat {
            endpoint.api = Api::Chat;
        }
        endpoint.ca.clone_from(&args.ca);
        endpoint.key = args
            .api_key_env
            .as_deref()
            .map(ApiKey::from_env)
            .transpose()
            .map_err(wrong)?;
        let arrivals = arrivals(args)?;
        let source = source(args)?;
        if !(1..=REQUESTS_MAX).contains(&args.requests) {
            return Err(wrong(format!(
                "--requests must lie between 1 and {REQUESTS_MAX}"
            )));
        }
        has_values_to_decide(args)?;
        if args.workers == 0 || args.workers > 1024 {
            return Err(wrong("--workers must lie between 1 and 1024".to_owned()));
        }
        if args
            .max_concurrency
            .is_some_and(|most| !(1..=CONCURRENCY_MAX).contains(&most))
        {
            return Err(wrong(format!(
                "--max-concurrency must lie between 1 and {CONCURRENCY_MAX}"
            )));
        }
        if args.turns == 0 {
            return Err(wrong("--turns must be at least 1".to_owned()));
        }
        let has_turns = match &source {
            LoadSource::Synthetic { turns, .. } => *turns > 1,
            LoadSource::Dataset { .. } => true,
            LoadSource::Trace { .. } => false,
        };
        let prompts = PromptSource {
            // A later turn repeats what was said, which is text.
            as_tokens: endpoint.api == Api::Completions && !has_turns,
            vocabulary: args.vocabulary,
            shared_prefix: args.load.shared_prefix,
            seed: args.load.seed,
        };
        let extra = match &args.extra_body {
            None => serde_json::Map::new(),
            Some(text) => serde_json::from_str(text)
                .map_err(|error| wrong(format!("--extra-body is not a JSON object: {error}")))?,
        };
        let tokenizer = args
            .tokenizer
            .as_deref()
            .map(|path| TokenizerProcess::start(path).map(Arc::new))
            .transpose()
            .map_err(wrong)?;
        let load = LoadDescription {
            template: RequestTemplate {
                api: endpoint.api,
                model: args.model.clone().unwrap_or_default(),
                stream: !args.no_stream,
                dialect: Dialect::all(!args.stop_at_eos)[0],
                extra,
            },
            endpoint: Arc::new(endpoint),
            arrivals,
            source,
            prompts,
            count: args.requests,
            warmup_count: args.warmup,
            think: args.think_time.unwrap_or_default(),
            ignore_eos: !args.stop_at_eos,
            timeout: args.timeout.unwrap_or(TIMEOUT),
            max_concurrency: args.max_concurrency,
            workers: args.workers,
            count_tokens: tokenizer.as_ref().map(counter),
            slos: args.slo.clone(),
            instead: None,
        };
        Ok(Self {
            load,
            probe_timeout: args.timeout.unwrap_or(PROBE_TIMEOUT),
            is_probed: false,
            tokenizer,
            subject: None,
            sweep: args.sweep,
            scraping: Scraping {
                leaves_out_server: args.no_metrics,
                pages: args.metrics.clone(),
                interval: args.scrape_interval,
            },
            telemetry: (!args.no_telemetry).then(|| TelemetryChoice {
                gpus: args.gpus.clone(),
            }),
            profile: AskedProfile::from_args(&args.profile),
            serve: args.serve.clone(),
        })
    }
}

/// Tokens of an answer's text. Special tokens are not generated as text.
fn counter(tokenizer: &Arc<TokenizerProcess>) -> CountTokens {
    let tokenizer = Arc::clone(tokenizer);
    Arc::new(move |text: &str| Some(tokenizer.encode(text, false).ok()?.len() as u64))
}

/// When requests are due. A rate of `inf` and a bound of requests in flight mean what they mean to `vllm bench serve`: all requests
/// are there from the start, and so many run at once.
fn arrivals(args: &BenchArgs) -> Result<Arrivals, Failure> {
    let load = &args.load;
    let is_bare = load.rate.is_none() && load.concurrency.is_none() && load.trace.is_none();
    let concurrency = match args.max_concurrency {
        most if load.rate == Some(f64::INFINITY) => most.unwrap_or(args.requests),
        Some(most) if is_bare => most,
        _ => return load.arrivals(args.requests),
    };
    let arrivals = Arrivals::Closed { concurrency };
    match arrivals.find_mistake() {
        Some(mistake) => Err(Failure::new(mistake)),
        None => Ok(arrivals),
    }
}

/// A sweep decides by a percentile of the requests of one rate: it must be more than their maximum.
fn has_values_to_decide(args: &BenchArgs) -> Result<(), Failure> {
    // A request has many ITL.
    let mut of_requests = args.slo.iter().filter(|slo| slo.metric != Metric::Itl);
    let short = of_requests.find(|slo| (args.requests as u64) < slo.values_min());
    match short.filter(|_| args.sweep.is_some()) {
        None => Ok(()),
        Some(slo) => Err(Failure::new(format!(
            "a sweep over {slo} needs at least {} requests at each rate, not {}",
            slo.values_min(),
            args.requests
        ))
        .hint(format!(
            "--requests {}, or a lower percentile",
            slo.values_min()
        ))),
    }
}

fn source(args: &BenchArgs) -> Result<LoadSource, Failure> {
    let of = |path: &std::path::Path, error: &dyn std::fmt::Display| {
        Failure::new(format!("{}: {error}", path.display()))
    };
    if let Some(path) = &args.load.trace {
        let requests = replay::load_trace(path).map_err(|error| of(path, &error))?;
        return Ok(LoadSource::Trace {
            requests: Arc::new(requests),
            speedup: args.load.speedup,
        });
    }
    if let Some(path) = &args.dataset {
        let conversations = dataset::load(path).map_err(|error| of(path, &error))?;
        return Ok(LoadSource::Dataset {
            conversations: Arc::new(conversations),
            output: args.load.output_tokens,
        });
    }
    Ok(LoadSource::Synthetic {
        prompt: args.load.prompt_tokens,
        output: args.load.output_tokens,
        turns: args.turns,
    })
}
