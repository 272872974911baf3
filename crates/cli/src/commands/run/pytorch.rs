//! The PyTorch runtime: passes of the workload on a Python worker, the trace of torch's profiler, and what both say.

use llmprof_analysis::run::{RunAnalysis, TracedPass, analyze_run, analyze_trace};
use llmprof_capture::{
    native::precision,
    process::ProcessError,
    pytorch::{Package, options},
    runner::{Problem, protocol::Loaded},
};
use llmprof_record::{
    plan::{Place, Plan},
    store::RunDir,
};
use llmprof_theory::Workload;
use serde_json::Value;

use super::{
    device_facts,
    halt::Halt,
    job::Run,
    passes::{Passes, load, longest},
    torch_profiler::{self, Profiled},
    watch::Watch,
};
use crate::{outputs, subject::Subject};

/// Where the worker's logs are.
const FOLDER: &str = "pytorch";

/// Runs warm-up, plain and profiled passes, analyzes them and writes what people read.
pub(super) fn pytorch(run: &mut Run<'_>) -> Result<(Vec<String>, RunAnalysis), Halt> {
    let Run {
        plan,
        subject,
        feed,
        cwd,
        store,
        interrupt,
        show,
    } = run;
    let package = Package::unpack().map_err(|error| Halt::Failed(error.to_string()))?;
    let launch = package.launch(plan.runtime.python.as_deref().unwrap_or("python3"));
    let logs = store.path().join(FOLDER);
    let watch = Watch::start(plan)?;
    let mut request = load(plan, subject, cwd);
    request.options = options(plan);
    let (mut passes, loaded) = Passes::start(&launch, &logs, &request, feed, interrupt, *show)?;
    if feed.is_text() && !loaded.tokenizer {
        return Err(Halt::Failed(
            "the dataset is text, but the model has no tokenizer: name one with model.tokenizer=DIR, or use dataset=synthetic"
                .to_owned(),
        ));
    }
    tell_environment(&loaded, store)?;
    watch.follow(passes.pid());
    passes.warm_up(plan.runtime.warmup)?;
    passes.plain(plan.runtime.repeats, store)?;
    let profiled = match plan.pipeline.torch_profiler.enable {
        Some(false) => None,
        _ => Some(torch_profiler::capture(&mut passes, feed, plan, store)?),
    };
    let mut summary = device_facts::write(passes.answers(), store)?;
    let mut run = passes.finish()?;
    run.model.clone_from(&subject.name);
    if let Some(profiled) = &profiled {
        run.issues.extend(profiled.issues.iter().cloned());
    }
    let samples = watch.stop(&mut run, None, store)?;

    let (prompt, new_tokens) = longest(&run);
    let workload = Workload {
        precision: precision(&loaded.facts),
        prompt: text_tokens(prompt, plan, subject),
        new_tokens,
        ..subject.workload
    };
    let failed = |error: llmprof_analysis::run::RunAnalysisError| {
        Halt::Failed(format!("cannot analyze the run: {error}"))
    };
    let mut analysis = match &profiled {
        Some(Profiled { trace, .. }) => {
            let pass = TracedPass {
                name: &subject.name,
                subject: Some((&subject.model, &workload)),
                device: subject.device.as_ref(),
                measured: Some(&run),
            };
            analyze_trace(trace, &pass).map_err(failed)?
        }
        None => {
            analyze_run(&subject.model, &workload, subject.device.as_ref(), &run).map_err(failed)?
        }
    };
    if plan.device == Place::Cpu {
        // The host is the device here, and its operators are in the trace.
        let issues = &mut analysis.issues;
        issues.retain(|issue| issue.code != "analysis.no_device_events");
    }
    if let Some(profiled) = &profiled {
        analysis.assumptions.extend(profiled.overhead.clone());
        summary.extend(profiled.overhead.clone());
    }
    let trace = profiled.as_ref().map(|profiled| &*profiled.trace);
    let mut lines = outputs::write(plan, subject, &run, trace, &analysis, samples, store)?;
    lines.extend(summary);
    Ok((lines, analysis))
}

/// Theory counts text tokens; the worker's prompts have those of images too.
fn text_tokens(prompt: u64, plan: &Plan, subject: &Subject) -> u64 {
    if plan.workload.images.count > 0 {
        subject.workload.prompt
    } else {
        prompt
    }
}

/// Adds what the worker says of itself to `env.json`.
fn tell_environment(loaded: &Loaded, store: &RunDir) -> Result<(), Halt> {
    let file = store.path().join("env.json");
    let failed = |what: String| Halt::Failed(format!("cannot complete {}: {what}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(|error| failed(error.to_string()))?;
    let mut facts: Value =
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    if let Some(facts) = facts.as_object_mut() {
        let worker = loaded.facts.iter();
        let worker = worker.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        facts.insert("worker".to_owned(), Value::Object(worker.collect()));
    }
    let text = serde_json::to_string_pretty(&facts).map_err(|error| failed(error.to_string()))?;
    store.write("env.json", text + "\n")?;
    Ok(())
}

/// What helps where the interpreter itself is the problem.
pub(super) fn advice(problem: &Problem) -> Option<&'static str> {
    match problem {
        Problem::Start(ProcessError::NotFound { .. }) => {
            Some("runtime.python=PATH names an interpreter with torch and transformers")
        }
        _ => None,
    }
}
