//! The PyTorch runtime: passes of the workload on a Python worker, the trace of torch's profiler, and what both say.

use llmprof_analysis::run::{
    MeasuredRun, PassKind, TracedPass, analyze_run, analyze_times, analyze_trace,
};
use llmprof_capture::{
    native::precision,
    process::{Launch, ProcessError},
    pytorch::{Package, options},
    runner::{
        Problem, Step, WorkerError,
        protocol::{Generated, Load, Loaded},
    },
};
use llmprof_record::{
    plan::{Place, Plan, RuntimeType, Word},
    store::RunDir,
};
use llmprof_theory::Workload;
use serde_json::Value;

use super::{
    cupti, device_facts,
    halt::Halt,
    job::{Run, Told},
    passes::{Passes, limits, load, longest},
    torch_profiler::{self, Profiled},
    watch::Watch,
};
use crate::{
    outputs::{self, recorded::name_uncounted},
    subject::Subject,
};

/// Where the logs of llmprof's own worker are, and of one of the user's own.
const FOLDER: &str = "pytorch";
const OWN_FOLDER: &str = "worker";

/// Runs warm-up, plain and captured passes, analyzes them and writes what people read.
///
/// Where our library recorded CUDA, its trace is the one that time is explained from, since it costs the least; torch's
/// operators stand beside it. Without it torch's trace explains both.
pub(super) fn pytorch(run: &mut Run<'_>) -> Result<Told, Halt> {
    let package = Package::unpack().map_err(|error| Halt::Failed(error.to_string()))?;
    let launch = match run.plan.runtime.kind {
        RuntimeType::Worker => own_worker(run.plan, run.cwd),
        _ => package.launch(run.plan.runtime.python.as_deref().unwrap_or("python3")),
    };
    let watch = Watch::start(run.plan)?;
    let mut request = load(run.plan, run.subject, run.cwd);
    request.options = options(run.plan);
    let FirstWorker {
        mut measured,
        loaded,
        profiled,
        mut answers,
        mut stopped,
    } = measure(run, &launch, &request, &watch)?;
    let mut recorded = None;
    if stopped.is_none() && run.plan.pipeline.cupti.applies(run.plan) {
        match cupti::capture(run, &launch, &request) {
            Ok(Ok(stage)) => {
                answers.push((PassKind::Captured, vec![stage.answer.clone()]));
                recorded = Some(stage);
            }
            Ok(Err(issues)) => measured.issues.extend(issues),
            // What was measured before is told all the same.
            Err(halt) => {
                measured.issues.push(cupti::broken_off(&halt, run.store)?);
                stopped = Some(halt);
            }
        }
    }
    let Run {
        plan,
        subject,
        store,
        ..
    } = run;
    let facts = device_facts::write(&answers, store)?;
    let mut curves = watch.stop(&mut measured, None, store)?;
    curves.extend(facts.curves);
    let mut summary = facts.lines;
    let torch = profiled.as_ref().map(|profiled| &*profiled.trace);
    let mut overhead = None;
    if let Some(stage) = &mut recorded {
        if let Some(torch) = torch {
            let device = subject.device.as_ref();
            let framework = outputs::write_framework(torch, device, &measured, store)?;
            overhead = torch_profiler::overhead(&framework, store)?;
        }
        measured
            .passes
            .retain(|pass| pass.kind != PassKind::Captured);
        measured.passes.push(std::mem::take(&mut stage.pass));
        measured.issues.append(&mut stage.issues);
    }
    let trace = recorded.as_ref().map(|stage| &stage.trace).or(torch);

    let (prompt, new_tokens) = longest(&measured);
    let workload = Workload {
        precision: precision(&loaded.facts),
        prompt: text_tokens(prompt, plan, subject),
        new_tokens,
        ..subject.workload
    };
    let failed = |error: llmprof_analysis::run::RunAnalysisError| {
        Halt::Failed(format!("cannot analyze the run: {error}"))
    };
    let mut analysis = match (trace, &subject.model) {
        (Some(trace), _) => {
            let pass = TracedPass {
                name: &subject.name,
                subject: subject.model.as_ref().map(|model| (model, &workload)),
                device: subject.device.as_ref(),
                measured: Some(&measured),
            };
            analyze_trace(trace, &pass).map_err(failed)?
        }
        (None, Some(model)) => {
            analyze_run(model, &workload, subject.device.as_ref(), &measured).map_err(failed)?
        }
        (None, None) => analyze_times(&measured),
    };
    if subject.model.is_none() {
        // It was asked for all the same.
        analysis.workload = Some(workload);
        name_uncounted(&subject.design, &mut analysis.issues);
    }
    if plan.device == Place::Cpu {
        // The host is the device here, and its operators are in the trace.
        let issues = &mut analysis.issues;
        issues.retain(|issue| issue.code != "analysis.no_device_events");
    }
    analysis.assumptions.extend(how_it_ran(&loaded));
    if recorded.is_none() && torch.is_some() {
        overhead = torch_profiler::overhead(&analysis, store)?;
    }
    analysis.assumptions.extend(overhead.clone());
    summary.extend(overhead);
    let mut lines = outputs::write(plan, subject, &measured, trace, &analysis, curves, store)?;
    lines.extend(summary);
    Ok(Told {
        lines,
        analysis,
        stopped,
    })
}

