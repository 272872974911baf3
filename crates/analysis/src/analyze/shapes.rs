//! What the shapes in a trace say of the model and the workload, beside what the user said. The trace is believed.

use llmprof_record::issue::Issue;
use llmprof_record::run::{RunPhase, RunRecord};
use llmprof_theory::{Model, Pass, Workload};

use crate::analyze::phase_intervals::TracePhase;
use crate::analyze::subject::Subject;
use crate::phases::forward::{ForwardPass, ForwardPasses};
use crate::phases::{PhaseSource, Phases};
use crate::trace::Structure;

/// What the user said, as far as the trace does not contradict it, and where it does.
pub(super) fn believed<'s, 'm>(
    structure: &mut Structure,
    subject: Option<&'s Subject<'m>>,
    record: &RunRecord,
) -> (Option<&'s Subject<'m>>, Vec<Issue>) {
    if subject.is_some_and(|subject| subject.model.encoder.is_some()) {
        // Shapes do not separate two stacks.
        structure.shown = None;
        if structure.phases.source != PhaseSource::Annotation {
            return (None, vec![Issue::warning("run.unnamed_stacks")]);
        }
    }
    // A run that was measured says itself what it did.
    let shown = structure.shown.as_ref();
    let shown = shown.filter(|_| record.passes.is_empty());
    contradicted(shown, subject, &record.workload_keys)
}

/// What the user said, as far as the shapes do not contradict it, and where they do. `stated` are the keys that the user set.
fn contradicted<'s, 'm>(
    shown: Option<&ForwardPasses>,
    subject: Option<&'s Subject<'m>>,
    stated: &[String],
) -> (Option<&'s Subject<'m>>, Vec<Issue>) {
    let Some((shown, said)) = shown.zip(subject) else {
        return (subject, Vec::new());
    };
    match other_model(shown, said.model) {
        Some(other) => (None, vec![other]),
        None => (subject, other_workload(shown, &said.workload, stated)),
    }
}

/// Another model than the one that was named: its work is not that of the trace, and nothing may be compared with it.
fn other_model(shown: &ForwardPasses, model: &Model) -> Option<Issue> {
    let decoder = model.decoder.as_ref()?;
    let (rows, width) = shown.table;
    if decoder.embedding.width != width {
        return Some(
            Issue::warning("invariant.other_model")
                .with("trace", format!("{rows} × {width}"))
                .with(
                    "model",
                    format!(
                        "{} × {}",
                        decoder.embedding.vocabulary, decoder.embedding.width
                    ),
                ),
        );
    }
    let layers = u64::from(decoder.layer_count());
    let mut calls = shown.passes.iter().map(|pass| pass.attentions);
    let first = calls.next().filter(|&first| first > 0)?;
    (first != layers && calls.all(|calls| calls == first)).then(|| {
        Issue::warning("invariant.other_layers")
            .with("trace", first)
            .with("model", layers)
    })
}

/// Where the shapes show another batch or prompt than the user stated.
fn other_workload(shown: &ForwardPasses, workload: &Workload, stated: &[String]) -> Vec<Issue> {
    let differs = |key: &str, said: u64, found: u64| {
        let is_stated = stated.iter().any(|known| known == key);
        (is_stated && said != found).then(|| {
            Issue::warning("invariant.other_shape")
                .with("key", key)
                .with("said", said)
                .with("shown", found)
        })
    };
    let prompt = shown.passes.iter().find(|pass| !pass.is_decode());
    let batch = shown.passes.first();
    let batch = batch.and_then(|pass| differs("runtime.batch_size", workload.batch, pass.batch));
    let prompt =
        prompt.and_then(|pass| differs("workload.prompt_tokens", workload.prompt, pass.new));
    batch.into_iter().chain(prompt).collect()
}

/// Counts the intervals of named phases by the passes whose shapes the trace shows in them.
pub(super) fn count_shown(
    found: &mut [TracePhase],
    phases: &Phases,
    shown: &ForwardPasses,
    workload: &Workload,
) {
    for phase in found
        .iter_mut()
        .filter(|phase| matches!(phase.phase, RunPhase::Prefill | RunPhase::Decode))
    {
        for interval in phase.intervals.iter_mut().filter(|one| one.step.is_none()) {
            let (start, end) = phases.host_window(interval.window);
            let passes = shown.within(start, end);
            if !passes.is_empty() {
                interval.passes = passes_of(passes, workload);
            }
        }
    }
}

/// Decode steps that follow each other are one entry.
fn passes_of(shown: &[ForwardPass], workload: &Workload) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    for pass in shown {
        if !pass.is_decode() {
            let logits = workload.logits;
            passes.extend(Pass::prefill(
                pass.batch,
                pass.new,
                pass.cached,
                None,
                logits,
            ));
            continue;
        }
        match passes.last_mut() {
            Some(last)
                if last.queries == 1
                    && last.batch == pass.batch
                    && last.past.saturating_add(last.steps) == pass.cached =>
            {
                last.steps += 1;
            }
            _ => passes.push(Pass::decode(pass.batch, pass.cached, 1)),
        }
    }
    passes
}
