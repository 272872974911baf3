//! The native runtime: passes of the workload on llmprof's own engine, and what they say.

use std::path::Path;

use llmprof_analysis::run::{OperatorEvent, OperatorIdentity, analyze_run};
use llmprof_capture::{
    native::{events, precision},
    process::Launch,
    runner::protocol::Generate,
};
use llmprof_record::store::RunDir;
use llmprof_theory::Workload;

use super::{
    halt::Halt,
    job::{Run, Told},
    passes::{Passes, limits, load, longest},
    watch::{Counted, Counting, Watch},
};
use crate::outputs;

/// Runs warm-up, plain and captured passes, analyzes them and writes what people read.
pub(super) fn native(run: &mut Run<'_>) -> Result<Told, Halt> {
    let Run {
        plan,
        subject,
        feed,
        cwd,
        store,
        interrupt,
        show,
    } = run;
    let program = std::env::current_exe()
        .map_err(|error| Halt::Failed(format!("cannot tell where llmprof is: {error}")))?;
    let launch = Launch::new(program.to_string_lossy()).arg("worker");
    let logs = store.path().join("native");
    let watch = Watch::start(plan)?;
    let request = load(plan, subject, cwd);
    let (mut passes, loaded) = Passes::start(
        &launch,
        &logs,
        limits(plan),
        &request,
        feed,
        interrupt,
        *show,
    )?;
    if feed.is_text() && !loaded.tokenizer {
        return Err(Halt::Failed(
            "the dataset is text, but the model has no tokenizer.json: name one with model.tokenizer=DIR, or use \
             dataset=synthetic"
                .to_owned(),
        ));
    }
    watch.follow(passes.pid());
    passes.warm_up(plan.runtime.warmup)?;
    let captured = passes
        .plain(plan.runtime.repeats, store)
        .and_then(|()| capture(&mut passes, &watch, &logs, store));
    let (mut run, counted, stopped) = match captured {
        Ok((operators, counted)) => {
            let mut run = passes.finish()?;
            run.operators = operators;
            (run, counted, None)
        }
        Err(halt) => {
            let (run, halt) = passes.broken_off(halt)?;
            (run, None, Some(halt))
        }
    };
    run.model.clone_from(&subject.name);
    let samples = watch.stop(&mut run, counted, store)?;

    let (prompt, new_tokens) = longest(&run);
    let workload = Workload {
        precision: precision(&loaded.facts),
        prompt,
        new_tokens,
        ..subject.workload
    };
    let mut analysis = analyze_run(subject.counted()?, &workload, subject.device.as_ref(), &run)
        .map_err(|error| Halt::Failed(format!("cannot analyze the run: {error}")))?;
    if let Some(time) = subject
        .device
        .as_ref()
        .and_then(|device| device.measured_at.as_ref())
    {
        analysis.assumptions.push(format!(
            "The limits of this processor were measured at {time}; `llmprof hardware measure` does it again."
        ));
    }
    let summary = outputs::write(plan, subject, &run, None, &analysis, samples, store)?;
    Ok(Told {
        lines: summary,
        analysis,
        stopped,
    })
}

/// Runs the pass in which the engine records its operators; what they are, and what the processor counted.
fn capture(
    passes: &mut Passes<'_>,
    watch: &Watch,
    logs: &Path,
    store: &mut RunDir,
) -> Result<(Vec<OperatorIdentity>, Option<Counted>), Halt> {
    let counters = watch.count(passes.pid());
    let file = |number: usize| logs.join(format!("operators-{number}.events"));
    let answers = passes.captured("captured", store, |number, batch| Generate {
        events: Some(file(number)),
        ..batch.clone()
    })?;
    let counted = counters.map(Counting::read);
    let mut operators = Vec::new();
    let mut calls = Vec::new();
    for events in answers.iter().filter_map(|answer| answer.events.as_ref()) {
        let (table, batch) = read_events(&events.path)?;
        operators = table;
        calls.extend(batch);
        // The timeline and `ops.csv` hold every event; the worker's file was only the way here.
        let _ = std::fs::remove_file(&events.path);
    }
    if let Some(captured) = passes.last() {
        captured.operators = calls;
    }
    Ok((operators, counted))
}

fn read_events(path: &Path) -> Result<(Vec<OperatorIdentity>, Vec<OperatorEvent>), Halt> {
    let failed =
        |error: std::io::Error| Halt::Failed(format!("cannot read {}: {error}", path.display()));
    let bytes = std::fs::read(path).map_err(failed)?;
    let (operators, calls) = events::read(&bytes).map_err(failed)?;
    let operators = operators
        .into_iter()
        .map(|operator| OperatorIdentity {
            path: operator.path,
            kind: operator.kind,
            dtype: operator.dtype,
        })
        .collect();
    let calls = calls
        .into_iter()
        .map(|call| OperatorEvent {
            operator: call.operator,
            shape: call.shape,
            touched: (call.touched > 0).then_some(call.touched),
            start_ns: i64::try_from(call.start_ns).unwrap_or(i64::MAX),
            end_ns: i64::try_from(call.end_ns).unwrap_or(i64::MAX),
        })
        .collect();
    Ok((operators, calls))
}
