//! Serving runtimes of `run`: the same bench, from the config.

use std::path::Path;

use clap::Parser;
use llmprof_capture::process::{Interrupt, Launch};
use llmprof_load::arrivals::Arrivals;
use llmprof_record::{
    issue::{Issue, IssueCode},
    plan::{LoadFormat, Plan, RuntimeType, ServingPlan, Word},
    store::RunDir,
};
use llmprof_units::{
    DType,
    bounded_file::{CONFIG_MAX_BYTES, read_text_bounded},
};

use super::{
    loading::{FinishedLoad, run, run_offline},
    offline::OfflineWork,
    request::BenchRequest,
};
use crate::{args_bench::BenchArgs, failure::Failure, subject::RunSubject};

/// The arguments alone, so that a config and a command line are read by one reader.
#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    args: BenchArgs,
}

/// Loads the endpoint of a plan, or the server that it describes, into the directory of a run.
pub(crate) fn serve(
    plan: &Plan,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
) -> Result<FinishedLoad, Failure> {
    let serving = plan
        .runtime
        .serving
        .as_ref()
        .ok_or_else(|| Failure::new("runtime.serving is missing"))?;
    let mut args = arguments(plan, serving)?;
    if serving.offline {
        let request = BenchRequest::from_args(&args, "http://offline")?;
        return offline(plan, serving, request, store, interrupt);
    }
    let launch = launch(plan, serving);
    let url = match &serving.url {
        Some(url) => url.clone(),
        None => format!("http://127.0.0.1:{}", serving.port.unwrap_or(8000)),
    };
    if launch.is_some() && serving.profile {
        args.profile.profile_dir = profile_folder(plan, store);
    }
    if let Some(issue) = not_run(plan.runtime.kind) {
        store.add_issue(issue)?;
    }
    let launch = launch.map(|launch| with_profiler(plan, serving, launch, store));
    let mut request = BenchRequest::from_args(&args, &url)?;
    request.subject = subject(plan, serving);
    run(&mut request, launch, store, interrupt)
}

/// The model of the server, for roofline times of its steps: where theory counts it, and one device has all of it. The device is
/// the one that the config names, or else that of the server's trace.
fn subject(plan: &Plan, serving: &ServingPlan) -> Option<RunSubject> {
    if serving.tensor_parallel.is_some_and(|devices| devices > 1) {
        return None;
    }
    let mut subject = RunSubject::model_of(plan, None).ok()?;
    if plan.hardware.spec != "auto" {
        subject.find_device(plan).ok()?;
    }
    Some(subject)
}

/// Loads vLLM's `LLM` class instead of a server.
fn offline(
    plan: &Plan,
    serving: &ServingPlan,
    mut request: BenchRequest,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
) -> Result<FinishedLoad, Failure> {
    request.subject = subject(plan, serving);
    let model = plan.model.path.as_deref().unwrap_or(Path::new(""));
    let name = model.file_name().unwrap_or(model.as_os_str());
    let load = &mut request.load;
    load.instead = Some("vLLM's LLM class (offline)");
    load.arrivals = Arrivals::Closed {
        concurrency: load.count,
    };
    load.template.model = name.to_string_lossy().into_owned();
    let python = plan.runtime.python.as_deref().unwrap_or("python3");
    let python = with_env(Launch::new(python), serving);
    let mut arguments = vec!["--model".to_owned(), model.to_string_lossy().into_owned()];
    arguments.extend(vllm_options(plan, serving));
    let mut options = Launch::new("").args(arguments);
    if serving.profile {
        options = with_profiler(plan, serving, options, store);
    }
    let job = OfflineWork {
        python,
        arguments: options.args,
        profiled: serving.profile,
    };
    run_offline(&request, job, store, interrupt)
}

/// Where a server that llmprof starts leaves traces.
fn profile_folder(plan: &Plan, store: &RunDir) -> Option<std::path::PathBuf> {
    matches!(plan.runtime.kind, RuntimeType::Vllm | RuntimeType::Sglang)
        .then(|| std::path::absolute(store.path().join("server/profile")).ok())
        .flatten()
}

