//! What a page shows of a request or an engine step.

use llmprof_record::run::{Request, RunRecord};
use llmprof_record::serving::{EnginePart, EngineStep, RequestRecord, ServedLoad};
use llmprof_units::{Count, Nanos};
use serde_json::{Value, json};

use crate::lanes::table;
use crate::load_lanes::step_name;
use crate::timeline::ViewTimeline;
use crate::track::EventRef;

/// Engine steps with a prefill that are linked from a request.
const LINKED_STEPS_MAX: usize = 20;

type Rows = Vec<(&'static str, Value)>;

/// Engine steps that ran in some time.
#[derive(Default)]
struct StepsBetween {
    count: u64,
    with_prefill: u64,
    time_ns: i64,
}

impl ViewTimeline {
    /// Facts of a request or an engine step; `None` where there is none.
    pub(crate) fn load_event_json(&self, record: &RunRecord, event: EventRef) -> Option<Value> {
        let row = event.row();
        let (facts, links) = match (event.table(), &record.load) {
            (table::REQUESTS, Some(load)) => self.served_request(load, row)?,
            (table::REQUESTS, None) => (self.pass_request(record.requests.get(row)?), Vec::new()),
            (_, Some(load)) => (self.engine_step(load.steps.get(row)?), Vec::new()),
            (_, None) => return None,
        };
        Some(self.placed_json(0, event, &facts, &links))
    }

    fn served_request(&self, load: &ServedLoad, row: usize) -> Option<(Rows, Vec<Value>)> {
        let request = load.load.requests.get(row)?;
        let started = load.load.started_unix_ns;
        let since_1970 = |time: Nanos| started + time;
        let start = self.unix_to_timeline(since_1970(request.scheduled_ns))?;
        let mut facts: Rows = vec![
            ("name", json!(format!("request {}", request.index))),
            ("start_ns", json!(start)),
            (
                "duration_ns",
                json!(request.end_ns.0 - request.scheduled_ns.0),
            ),
        ];
        facts.extend(request_rows(request));
        let sent = request.sent_ns.unwrap_or(request.scheduled_ns);
        let first = request
            .arrivals
            .first()
            .map_or(request.end_ns, |arrival| arrival.at_ns);
        if !load.steps.is_empty() {
            let until_first = steps_between(&load.steps, since_1970(sent), since_1970(first));
            let after = steps_between(&load.steps, since_1970(first), since_1970(request.end_ns));
            facts.push((
                "engine steps until the first token",
                steps_text(&until_first),
            ));
            facts.push(("engine steps after it", steps_text(&after)));
        }
        let with_prefill = overlapping(&load.steps, since_1970(sent), since_1970(first));
        let with_prefill = with_prefill.filter(|(_, step)| step.prefill.sequences > 0);
        let links = with_prefill
            .take(LINKED_STEPS_MAX)
            .filter_map(|(number, step)| self.step_link(number, step));
        Some((facts, links.collect()))
    }

    fn step_link(&self, number: usize, step: &EngineStep) -> Option<Value> {
        let start = self.unix_to_timeline(step.start_unix_ns)?;
        let event = EventRef::new(table::ENGINE_STEPS, number);
        let (lane, track) = self.locate(0, event, start + self.origin)?;
        Some(json!({
            "role": "prefill in", "event": event.0, "trace": 0, "lane": lane, "track": track, "name": step_name(step),
            "start_ns": start, "duration_ns": (step.end_unix_ns.0 - step.start_unix_ns.0).max(0),
        }))
    }

    fn pass_request(&self, request: &Request) -> Rows {
        let shift = self.clocks.run_ns.unwrap_or(0) - self.origin;
        let last = request.token_ns.last().copied().unwrap_or(request.start_ns);
        let mut facts: Rows = vec![
            ("name", json!(format!("request {}", request.id))),
            ("start_ns", json!(request.start_ns.0 + shift)),
            ("duration_ns", json!(last.0 - request.start_ns.0)),
        ];
        if let Some(first) = request.token_ns.first() {
            facts.push(("TTFT_ns", json!(first.0 - request.start_ns.0)));
        }
        facts.push(("prompt tokens", json!(request.prompt_tokens)));
        facts.push(("output tokens", json!(request.output_tokens)));
        facts.push(("batch", json!(request.batch)));
        facts
    }

    fn engine_step(&self, step: &EngineStep) -> Rows {
        let start = self.unix_to_timeline(step.start_unix_ns);
        let mut facts: Rows = vec![
            ("name", json!(step_name(step))),
            ("start_ns", json!(start)),
            (
                "duration_ns",
                json!(step.end_unix_ns.0 - step.start_unix_ns.0),
            ),
        ];
        for (key, part) in [("prefill", step.prefill), ("decode", step.decode)] {
            if part.sequences > 0 {
                facts.push((key, json!(part_text(part))));
            }
        }
        let times = [
            ("GPU busy_ns", step.busy_ns),
            ("roofline time_ns", step.roofline_ns),
        ];
        for (key, time) in times {
            facts.extend(time.map(|time| (key, json!(time))));
        }
        let launched = step.is_eager.map(|eager| if eager { "no" } else { "yes" });
        facts.extend(launched.map(|graph| ("CUDA Graph", json!(graph))));
        facts
    }
}

/// What the client measured of a request.
pub(crate) fn request_rows(request: &RequestRecord) -> Rows {
    let mut rows: Rows = Vec::new();
    let times = [
        ("in the client_ns", request.client_wait_ns()),
        ("TTFT_ns", request.ttft_ns()),
        ("to the last token_ns", request.e2e_ns()),
    ];
    for (key, time) in times {
        rows.extend(time.map(|time| (key, json!(time))));
    }
    rows.extend(request.tpot_ns().map(|time| ("TPOT_ns", json!(time))));
    rows.extend(
        request
            .gaps_ns()
            .max()
            .map(|gap| ("longest gap between arrivals_ns", json!(gap))),
    );
    rows.extend(
        request
            .prompt_tokens
            .map(|tokens| ("prompt tokens", json!(tokens))),
    );
    rows.extend(
        request
            .output_tokens
            .map(|tokens| ("output tokens", json!(tokens))),
    );
    if let Some(failure) = &request.failure {
        rows.push((
            "failed",
            json!(format!("{}: {}", failure.kind.name(), failure.message)),
        ));
    }
    if request.was_profiled {
        rows.push((
            "profiled",
            json!("the server's profiler may have slowed it"),
        ));
    }
    rows
}

fn part_text(part: EnginePart) -> String {
    let context = part
        .context
        .map(|tokens| format!(", {} of context", Count(tokens, "token")));
    format!(
        "{}, {}{}",
        Count(part.sequences, "sequence"),
        Count(part.tokens, "new token"),
        context.unwrap_or_default()
    )
}

/// Steps, which are in the order of their starts, that overlap some time.
fn overlapping(
    steps: &[EngineStep],
    from: Nanos,
    to: Nanos,
) -> impl Iterator<Item = (usize, &EngineStep)> {
    let last = steps.partition_point(|step| step.start_unix_ns < to);
    let ended = steps[..last].iter().enumerate();
    ended.filter(move |(_, step)| step.end_unix_ns > from)
}

fn steps_between(steps: &[EngineStep], from: Nanos, to: Nanos) -> StepsBetween {
    let mut sum = StepsBetween::default();
    for (_, step) in overlapping(steps, from, to) {
        sum.count += 1;
        sum.with_prefill += u64::from(step.prefill.sequences > 0);
        sum.time_ns += step.end_unix_ns.0.min(to.0) - step.start_unix_ns.0.max(from.0);
    }
    sum
}

fn steps_text(steps: &StepsBetween) -> Value {
    json!(format!(
        "{} ({} with a prefill), {} of the time",
        steps.count,
        steps.with_prefill,
        Nanos(steps.time_ns)
    ))
}
