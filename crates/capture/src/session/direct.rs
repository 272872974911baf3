//! Direct inference: every sample of the dataset once, nothing attached. What is done is on the disk batch by batch.

use std::collections::{HashSet, VecDeque};

use llmprof_record::{
    issue::{Issue, IssueCode},
    plan::RuntimeType,
    predictions::{PredictionLog, Skipped, measured_passes},
    run::RunRecord,
    store::{Pass, RunStatus},
};
use llmprof_units::Nanos;

use super::{
    Halt, Outcome, Session, images, native,
    passes::{Passes, Patience, Start, load_request, longest_request, tokenizer_is_there},
    predictions::{BatchPosition, of_batch, tell_skipped, write_samples},
    pytorch,
    watch::Watch,
};
use crate::{
    native::{Numbered, equal_lengths, precision_from},
    pytorch::load_options,
    runner::{
        Problem,
        protocol::{FailureKind, Generate, GenerateRequest},
    },
};

/// How the pass is called in `run.json` and on the terminal.
const NAME: &str = "direct inference";

/// Runs what is left of the dataset.
pub(super) fn run_inference(session: &mut Session<'_>, record: &mut RunRecord) -> Result<(), Halt> {
    let kind = session.plan.runtime.kind;
    let package = pytorch::unpack_package(session)?;
    let mut request = load_request(session, record);
    let (launch, folder) = if kind == RuntimeType::Native {
        (native::worker_launch()?, native::FOLDER)
    } else {
        request.options = load_options(session.plan);
        (
            pytorch::launch_worker(session, package.as_ref()),
            pytorch::log_folder(kind),
        )
    };
    let mut log = PredictionLog::open(session.store.path())?;
    if log.torn_bytes() > 0 {
        let issue = Issue::info(IssueCode::DirectInferenceTornLine).with("bytes", log.torn_bytes());
        record.add_issue(issue);
    }
    // What a process wrote before it was killed may lack its own files.
    write_samples(session, log.predictions())?;
    let watch = Watch::start(session.plan)?;
    let start = Start {
        launch: &launch,
        folder,
        request: &request,
        is_measured: true,
        patience: Patience::Usual,
    };
    let mut skipped = session.feed.skipped().to_vec();
    let ended = if remaining_samples(session, &log.done()).is_empty() {
        Ok(())
    } else {
        let (mut passes, loaded) = Passes::start(session, &start, record)
            .map_err(|error| super::worker_files::not_started(error, &launch, kind))?;
        tokenizer_is_there(passes.session, &loaded)?;
        if let Some(workload) = &mut passes.record.workload {
            workload.precision = precision_from(&loaded.facts);
        }
        if let Some(host) = &mut passes.record.host {
            host.worker.clone_from(&loaded.facts);
            host.packages.clone_from(&loaded.packages);
        }
        pytorch::write_environment(passes.record, passes.session.store)?;
        watch.follow_worker(passes.pid());
        let made = run_samples(&mut passes, &mut log, &mut skipped);
        passes.end_worker(made)
    };
    tell_skipped(session, &skipped, record)?;
    tell_cut(&log, record);
    let (passes, requests) = measured_passes(log.predictions(), record.passes.len());
    record.passes.extend(passes);
    record.requests.extend(requests);
    let (prompt, new_tokens) = longest_request(record);
    if let Some(workload) = record.workload.as_mut().filter(|_| prompt > 0) {
        if workload.images.count == 0 {
            workload.prompt = prompt;
        }
        workload.new_tokens = new_tokens;
    }
    watch.stop(record, session.store)?;
    ended
}

/// The samples that are to run, in the batches of the feed.
fn remaining_samples(session: &Session<'_>, done: &HashSet<u64>) -> Vec<Vec<Numbered>> {
    let mut index = 0;
    let mut batches = Vec::new();
    for batch in session.feed.batches() {
        let mut rest = Vec::new();
        for request in &batch.requests {
            if !done.contains(&index) {
                rest.push((index, request.clone()));
            }
            index += 1;
        }
        if !rest.is_empty() {
            batches.push(rest);
        }
    }
    batches
}

