//! The requests of a run, as rows that lead to the timeline.

use llmprof_record::run::{PassKind, RunRecord};
use llmprof_record::serving::RequestRecord;
use serde_json::{Value, json};

use crate::lanes::table;
use crate::opened_run::OpenedRun;
use crate::track::EventRef;

/// Requests of one page; of more, those that took longest.
const REQUESTS_MAX: usize = 20_000;

const NO_REQUESTS: &str = "This run has no requests: llmprof bench loads a server, and llmprof run measures requests of its own.";

pub(super) fn requests_json(run: &OpenedRun) -> Value {
    let timeline = &run.timeline;
    let event = |row: usize| EventRef::new(table::REQUESTS, row).0;
    let (mut rows, steps) = if let Some(load) = &run.record.load {
        let started = load.load.started_unix_ns;
        let began = load
            .load
            .requests
            .iter()
            .map(|request| request.scheduled_ns.0);
        let began = began.min().unwrap_or(0);
        let row = |(number, request): (usize, &RequestRecord)| {
            json!({
                "event": event(number), "id": request.index.to_string(),
                "start_ns": timeline.unix_to_timeline(started + request.scheduled_ns),
                "after_first_ns": request.scheduled_ns.0 - began,
                "duration_ns": request.end_ns.0 - request.scheduled_ns.0,
                "client_ns": request.client_wait_ns(), "ttft_ns": request.ttft_ns(), "tpot_ns": request.tpot_ns(),
                "prompt_tokens": request.prompt_tokens, "output_tokens": request.output_tokens,
                "failure": request.failure.as_ref().map(|failure| failure.kind.name()),
                "was_profiled": request.was_profiled,
            })
        };
        let requests = load.load.requests.iter().enumerate().map(row);
        (requests.collect::<Vec<_>>(), load.steps.len())
    } else {
        let shift = timeline.clocks.run_ns.map(|shift| shift - timeline.origin);
        let began = run.record.requests.iter().map(|request| request.start_ns.0);
        let began = began.min().unwrap_or(0);
        let requests = run.record.requests.iter().enumerate().map(|(number, request)| {
            let last = request.token_ns.last().copied().unwrap_or(request.start_ns);
            let first = request.token_ns.first();
            let further = request.output_tokens.saturating_sub(1);
            json!({
                "event": event(number), "id": request.id, "pass": pass_text(&run.record, request.pass),
                "start_ns": shift.map(|shift| request.start_ns.0 + shift),
                "after_first_ns": request.start_ns.0 - began,
                "duration_ns": last.0 - request.start_ns.0,
                "ttft_ns": first.map(|first| first.0 - request.start_ns.0),
                "tpot_ns": first.filter(|_| further > 0).map(|first| (last.0 - first.0) as f64 / further as f64),
                "prompt_tokens": request.prompt_tokens, "output_tokens": request.output_tokens,
            })
        });
        (requests.collect(), 0)
    };
    if rows.is_empty() {
        return json!({"why": NO_REQUESTS});
    }
    let count = rows.len();
    if count > REQUESTS_MAX {
        rows.sort_by_key(|row| std::cmp::Reverse(row["duration_ns"].as_i64()));
        rows.truncate(REQUESTS_MAX);
    }
    let lanes = timeline.lanes.iter().enumerate();
    let own = lanes.filter(|(_, lane)| lane.group == "Load" || lane.group == "Requests");
    json!({
        "requests": rows, "count": count, "engine_steps": steps,
        "is_load": run.record.load.is_some(),
        "lanes": own.map(|(number, _)| number).collect::<Vec<_>>(),
    })
}

/// The number of a pass, from 1, and what was measured in it.
fn pass_text(record: &RunRecord, pass: usize) -> Option<String> {
    let kind = match record.passes.get(pass)?.kind {
        PassKind::WarmUp => "warm-up",
        PassKind::Plain => "plain",
        PassKind::Captured => "profiled",
    };
    Some(format!("{} {kind}", pass + 1))
}
