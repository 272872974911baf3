//! The PyTorch runtime: passes of the workload on a Python worker, with torch's profiler and our own CUPTI library; and a
//! worker of the user's own, without torch's profiler.

use std::path::Path;

use llmprof_record::{
    plan::{Plan, RuntimeType, Word},
    run::RunRecord,
    store::RunDir,
};

use llmprof_theory::MlaDecode;

use super::{
    Halt, Session, cupti, nsight,
    passes::{Passes, Patience, Start, load_request, longest_request, tokenizer_is_there},
    torch_profiler,
    watch::Watch,
    worker_files::not_started,
};
use crate::{
    native::precision_from,
    process::Launch,
    pytorch::{Package, load_options},
    runner::protocol::Load,
};

/// Where the logs of llmprof's own worker are, and of one of the user's own.
const FOLDER: &str = "pytorch";
const OWN_FOLDER: &str = "worker";

/// Runs warm-up, plain and captured passes.
///
/// Where our library recorded CUDA, its trace is the one that explains the time, since it costs the least; torch's
/// operators stand beside it. Without it torch's trace explains both.
pub(super) fn run_pytorch(session: &mut Session<'_>, record: &mut RunRecord) -> Result<(), Halt> {
    let package = unpack_package(session)?;
    let launch = launch_worker(session, package.as_ref());
    let watch = Watch::start(session.plan)?;
    let mut request = load_request(session, record);
    request.options = load_options(session.plan);
    let mut ended = measure_passes(session, &launch, &request, &watch, record);
    if ended.is_ok() && session.plan.pipeline.cupti.applies(session.plan) {
        ended = match cupti::run_stage(session, &launch, &request, record) {
            Ok(()) => Ok(()),
            // What was measured before is reported all the same.
            Err(halt) => {
                record.issues.push(cupti::broken_off(&halt, session.store)?);
                Err(halt)
            }
        };
    }
    if ended.is_ok() && nsight::has_stages(session.plan) {
        ended = nsight::run_stages(session, &launch, &request, record);
    }
    let (prompt, new_tokens) = longest_request(record);
    if let Some(workload) = record.workload.as_mut().filter(|_| prompt > 0) {
        // Theory counts text tokens; the worker's prompts have those of images too.
        if workload.images.count == 0 {
            workload.prompt = prompt;
        }
        workload.new_tokens = new_tokens;
    }
    watch.stop(record, session.store)?;
    ended
}

/// Where llmprof's own worker is for as long as a run lasts.
const PACKAGE: &str = "pytorch/worker";

/// llmprof's own worker, unpacked into the run where the run has it.
pub(super) fn unpack_package(session: &Session<'_>) -> Result<Option<Package>, Halt> {
    if session.plan.runtime.kind != RuntimeType::Pytorch {
        return Ok(None);
    }
    let failed = |error: String| Halt::failed(error);
    let run =
        std::path::absolute(session.store.path()).map_err(|error| failed(error.to_string()))?;
    let package = Package::unpack_to(&run.join(PACKAGE));
    package.map(Some).map_err(|error| failed(error.to_string()))
}

/// The worker of a plan as a run in this directory starts it.
pub(super) fn worker_command(plan: &Plan, cwd: &Path, run: &Path) -> Launch {
    match plan.runtime.kind {
        RuntimeType::Worker => own_worker(plan, cwd),
        RuntimeType::Pytorch => {
            let python = plan.runtime.python.as_deref().unwrap_or("python3");
            naming_device(Package::launch_at(python, &run.join(PACKAGE)), plan)
        }
        _ => Launch::new("llmprof").arg("worker"),
    }
}

/// The worker of llmprof, or that of the user.
pub(super) fn launch_worker(session: &Session<'_>, package: Option<&Package>) -> Launch {
    let python = session.plan.runtime.python.as_deref();
    match package {
        Some(package) => naming_device(
            package.launch_worker(python.unwrap_or("python3")),
            session.plan,
        ),
        None => own_worker(session.plan, session.cwd),
    }
}

/// Tells the worker its device before it is asked to load a model: a GPU that is absent is refused before torch is imported.
fn naming_device(launch: Launch, plan: &Plan) -> Launch {
    launch.env("LLMPROF_WORKER_DEVICE", plan.device.to_string())
}

/// Where the logs of a worker are.
pub(super) fn log_folder(kind: RuntimeType) -> &'static str {
    if kind == RuntimeType::Worker {
        OWN_FOLDER
    } else {
        FOLDER
    }
}

/// The command line of a worker of the user's own, started where llmprof was.
fn own_worker(plan: &Plan, cwd: &Path) -> Launch {
    let mut words = plan.runtime.worker.iter().map(|Word(word)| word);
    let program = words.next().map_or("", String::as_str);
    Launch::new(program).args(words).in_directory(cwd)
}

/// All passes but the one that our library records.
fn measure_passes(
    session: &mut Session<'_>,
    launch: &Launch,
    request: &Load,
    watch: &Watch,
    record: &mut RunRecord,
) -> Result<(), Halt> {
    let kind = session.plan.runtime.kind;
    let is_own = kind == RuntimeType::Worker;
    let start = Start {
        launch,
        folder: log_folder(kind),
        request,
        is_measured: true,
        patience: Patience::Usual,
    };
    let (mut passes, loaded) =
        Passes::start(session, &start, record).map_err(|error| not_started(error, launch, kind))?;
    tokenizer_is_there(passes.session, &loaded)?;
    if let Some(workload) = &mut passes.record.workload {
        workload.precision = precision_from(&loaded.facts);
        // transformers 5 expands the latent in every step; it does not absorb the up-projections.
        if !is_own && workload.mla == MlaDecode::Absorbed {
            workload.mla = MlaDecode::Expanded;
        }
    }
    if let Some(host) = &mut passes.record.host {
        host.worker.clone_from(&loaded.facts);
        host.packages.clone_from(&loaded.packages);
    }
    write_environment(passes.record, passes.session.store)?;
    watch.follow_worker(passes.pid());
    let runtime = &passes.session.plan.runtime;
    let (warm_up, repeats) = (runtime.warmup, runtime.repeats);
    let made = passes
        .warm_up(warm_up)
        .and_then(|()| passes.run_plain(repeats))
        .and_then(
            |()| match passes.session.plan.pipeline.torch_profiler.enable {
                Some(false) => Ok(()),
                // Torch's profiler is asked of llmprof's own worker.
                _ if is_own => Ok(()),
                _ => torch_profiler::run_stage(&mut passes),
            },
        );
    passes.end_worker(made)
}

/// `env.json` with what the worker says of itself.
pub(super) fn write_environment(record: &RunRecord, store: &RunDir) -> Result<(), Halt> {
    let text = serde_json::to_string_pretty(&record.host)
        .map_err(|error| Halt::failed(format!("cannot write JSON: {error}")))?;
    store.write("env.json", text + "\n")?;
    Ok(())
}