/// Runs the samples that are left. One that cannot be run is left out; what stops the worker stops the run.
fn run_samples(
    passes: &mut Passes<'_, '_>,
    log: &mut PredictionLog,
    skipped: &mut Vec<Skipped>,
) -> Result<(), Halt> {
    let plan = passes.session.plan;
    let mut batches = remaining_samples(passes.session, &log.done());
    if plan.runtime.kind == RuntimeType::Native {
        batches = equal_lengths(plan, passes.session.cwd, batches)
            .map_err(|failure| Halt::failed(failure.message))?;
    }
    let Some(template) = passes.session.feed.batches().first() else {
        return Ok(());
    };
    warm_up(passes, template, batches.first())?;
    let before = log.predictions().len() as u64;
    let total: usize = batches.iter().map(Vec::len).sum();
    let stage = passes
        .session
        .observer
        .stage_begins(NAME, before + total as u64);
    stage.step_done(before);
    let (mut time, mut tokens) = (Nanos(0), 0);
    let (segment, mut number) = (log.next_segment(), log.next_batch());
    let mut waiting: VecDeque<Vec<Numbered>> = batches.into();
    let mut done = before;
    while let Some(samples) = waiting.pop_front() {
        let batch = request_batch(template, &samples);
        let answer = passes
            .client
            .generate_batch(&batch, passes.session.interrupt, &mut |_| ());
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => match (of_sample(&error.problem), samples.as_slice()) {
                (None, _) => return Err(error.into()),
                // One of them cannot be run: which one shows when each runs alone.
                (Some(_), [_, _, ..]) => {
                    for one in samples.into_iter().rev() {
                        waiting.push_front(vec![one]);
                    }
                    continue;
                }
                (Some(why), _) => {
                    skipped.extend(samples.first().map(|(_, request)| left_out(request, why)));
                    done += 1;
                    stage.step_done(done);
                    continue;
                }
            },
        };
        images::record_images(passes.record, std::slice::from_ref(&answer));
        for issue in &answer.issues {
            passes.record.add_issue(issue.clone());
        }
        let place = BatchPosition {
            segment,
            batch: number,
            has_text: plan.pipeline.direct_inference.output.prediction.enable,
        };
        let indices: Vec<u64> = samples.iter().map(|(index, _)| *index).collect();
        let predictions = of_batch(passes.session, place, &indices, &batch, &answer);
        tokens += predictions.iter().map(|one| one.output_tokens).sum::<u64>();
        time += answer.end_ns - answer.start_ns;
        log.append(predictions.clone())?;
        if place.has_text {
            write_samples(passes.session, &predictions)?;
        }
        number += 1;
        done += samples.len() as u64;
        stage.step_done(done);
    }
    stage.stage_ends(Outcome::Generated { tokens, time });
    passes.session.store.set_pass(Pass {
        name: NAME.to_owned(),
        status: RunStatus::Complete,
        duration_ns: Some(time),
        exit_code: None,
    })?;
    Ok(())
}

/// Runs the first batch a few times, with few tokens, where warm-up is asked for.
fn warm_up(
    passes: &mut Passes<'_, '_>,
    template: &Generate,
    first: Option<&Vec<Numbered>>,
) -> Result<(), Halt> {
    const WARM_UP_TOKENS_MAX: u64 = 8;
    let count = passes.session.plan.runtime.warmup;
    let Some(samples) = first.filter(|_| count > 0) else {
        return Ok(());
    };
    let mut batch = request_batch(template, samples);
    for request in &mut batch.requests {
        request.max_new_tokens = request.max_new_tokens.min(WARM_UP_TOKENS_MAX);
    }
    for _ in 0..count {
        let asked = passes
            .client
            .warm_up(&batch, passes.session.interrupt, &mut |_| ());
        match asked {
            Ok(_) => {}
            // The sample itself tells later.
            Err(error) if of_sample(&error.problem).is_some() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn request_batch(template: &Generate, samples: &[Numbered]) -> Generate {
    Generate {
        requests: samples.iter().map(|(_, request)| request.clone()).collect(),
        ..template.clone()
    }
}

/// Why this sample cannot be run, where the worker is ready for another one.
fn of_sample(problem: &Problem) -> Option<String> {
    match problem {
        Problem::Failed(failure) => {
            let is_own = matches!(
                failure.kind,
                FailureKind::BadRequest | FailureKind::OutOfMemory
            );
            is_own.then(|| failure.message.clone())
        }
        _ => None,
    }
}

fn left_out(request: &GenerateRequest, why: String) -> Skipped {
    Skipped {
        id: request.id.clone(),
        file: request.images.iter().find_map(|image| image.path.clone()),
        why,
    }
}

fn tell_cut(log: &PredictionLog, record: &mut RunRecord) {
    let cut = log.predictions().iter().map(|one| one.cut_prompt_tokens);
    let (count, tokens) = cut
        .filter(|tokens| *tokens > 0)
        .fold((0, 0), |(count, sum), tokens| (count + 1, sum + tokens));
    if count > 0 {
        let issue = Issue::warning(IssueCode::DirectInferencePromptsCut)
            .with("tokens", tokens)
            .counting(count);
        record.add_issue(issue);
    }
}
