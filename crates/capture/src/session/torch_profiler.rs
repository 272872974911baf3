//! The stage of torch's own profiler: a batch of its own, and its trace.

use std::path::Path;

use llmprof_record::{
    import::{self, Limits, Profile as Imported, wire},
    issue::{Issue, IssueCode},
    plan::{Plan, TorchProfilerSettings},
    run::RecordedTrace,
    trace::Trace,
};
use serde_json::json;

use super::{Halt, cupti::scrub_wire_files, passes::Passes, worker_files::read_snapshot};
use crate::{
    host_stacks::HostSampler,
    pytorch::{profile_request, rank_trace_name, trace_name},
    runner::protocol::{Generate, Instruments},
};

/// Where TensorBoard finds the traces.
const FOLDER: &str = "torch_profiler";

/// Runs the stage. The first batch of a pass stands for all: a trace of one batch may have hundreds of megabytes.
pub(super) fn run_stage(passes: &mut Passes<'_, '_>) -> Result<(), Halt> {
    let plan = passes.session.plan;
    let settings = plan
        .pipeline
        .torch_profiler
        .settings(!plan.device.is_cuda());
    let batches = passes.session.feed.batches();
    let Some(batch) = batches.first() else {
        return Err(Halt::failed("the dataset has no batch"));
    };
    if batches.len() > 1 {
        passes
            .record
            .issues
            .push(Issue::info(IssueCode::TorchProfilerFirstBatch).with("batches", batches.len()));
    }
    let mut asked = instrumented_batch(batch, plan, &settings);
    for number in 0..settings.warmup {
        passes.run_rehearsal(&format!("profiler warm-up {}", number + 1), &asked)?;
    }
    let folder = passes.session.store.path().join(FOLDER);
    let command = format!("{FOLDER}/command.yaml");
    passes
        .session
        .store
        .write(&command, describe_settings(&settings))?;
    let snapshot = folder.join("memory_snapshot.pickle");
    let mut first = None;
    for number in 0..settings.repeat {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let file = folder.join(trace_name(number, passes.pid()));
        asked.events = Some(file.clone());
        let takes_snapshot = number == 0 && settings.memory_snapshot;
        asked.instruments.memory_snapshot = takes_snapshot.then(|| snapshot.clone());
        let name = match number {
            0 => "torch_profiler".to_owned(),
            _ => format!("torch_profiler {}", number + 1),
        };
        // One capture is looked at: its host stacks too.
        let sampler = (number == 0)
            .then(|| HostSampler::start(&folder, None))
            .transpose()
            .map_err(|error| Halt::failed(format!("cannot sample host threads: {error}")))?;
        if let Some(sampler) = &sampler {
            sampler.add_process(passes.pid());
        }
        let captured = passes.captured_batch(&name, &asked, number == 0);
        let host_issues = sampler.map(HostSampler::stop).unwrap_or_default();
        let (pass, answer) = captured?;
        passes.record.issues.extend(host_issues);
        if let Some(path) = answer.memory.and_then(|memory| memory.snapshot) {
            read_snapshot(&path, passes.record)?;
        }
        first.get_or_insert((file, pass));
    }
    let Some((file, pass)) = first else {
        return Err(Halt::failed("nothing was recorded"));
    };
    let mut files = vec![file.clone()];
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let others = 1..plan.hardware.ranks;
    files.extend(others.map(|rank| file.with_file_name(rank_trace_name(&name, rank))));
    let samples = wire::wire_files(&folder).unwrap_or_default();
    passes.record.issues.extend(scrub_wire_files(&samples));
    for (rank, file) in files.into_iter().enumerate() {
        let mut trace = read_trace(&file)?;
        // The process that was asked is rank 0.
        if rank == 0 {
            trace = wire::add_host_samples(trace, &samples, &Limits::default())
                .map_err(|error| Halt::failed(error.to_string()))?;
        }
        passes.record.traces.push(RecordedTrace { pass, trace });
    }
    Ok(passes.record.save(passes.session.store.path())?)
}

fn read_trace(file: &Path) -> Result<Trace, Halt> {
    let (_, imported) = import::import(file, &Limits::default())
        .map_err(|error| Halt::failed(error.to_string()))?;
    match imported {
        Imported::Trace(trace) => Ok(*trace),
        _ => Err(Halt::failed(format!("{} is not a trace", file.display()))),
    }
}

/// The batch as it is recorded: it ends with the last step that is wanted.
fn instrumented_batch(batch: &Generate, plan: &Plan, settings: &TorchProfilerSettings) -> Generate {
    let mut asked = batch.clone();
    let most = settings.active_steps.saturating_add(1);
    for request in &mut asked.requests {
        request.max_new_tokens = request.max_new_tokens.min(most);
    }
    asked.instruments = Instruments {
        module_ranges: plan.runtime.module_ranges,
        profile: Some(profile_request(settings)),
        memory_snapshot: None,
        cuda_profiler: false,
    };
    asked
}

/// What was asked of the profiler, beside its traces.
fn describe_settings(settings: &TorchProfilerSettings) -> String {
    let activities = json!(settings.activities);
    format!(
        "activities: {activities}\nshapes: {}\nmemory: {}\nstacks: {}\nflops: {}\nwarmup: {}\nactive_steps: {}\nrepeat: {}\nmemory_snapshot: {}\n",
        settings.shapes,
        settings.memory,
        settings.stacks,
        settings.flops,
        settings.warmup,
        settings.active_steps,
        settings.repeat,
        settings.memory_snapshot,
    )
}
