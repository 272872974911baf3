//! Whether an answer can be true. A worker may be anybody's program, and its numbers end up in a report.

use llmprof_units::{Count, Nanos};

use super::protocol::{Finish, Generate, Generated, Loaded, RequestResult};

/// What is wrong with the answer to a load, if anything.
pub(super) fn check_loaded(answer: &Loaded) -> Result<(), String> {
    if answer.end_ns < answer.start_ns {
        return Err("loading ended before it began".to_owned());
    }
    if answer.vocab_size == 0 {
        return Err("the model knows no token".to_owned());
    }
    Ok(())
}

/// What is wrong with the answer to a batch, if anything.
pub(super) fn check_generated(asked: &Generate, answer: &Generated) -> Result<(), String> {
    if answer.end_ns < answer.start_ns {
        return Err("the batch ended before it began".to_owned());
    }
    if answer.requests.len() != asked.requests.len() {
        return Err(format!(
            "of {} {} came back",
            Count(asked.requests.len() as u64, "request"),
            answer.requests.len()
        ));
    }
    for (request, result) in asked.requests.iter().zip(&answer.requests) {
        if request.id != result.id {
            return Err(format!(
                "request `{}` came back as `{}`",
                request.id, result.id
            ));
        }
        self::check_result(asked, request.max_new_tokens, answer, result)
            .map_err(|what| format!("request `{}`: {what}", request.id))?;
    }
    check_phases(answer)?;
    device_times(answer)?;
    check_snapshot(asked, answer)?;
    match (&asked.events, &answer.events) {
        (None, Some(_)) => Err("it recorded events that nobody asked for".to_owned()),
        (Some(_), None) => Err("it recorded no events".to_owned()),
        (Some(path), Some(file)) if *path != file.path => Err(format!(
            "its events are in {}, not in {}",
            file.path.display(),
            path.display()
        )),
        (Some(path), Some(_)) if !path.is_file() => Err(format!(
            "its events should be in {}, which does not exist",
            path.display()
        )),
        _ => Ok(()),
    }
}

fn check_result(
    asked: &Generate,
    max_new_tokens: u64,
    batch: &Generated,
    result: &RequestResult,
) -> Result<(), String> {
    let tokens = result.output_tokens.len() as u64;
    if result.token_ns.len() as u64 != tokens {
        return Err(format!(
            "{} with {}",
            Count(tokens, "token"),
            Count(result.token_ns.len() as u64, "time")
        ));
    }
    if tokens > max_new_tokens {
        let tokens = Count(tokens, "token");
        return Err(format!("{tokens} where {max_new_tokens} were allowed"));
    }
    let whole = result.finish == Finish::Length || asked.ignore_eos;
    if whole && tokens < max_new_tokens {
        let tokens = Count(tokens, "token");
        return Err(format!("{tokens} where {max_new_tokens} were due"));
    }
    let mut before = batch.start_ns;
    let times = std::iter::once(result.start_ns).chain(result.token_ns.iter().copied());
    for time in times.chain([batch.end_ns]) {
        if time < before {
            return Err(format!("its times run backwards at {} ns", time.0));
        }
        before = time;
    }
    Ok(())
}

fn device_times(batch: &Generated) -> Result<(), String> {
    if batch.device_token_ns.is_empty() {
        return Ok(());
    }
    let tokens = batch.requests.iter().map(|one| one.output_tokens.len());
    let steps = tokens.max().unwrap_or(0);
    if batch.device_token_ns.len() != steps {
        return Err(format!(
            "{} with {} on the device",
            Count(steps as u64, "token"),
            Count(batch.device_token_ns.len() as u64, "time")
        ));
    }
    if batch.device_token_ns[0].0 < 0 || !batch.device_token_ns.is_sorted() {
        return Err("its times on the device run backwards".to_owned());
    }
    Ok(())
}

/// A snapshot may be left out, with an issue; it may not be another one.
fn check_snapshot(asked: &Generate, answer: &Generated) -> Result<(), String> {
    let made = answer
        .memory
        .as_ref()
        .and_then(|memory| memory.snapshot.as_ref());
    match (made, &asked.instruments.memory_snapshot) {
        (None, _) => Ok(()),
        (Some(made), Some(path)) if made == path && path.is_file() => Ok(()),
        (Some(made), _) => Err(format!(
            "its memory snapshot is said to be in {}, where none was asked for or none is",
            made.display()
        )),
    }
}

fn check_phases(batch: &Generated) -> Result<(), String> {
    let mut before: Nanos = batch.start_ns;
    for span in &batch.phases {
        if span.phase.is_empty() {
            return Err("a phase has no name".to_owned());
        }
        if span.start_ns < before || span.end_ns < span.start_ns || span.end_ns > batch.end_ns {
            return Err(format!(
                "phase `{}` ({} to {} ns) overlaps another or lies outside the batch",
                span.phase, span.start_ns.0, span.end_ns.0
            ));
        }
        before = span.end_ns;
    }
    Ok(())
}
