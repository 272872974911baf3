//! What a model said, from the answers of a worker to the files of a run.

use llmprof_record::{
    issue::{Issue, IssueCode},
    predictions::{PREDICTIONS, Prediction, PredictionLog, Skipped},
    run::RunRecord,
};
use llmprof_units::Nanos;

use super::{Halt, Session, spans::phase_spans};
use crate::runner::protocol::{Finish, Generate, GenerateRequest, Generated, RequestResult};

/// Where a batch stands among all of a run.
#[derive(Clone, Copy)]
pub(super) struct BatchPosition {
    pub(super) segment: u64,
    pub(super) batch: u64,
    /// Whether text and token ids are kept.
    pub(super) has_text: bool,
}

/// Keeps what the model said in one pass over the whole feed.
pub(super) fn keep_predictions(session: &Session<'_>, answers: &[Generated]) -> Result<(), Halt> {
    let mut log = PredictionLog::open(session.store.path())?;
    let mut index = 0;
    for (number, (batch, answer)) in session.feed.batches().iter().zip(answers).enumerate() {
        let place = BatchPosition {
            segment: 0,
            batch: number as u64,
            has_text: true,
        };
        let indices: Vec<u64> = (index..index + batch.requests.len() as u64).collect();
        index += batch.requests.len() as u64;
        log.append(of_batch(session, place, &indices, batch, answer))?;
    }
    write_samples(session, log.predictions())
}

/// The predictions of one batch. `indices` are the places of its samples in the feed.
pub(super) fn of_batch(
    session: &Session<'_>,
    place: BatchPosition,
    indices: &[u64],
    batch: &Generate,
    answer: &Generated,
) -> Vec<Prediction> {
    let (files, names) = (session.feed.files(), session.feed.names());
    let results = batch.requests.iter().zip(&answer.requests);
    let results = indices.iter().zip(results);
    results
        .map(|(&index, (request, result))| {
            let mut one = prediction_of(place, index, request, result);
            one.file = files.get(index as usize).cloned().flatten();
            one.name = names.get(index as usize).cloned().unwrap_or_default();
            one.batch_size = answer.requests.len() as u64;
            one.phases = phase_spans(answer);
            one
        })
        .collect()
}

fn prediction_of(
    place: BatchPosition,
    index: u64,
    request: &GenerateRequest,
    result: &RequestResult,
) -> Prediction {
    let start = result.start_ns;
    let first = result.token_ns.first().copied().unwrap_or(start);
    let last = result.token_ns.last().copied().unwrap_or(start);
    let further = result.token_ns.len() as i64 - 1;
    let finish = match result.finish {
        Finish::Length => "length",
        Finish::Stop => "stop",
    };
    let kept = place.has_text;
    Prediction {
        index,
        id: request.id.clone(),
        name: String::new(),
        file: None,
        image: request.images.iter().find_map(|image| image.path.clone()),
        text: result.text.clone().filter(|_| kept),
        raw_text: result.raw_text.clone().filter(|_| kept),
        finish: finish.to_owned(),
        prompt_tokens: result.prompt_tokens,
        cut_prompt_tokens: result.cut_prompt_tokens,
        output_tokens: result.output_tokens.len() as u64,
        ttft_ns: first - start,
        tpot_ns: (further > 0).then(|| Nanos((last - first).0 / further)),
        duration_ns: last - start,
        segment: place.segment,
        batch: place.batch,
        batch_size: 1,
        phases: Vec::new(),
        start_ns: start,
        token_ns: result.token_ns.clone(),
        tokens: if kept {
            result.output_tokens.clone()
        } else {
            Vec::new()
        },
    }
}

/// One JSON file per sample; those that are there already stay.
pub(super) fn write_samples(session: &Session<'_>, predictions: &[Prediction]) -> Result<(), Halt> {
    for one in predictions {
        let file = format!("{PREDICTIONS}/{}.json", one.name);
        if session.store.path().join(&file).is_file() {
            continue;
        }
        let text = serde_json::to_string_pretty(one).expect("a prediction has only string keys");
        session.store.write(&file, text + "\n")?;
    }
    Ok(())
}

/// Lists the samples that were left out, and says so.
pub(super) fn tell_skipped(
    session: &Session<'_>,
    skipped: &[Skipped],
    record: &mut RunRecord,
) -> Result<(), Halt> {
    let Some(first) = skipped.first() else {
        return Ok(());
    };
    let lines = skipped.iter().map(|one| {
        serde_json::to_string(one).expect("a sample that was left out has only string keys") + "\n"
    });
    let file = format!("{PREDICTIONS}/skipped.jsonl");
    session.store.write(&file, lines.collect::<String>())?;
    let issue = Issue::error(IssueCode::DatasetSamplesSkipped)
        .with("first", first.id.clone())
        .with("why", first.why.clone())
        .counting(skipped.len() as u64);
    record.add_issue(issue);
    Ok(())
}
