//! The stage of torch's own profiler: a batch of its own, its trace, and what recording it cost.

use std::collections::BTreeMap;

use llmprof_analysis::run::{CaptureCost, RunAnalysis};
use llmprof_capture::{
    pytorch::{profile, trace_name},
    runner::protocol::{Generate, Instruments},
};
use llmprof_record::{
    import::{self, Limits, Profile as Imported},
    issue::{Issue, Severity},
    plan::{Place, Plan, TorchProfilerSettings},
    store::RunDir,
    trace::Trace,
};
use serde_json::json;

use super::{feed::Feed, halt::Halt, passes::Passes};
use crate::commands::profile::TRACE_FILE;

/// Where TensorBoard finds the traces.
const FOLDER: &str = "torch_profiler";

/// What the stage gave.
pub(super) struct Profiled {
    /// The trace of the first recorded batch.
    pub(super) trace: Box<Trace>,
    /// What was lost.
    pub(super) issues: Vec<Issue>,
}

/// Runs the stage. The first batch of a pass stands for all: a trace of one batch may have hundreds of megabytes.
pub(super) fn capture(
    passes: &mut Passes<'_>,
    feed: &Feed,
    plan: &Plan,
    store: &mut RunDir,
) -> Result<Profiled, Halt> {
    let settings = plan
        .pipeline
        .torch_profiler
        .settings(plan.device == Place::Cpu);
    let Some(batch) = feed.batches().first() else {
        return Err(Halt::Failed("the dataset has no batch".to_owned()));
    };
    let mut issues = Vec::new();
    if feed.batches().len() > 1 {
        issues.push(Issue::new(
            Severity::Info,
            "torch_profiler.first_batch",
            format!(
                "torch's profiler recorded the first of {} batches",
                feed.batches().len()
            ),
        ));
    }
    let mut asked = instrumented(batch, plan, &settings);
    for number in 0..settings.warmup {
        passes.rehearse(&format!("profiler warm-up {}", number + 1), &asked)?;
    }
    let folder = store.path().join(FOLDER);
    store.write(&format!("{FOLDER}/command.yaml"), described(&settings))?;
    let mut first = None;
    for number in 0..settings.repeat {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let file = folder.join(trace_name(number, passes.pid()));
        asked.events = Some(file.clone());
        if number == 0 && settings.memory_snapshot {
            asked.instruments.memory_snapshot = Some(folder.join("memory_snapshot.pickle"));
        }
        let name = match number {
            0 => "torch_profiler".to_owned(),
            _ => format!("torch_profiler {}", number + 1),
        };
        passes.captured_batch(&name, store, &asked, number == 0)?;
        asked.instruments.memory_snapshot = None;
        first.get_or_insert(file);
    }
    let Some(file) = first else {
        return Err(Halt::Failed("nothing was recorded".to_owned()));
    };
    let (_, imported) = import::import(&file, &Limits::default())
        .map_err(|error| Halt::Failed(error.to_string()))?;
    let Imported::Trace(trace) = imported else {
        return Err(Halt::Failed(format!("{} is no trace", file.display())));
    };
    trace
        .save(&store.path().join(TRACE_FILE))
        .map_err(|error| Halt::Failed(error.to_string()))?;
    Ok(Profiled { trace, issues })
}

/// The batch as it is recorded: it ends with the last step that is wanted.
fn instrumented(batch: &Generate, plan: &Plan, settings: &TorchProfilerSettings) -> Generate {
    let mut asked = batch.clone();
    let most = settings.active_steps.saturating_add(1);
    for request in &mut asked.requests {
        request.max_new_tokens = request.max_new_tokens.min(most);
    }
    asked.instruments = Instruments {
        module_ranges: plan.runtime.module_ranges,
        profile: Some(profile(settings)),
        memory_snapshot: None,
    };
    asked
}

/// What was asked of the profiler, beside its traces.
fn described(settings: &TorchProfilerSettings) -> String {
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

/// What recording cost, by the analysis of what was recorded: `overhead.json`, and a sentence.
pub(super) fn overhead(recorded: &RunAnalysis, store: &RunDir) -> Result<Option<String>, Halt> {
    let costs = CaptureCost::of(recorded);
    if costs.is_empty() {
        return Ok(None);
    }
    let rows = costs.iter().map(|cost| (cost.phase.as_str(), cost));
    let text = serde_json::to_string_pretty(&rows.collect::<BTreeMap<_, _>>())
        .map_err(|error| Halt::Failed(format!("cannot write JSON: {error}")))?;
    store.write(&format!("{FOLDER}/overhead.json"), text + "\n")?;
    let parts: Vec<String> = costs.iter().map(CaptureCost::words).collect();
    Ok(Some(format!(
        "Under torch's profiler {} as long as without it (recorded batch ÷ {}, same work).",
        parts.join(" and "),
        match recorded.latency.repeats {
            1 => "the plain pass".to_owned(),
            passes => format!("mean of {passes} plain passes"),
        }
    )))
}
