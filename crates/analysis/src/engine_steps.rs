//! Engine steps of a server's trace on the wall clock, to be joined with the requests that it served.

use llmprof_record::trace::Trace;
use llmprof_theory::Part;
use llmprof_units::Nanos;

use crate::engine_label::StepShape;
use crate::phases::engine::{Labelled, labelled_steps};
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::intervals::union_length;
use crate::timeline::launches::Launches;

/// One step of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineStep {
    /// Since 1970, by the host.
    pub start_unix_ns: Nanos,
    pub end_unix_ns: Nanos,
    /// Sequences in prefill.
    pub prefill: EnginePart,
    /// Sequences that decode.
    pub decode: EnginePart,
    /// When a device worked on what the step launched; absent in a trace without devices.
    pub busy_ns: Option<Nanos>,
}

/// Sequences of a step, and sums over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnginePart {
    pub sequences: u64,
    /// New tokens.
    pub tokens: u64,
    /// Tokens they attend to, where the label states them.
    pub context: Option<u64>,
}

/// The trace has no time of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace has no wall-clock time, so its steps cannot be joined with requests")]
pub struct NoClock;

/// The steps that engines labelled, by time; none where nothing is labelled.
pub fn engine_steps(trace: &Trace) -> Result<Vec<EngineStep>, NoClock> {
    let labelled: Vec<(Labelled, StepShape)> = labelled_steps(trace)
        .into_iter()
        .filter_map(|step| step.label.step.clone().map(|shape| (step, shape)))
        .collect();
    if labelled.is_empty() {
        return Ok(Vec::new());
    }
    let origin = trace.clock_origin_ns.ok_or(NoClock)?;
    let busy = busy(trace, &labelled);
    let steps = labelled.iter().enumerate();
    Ok(steps
        .map(|(index, (step, shape))| {
            let (prefill, decode) = parts(shape);
            EngineStep {
                start_unix_ns: Nanos(origin.0.saturating_add(step.start)),
                end_unix_ns: Nanos(origin.0.saturating_add(step.end)),
                prefill,
                decode,
                busy_ns: busy.as_ref().map(|busy| busy[index]),
            }
        })
        .collect())
}

/// Device time of each step, which is that of what it launched.
fn busy(trace: &Trace, steps: &[(Labelled, StepShape)]) -> Option<Vec<Nanos>> {
    let events = DeviceEvents::of(trace);
    if events.all().is_empty() {
        return None;
    }
    let launches = Launches::of(trace);
    let mut intervals: Vec<Vec<(i64, i64)>> = vec![Vec::new(); steps.len()];
    for event in events.all() {
        let Some(call) = launches.call(event) else {
            continue;
        };
        let launched = trace.hosts.start[call as usize];
        let after = steps.partition_point(|(step, _)| step.start <= launched);
        if let Some(index) = after.checked_sub(1)
            && launched < steps[index].0.end
        {
            intervals[index].push((event.start, event.end));
        }
    }
    let lengths = intervals.into_iter().map(|mut intervals| {
        intervals.sort_unstable();
        Nanos(union_length(intervals))
    });
    Some(lengths.collect())
}

fn parts(shape: &StepShape) -> (EnginePart, EnginePart) {
    let of = |part: &Part| EnginePart {
        sequences: part.sequences(),
        tokens: part.new_tokens(),
        context: part
            .cached_tokens()
            .map(|cached| cached.saturating_add(part.new_tokens())),
    };
    if let Some(step) = &shape.step {
        return (of(&step.prefill), of(&step.decode));
    }
    // Sequences only: one that decodes has one new token, the others have the rest.
    let prefill = shape.prefill_sequences.unwrap_or(0);
    let decode = shape.sequences.saturating_sub(prefill);
    let part = |sequences, tokens| EnginePart {
        sequences,
        tokens,
        context: None,
    };
    let tokens = shape.new_tokens.unwrap_or(0).saturating_sub(decode);
    (part(prefill, tokens), part(decode, decode))
}