/// The command line of a worker of the user's own, started where llmprof was.
fn own_worker(plan: &Plan, cwd: &std::path::Path) -> Launch {
    let mut words = plan.runtime.worker.iter().map(|Word(word)| word);
    let program = words.next().map_or("", String::as_str);
    Launch::new(program).args(words).in_directory(cwd)
}

/// What the first worker gave: all passes but the one that our library records.
struct FirstWorker {
    measured: MeasuredRun,
    loaded: Loaded,
    profiled: Option<Profiled>,
    answers: Vec<(PassKind, Vec<Generated>)>,
    stopped: Option<Halt>,
}

fn measure(
    run: &mut Run<'_>,
    launch: &Launch,
    request: &Load,
    watch: &Watch,
) -> Result<FirstWorker, Halt> {
    let Run {
        plan,
        subject,
        feed,
        store,
        interrupt,
        show,
        ..
    } = run;
    let is_own = plan.runtime.kind == RuntimeType::Worker;
    let logs = store.path().join(if is_own { OWN_FOLDER } else { FOLDER });
    let (mut passes, loaded) =
        Passes::start(launch, &logs, limits(plan), request, feed, interrupt, *show).map_err(
            |error| {
                if is_own {
                    Halt::from(error)
                } else {
                    not_started(error, launch)
                }
            },
        )?;
    if feed.is_text() && !loaded.tokenizer {
        return Err(Halt::Failed(
            "the dataset is text, but the model has no tokenizer: name one with model.tokenizer=DIR, or use dataset=synthetic"
                .to_owned(),
        ));
    }
    tell_environment(&loaded, store)?;
    watch.follow(passes.pid());
    passes.warm_up(plan.runtime.warmup)?;
    let made = passes.plain(plan.runtime.repeats, store).and_then(|()| {
        match plan.pipeline.torch_profiler.enable {
            // Torch's profiler is asked of llmprof's own worker.
            Some(false) => Ok(None),
            _ if is_own => Ok(None),
            _ => torch_profiler::capture(&mut passes, feed, plan, store).map(Some),
        }
    });
    let answers = passes.answers().to_vec();
    let (mut measured, profiled, stopped) = match made {
        Ok(profiled) => (passes.finish()?, profiled, None),
        Err(halt) => {
            let (measured, halt) = passes.broken_off(halt)?;
            (measured, None, Some(halt))
        }
    };
    measured.model.clone_from(&subject.name);
    if let Some(profiled) = &profiled {
        measured.issues.extend(profiled.issues.iter().cloned());
    }
    Ok(FirstWorker {
        measured,
        loaded,
        profiled,
        answers,
        stopped,
    })
}

/// Theory counts text tokens; the worker's prompts have those of images too.
fn text_tokens(prompt: u64, plan: &Plan, subject: &Subject) -> u64 {
    if plan.workload.images.count > 0 {
        subject.workload.prompt
    } else {
        prompt
    }
}

/// How the worker ran the model, which is where runs of one model differ; in the words of the configuration.
fn how_it_ran(loaded: &Loaded) -> Option<String> {
    let fact = |name: &str| loaded.facts.get(name);
    let class = fact("model_class")?;
    let versions = ["torch", "transformers"]
        .into_iter()
        .filter_map(|name| Some(format!("{name} {}", fact(name)?)));
    let options = ["attn_implementation", "compile", "cuda_graph", "kv_cache"]
        .into_iter()
        .filter_map(|name| Some(format!("{name} {}", fact(name)?)));
    Some(format!(
        "{class} ran on {}: {}.",
        versions.collect::<Vec<_>>().join(" and "),
        options.collect::<Vec<_>>().join(", ")
    ))
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

/// Why a worker did not come as far as its hello. Whatever it was, the interpreter that was named is the first suspect.
pub(super) fn not_started(error: WorkerError, launch: &Launch) -> Halt {
    let by_interpreter = match &error.problem {
        Problem::Start(ProcessError::NotFound { .. } | ProcessError::Spawn { .. }) => true,
        Problem::Died { .. } | Problem::Closed | Problem::TimedOut { .. } => {
            matches!(error.step, Step::Connect | Step::Hello)
        }
        _ => false,
    };
    if !by_interpreter {
        return error.into();
    }
    let advice = format!(
        "`{}` was to be a Python interpreter; runtime.python=PATH names one of Python 3 with torch and transformers",
        launch.program
    );
    Halt::of_worker(&error, Some(&advice))
}