fn with_profiler(plan: &Plan, serving: &ServingPlan, launch: Launch, store: &RunDir) -> Launch {
    if !serving.profile {
        return launch;
    }
    let Some(folder) = profile_folder(plan, store) else {
        return launch;
    };
    // A server may refuse to make it; then its own message says so.
    let _ = std::fs::create_dir_all(&folder);
    match plan.runtime.kind {
        RuntimeType::Vllm => {
            // With stacks, vLLM's default, a trace of seconds takes minutes to write, and the server pauses meanwhile.
            let config = serde_json::json!({
                "profiler": "torch",
                "torch_profiler_dir": folder,
                "torch_profiler_with_stack": false,
                "detailed_trace_annotation": true,
            });
            launch.args(["--profiler-config".to_owned(), config.to_string()])
        }
        RuntimeType::Sglang => launch.env("SGLANG_TORCH_PROFILER_DIR", folder.to_string_lossy()),
        _ => launch,
    }
}

/// Runtimes that were never run against the real server say so in every report.
fn not_run(kind: RuntimeType) -> Option<Issue> {
    let name = match kind {
        RuntimeType::Sglang => "SGLang",
        RuntimeType::Tensorrtllm => "TensorRT-LLM",
        _ => return None,
    };
    Some(Issue::info(IssueCode::BenchNotRunOnTheRealThing).with("server", name))
}

/// What a run of this plan starts: the server, or the interpreter that runs vLLM's `LLM` class; `None` where a server is up.
pub(crate) fn server_command(plan: &Plan) -> Option<Launch> {
    let serving = plan.runtime.serving.as_ref()?;
    if serving.offline {
        let python = plan.runtime.python.as_deref().unwrap_or("python3");
        let model = plan.model.path.as_ref()?.to_string_lossy().into_owned();
        let launch = Launch::new(python)
            .args(["server/vllm_offline.py", "--model", &model])
            .args(vllm_options(plan, serving));
        return Some(with_env(launch, serving));
    }
    launch(plan, serving)
}

/// The command line of the server; `None` where one is up.
fn launch(plan: &Plan, serving: &ServingPlan) -> Option<Launch> {
    let program = words(&serving.program);
    let (program, leading) = program.split_first()?;
    let model = plan.model.path.as_ref()?.to_string_lossy().into_owned();
    let port = serving.port.unwrap_or(8000).to_string();
    let parallel = serving.tensor_parallel.unwrap_or(1).to_string();
    let dtype = plan.model.dtype.map(dtype);
    let length = plan.model.max_seq_len.map(|length| length.to_string());
    let is_dummy = plan.model.load_format == Some(LoadFormat::Dummy);
    let mut args: Vec<String> = leading.to_vec();
    let mut add = |name: &str, value: &str| args.extend([name.to_owned(), value.to_owned()]);
    match plan.runtime.kind {
        RuntimeType::Vllm => {
            args.extend([model, "--port".to_owned(), port]);
            args.extend(vllm_options(plan, serving));
            return Some(with_env(Launch::new(program.clone()).args(args), serving));
        }
        RuntimeType::Sglang => {
            add("--model-path", &model);
            add("--port", &port);
            add("--tp", &parallel);
            if is_dummy {
                add("--load-format", "dummy");
            }
            if let Some(dtype) = dtype {
                add("--dtype", dtype);
            }
            if let Some(length) = &length {
                add("--context-length", length);
            }
            args.push("--enable-metrics".to_owned());
        }
        RuntimeType::Tensorrtllm => {
            args.push(model);
            let mut add =
                |name: &str, value: &str| args.extend([name.to_owned(), value.to_owned()]);
            add("--port", &port);
            add("--tp_size", &parallel);
            if let Some(length) = &length {
                add("--max_seq_len", length);
            }
        }
        _ => return None,
    }
    args.extend(words(&serving.extra_args));
    Some(with_env(Launch::new(program.clone()).args(args), serving))
}

fn words(words: &[Word]) -> Vec<String> {
    words.iter().map(|Word(word)| word.clone()).collect()
}

fn with_env(mut launch: Launch, serving: &ServingPlan) -> Launch {
    for (name, Word(value)) in &serving.env {
        launch = launch.env(name, value);
    }
    launch
}

