//! vLLM without a server: its `LLM` class in a process of its own, all requests together.

use std::{sync::Arc, time::Duration};

use llmprof_analysis::serving::summarize_load;
use llmprof_capture::process::{Interrupt, Launch};
use llmprof_load::{client::ReadyLoad, offline, prompt::Prompt};
use llmprof_record::{
    serving::{AskedLoad, ServedLoad, ServerFacts, ServerFamily, ServerWindow},
    store::RunDir,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{request::BenchRequest, serve::ServerProcess, session::MeasuredLoad};
use crate::{engine_trace, failure::Failure, outputs};

/// Drives the class; see its head for what it reads and writes.
const PROGRAM: &str = include_str!("vllm_offline.py");
/// Requests that are run again under the profiler, after what is measured.
const PROFILED: usize = 8;

/// What to run, and how.
pub(super) struct OfflineWork {
    /// The interpreter with its environment.
    pub(super) python: Launch,
    /// The model and the options of `vllm serve`.
    pub(super) arguments: Vec<String>,
    /// Whether a few requests are profiled after the measured ones.
    pub(super) profiled: bool,
}

/// `server/job.json`, which the Python program reads: the requests and how to run them.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OfflineJob {
    /// The model and the options of `vllm serve`.
    arguments: Vec<String>,
    /// Whether a sequence goes on to its last token whatever the model says.
    ignore_eos: bool,
    /// Requests that are run first and not measured.
    warmup: Vec<OfflineRequest>,
    /// The measured requests.
    requests: Vec<OfflineRequest>,
    /// Requests that are run again under the profiler, after the measured ones.
    profile_requests: Vec<OfflineRequest>,
}

/// A request to vLLM's `LLM` class.
#[derive(Serialize, JsonSchema)]
struct OfflineRequest {
    /// Its place in the load.
    index: usize,
    /// The prompt as token ids.
    prompt: Vec<u32>,
    /// Number of tokens after which it ends.
    max_tokens: u64,
}

/// Runs all requests of the load; waits for their end.
pub(super) fn measure(
    job: OfflineWork,
    request: &BenchRequest,
    store: &RunDir,
    interrupt: &mut Interrupt,
) -> Result<(MeasuredLoad, ServerProcess), Failure> {
    let load = request.load.load();
    let most = |index: u64| load.plan.requests[index as usize].max_tokens;
    let profiled = if job.profiled { PROFILED } else { 0 };
    let job_file = OfflineJob {
        arguments: job.arguments,
        ignore_eos: request.load.ignore_eos,
        warmup: requests(&request.load.warm_up(), request.load.warmup_count)?,
        requests: requests(&load, load.plan.requests.len())?,
        profile_requests: requests(&load, profiled.min(load.plan.requests.len()))?,
    };
    store.write("server/vllm_offline.py", PROGRAM)?;
    store.write("server/job.json", outputs::text(&job_file)?)?;
    let folder = std::path::absolute(store.path().join("server"))
        .map_err(|error| Failure::new(error.to_string()))?;
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let result = folder.join("result.jsonl");
    let launch = job.python.args([
        path("vllm_offline.py"),
        path("job.json"),
        path("result.jsonl"),
    ]);
    store.write("server/cmd.txt", format!("{launch}\n"))?;
    let mut server = ServerProcess::start(launch, &request.serve, store.path())?;
    let mut was_interrupted = false;
    while server.is_alive() && !was_interrupted {
        was_interrupted = interrupt.stop_count() > 0;
        std::thread::sleep(Duration::from_millis(50));
    }
    let outcome = std::fs::read_to_string(&result)
        .map_err(|error| error.to_string())
        .and_then(|text| offline::parse_offline(&text, most).map_err(|error| error.to_string()));
    let outcome = match outcome {
        Ok(outcome) if outcome.is_whole || was_interrupted => outcome,
        Ok(_) => {
            return Err(ended(
                server,
                interrupt,
                "ended before its result was whole",
            ));
        }
        Err(_) if was_interrupted => {
            let _ = server.stop(interrupt);
            return Err(Failure::new("interrupted before vLLM had a result"));
        }
        Err(why) => {
            let what = format!("left no result ({why})");
            return Err(ended(server, interrupt, &what));
        }
    };
    let asked = request.load.asked(&load.plan);
    let measured = measured(outcome, asked, &folder, was_interrupted);
    Ok((measured, server))
}

fn ended(server: ServerProcess, interrupt: &mut Interrupt, what: &str) -> Failure {
    let failure = server.died(what);
    let _ = server.stop(interrupt);
    failure
}

fn measured(
    outcome: offline::Offline,
    asked: AskedLoad,
    folder: &std::path::Path,
    was_interrupted: bool,
) -> MeasuredLoad {
    let mut traces = super::session::traces(&folder.join("profile"));
    // The profiled requests are others than the measured ones: their steps cannot be joined.
    traces.retain(|path| engine_trace::load(path, None).is_ok_and(|steps| !steps.is_empty()));
    let window = ServerWindow {
        preemptions: Some(outcome.preemptions as f64),
        ..ServerWindow::default()
    };
    MeasuredLoad {
        summary: summarize_load(&outcome.load, &asked.slos),
        served: ServedLoad {
            asked,
            load: outcome.load,
            server: Some(ServerFacts {
                family: ServerFamily::Vllm,
                window,
                gauges: Vec::new(),
            }),
            exporters: Vec::new(),
            steps: Vec::new(),
            sweep: None,
        },
        pages: Vec::new(),
        traces,
        samples: None,
        issues: Vec::new(),
        was_interrupted,
    }
}

/// The first requests of a load, with their prompts as token ids.
fn requests(load: &ReadyLoad, count: usize) -> Result<Vec<OfflineRequest>, Failure> {
    let plan = Arc::clone(&load.plan);
    (0..count)
        .map(|index| match plan.prompt(index) {
            Prompt::Tokens(prompt) => Ok(OfflineRequest {
                index,
                prompt,
                max_tokens: plan.requests[index].max_tokens,
            }),
            Prompt::Text(_) => Err(Failure::new("offline prompts are token ids, not text")),
        })
        .collect()
}
