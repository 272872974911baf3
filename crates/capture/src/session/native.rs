//! The native runtime: passes of the workload on llmprof's own engine.

use std::path::PathBuf;

use llmprof_record::{
    import::{Limits, engine},
    run::{RecordedTrace, RunRecord},
};

use super::{
    Halt, Session,
    passes::{Passes, Patience, Start, load_request, longest_request, tokenizer_is_there},
    watch::{Counting, Watch},
};
use crate::{native::precision_from, process::Launch, runner::protocol::Generate};

/// Where the worker's logs are.
pub(super) const FOLDER: &str = "native";

/// The worker is this program itself, with its `worker` command.
pub(super) fn worker_launch() -> Result<Launch, Halt> {
    let program = std::env::current_exe()
        .map_err(|error| Halt::failed(format!("cannot find the llmprof executable: {error}")))?;
    Ok(Launch::new(program.to_string_lossy()).arg("worker"))
}

/// Runs warm-up, plain and captured passes.
pub(super) fn run_engine(session: &mut Session<'_>, record: &mut RunRecord) -> Result<(), Halt> {
    let launch = worker_launch()?;
    let watch = Watch::start(session.plan)?;
    let request = load_request(session, record);
    let start = Start {
        launch: &launch,
        folder: FOLDER,
        request: &request,
        is_measured: true,
        patience: Patience::Usual,
    };
    let (mut passes, loaded) = Passes::start(session, &start, record)?;
    tokenizer_is_there(passes.session, &loaded)?;
    if let Some(workload) = &mut passes.record.workload {
        workload.precision = precision_from(&loaded.facts);
    }
    watch.follow_worker(passes.pid());
    let (warm_up, repeats) = (
        passes.session.plan.runtime.warmup,
        passes.session.plan.runtime.repeats,
    );
    let made = passes
        .warm_up(warm_up)
        .and_then(|()| passes.run_plain(repeats))
        .and_then(|()| run_captured(&mut passes, &watch));
    let ended = passes.end_worker(made);
    let (prompt, new_tokens) = longest_request(record);
    if let Some(workload) = record.workload.as_mut().filter(|_| prompt > 0) {
        (workload.prompt, workload.new_tokens) = (prompt, new_tokens);
    }
    watch.stop(record, session.store)?;
    ended
}

/// Runs the pass in which the engine records its operators.
fn run_captured(passes: &mut Passes<'_, '_>, watch: &Watch) -> Result<(), Halt> {
    let counters = watch.count_worker(passes.pid());
    let logs = passes.session.store.path().join(FOLDER);
    let file = |number: usize| logs.join(format!("operators-{number}.events"));
    let (pass, answers) = passes.run_captured("profiled", |number, batch| Generate {
        events: Some(file(number)),
        ..batch.clone()
    })?;
    let (counted, issue) = counters.map(Counting::read_counters).unwrap_or_default();
    passes.record.passes[pass].processor_counters = counted;
    passes.record.issues.extend(issue);
    let files: Vec<PathBuf> = answers
        .iter()
        .filter_map(|answer| Some(answer.events.as_ref()?.path.clone()))
        .collect();
    let trace = engine::read_files(&files, &Limits::default())
        .map_err(|error| Halt::failed(error.to_string()))?;
    passes.record.traces.push(RecordedTrace {
        pass: Some(pass),
        trace,
    });
    passes.record.save(passes.session.store.path())?;
    for file in files {
        // The trace has every call; the worker's file was only the way here.
        let _ = std::fs::remove_file(file);
    }
    Ok(())
}