/// Options that `vllm serve` and the `LLM` class have in common.
fn vllm_options(plan: &Plan, serving: &ServingPlan) -> Vec<String> {
    let mut args = Vec::new();
    let mut add = |name: &str, value: &str| args.extend([name.to_owned(), value.to_owned()]);
    let parallel = serving.tensor_parallel.unwrap_or(1).to_string();
    add("--tensor-parallel-size", &parallel);
    if plan.model.load_format == Some(LoadFormat::Dummy) {
        add("--load-format", "dummy");
    }
    if let Some(dtype) = plan.model.dtype.map(dtype) {
        add("--dtype", dtype);
    }
    if let Some(length) = plan.model.max_seq_len {
        add("--max-model-len", &length.to_string());
    }
    args.extend(words(&serving.extra_args));
    args
}

/// As vLLM and SGLang call them.
fn dtype(dtype: DType) -> &'static str {
    match dtype {
        DType::Bf16 => "bfloat16",
        DType::F16 => "float16",
        DType::F32 => "float32",
        _ => "auto",
    }
}

fn arguments(plan: &Plan, serving: &ServingPlan) -> Result<BenchArgs, Failure> {
    let mut words = vec!["bench".to_owned()];
    let mut add = |name: &str, value: String| words.push(format!("--{name}={value}"));
    add("requests", serving.requests.to_string());
    match serving.rate {
        Some(rate) => add("rate", rate.to_string()),
        None if serving.sweep.is_none() => {
            add(
                "concurrency",
                serving
                    .concurrency
                    .unwrap_or(plan.runtime.batch_size)
                    .to_string(),
            );
        }
        None => {}
    }
    if let Some(burstiness) = serving.burstiness {
        add("burstiness", burstiness.to_string());
    }
    add("prompt-tokens", plan.workload.prompt_tokens.to_string());
    add("output-tokens", plan.workload.new_tokens.to_string());
    add("shared-prefix", serving.shared_prefix.to_string());
    add("seed", plan.dataset.sampling.seed.unwrap_or(0).to_string());
    add("warmup", plan.runtime.warmup.to_string());
    if let Some(limit) = plan.runtime.timeout_s {
        add("timeout", format!("{limit}s"));
    }
    if let Some(limit) = serving.ready_timeout_s {
        add("ready-timeout", format!("{limit}s"));
    }
    if let Some(model) = &serving.served_model {
        add("model", model.clone());
    }
    if let Some(variable) = &serving.api_key_env {
        add("api-key-env", variable.clone());
    }
    if let Some(tokenizer) = &plan.model.tokenizer {
        add("tokenizer", tokenizer.to_string_lossy().into_owned());
    }
    for slo in &serving.slo {
        add("slo", slo.clone());
    }
    if let Some(sweep) = &serving.sweep {
        add("sweep", sweep.clone());
    }
    if let Some(vocabulary) = vocabulary(plan) {
        add("vocabulary", vocabulary.to_string());
    }
    if let Some(share) = plan
        .pipeline
        .cupti
        .overhead
        .filter(|_| serving.url.is_none())
    {
        add("overhead", share.to_string());
    }
    if serving.chat {
        words.push("--chat".to_owned());
    }
    if !plan.infer.ignore_eos {
        words.push("--stop-at-eos".to_owned());
    }
    if serving.profile {
        words.push("--profile".to_owned());
    }
    // What the request is for stands in the plan; the reader wants one of both.
    words.push(match &serving.url {
        Some(url) => url.clone(),
        None => "--serve=configured".to_owned(),
    });
    let read = Alone::try_parse_from(words).map_err(|error| {
        Failure::new(format!(
            "runtime.serving: {}",
            first_line(&error.to_string())
        ))
    })?;
    Ok(read.args)
}

/// Words of the model's vocabulary: of the plan, or of `config.json` in its directory, where a model with several parts has it
/// below `text_config`.
fn vocabulary(plan: &Plan) -> Option<u64> {
    let size = |design: &serde_json::Value| {
        let nested = design
            .get("text_config")
            .and_then(|text| text.get("vocab_size"));
        design.get("vocab_size").or(nested)?.as_u64()
    };
    let of_plan = plan.model.design.get("vocab_size");
    of_plan.and_then(serde_json::Value::as_u64).or_else(|| {
        let path = plan.model.path.as_deref()?.join("config.json");
        let text = read_text_bounded(&path, CONFIG_MAX_BYTES).ok()?;
        size(&llmprof_theory::parse_config(&text).ok()?)
    })
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
