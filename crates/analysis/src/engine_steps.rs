//! Engine steps of a server's trace on the wall clock, to be joined with the requests that it served.

use llmprof_record::serving::{EnginePart, EngineStep};
use llmprof_record::trace::Trace;
use llmprof_theory::device::Device;
use llmprof_theory::roofline::{PhaseRoofline, Roof};
use llmprof_theory::{Model, Part, Workload};
use llmprof_units::Nanos;

use crate::engine_label::StepShape;
use crate::phases::engine::{Labelled, labelled_steps};
use crate::timeline::device_events::{DeviceEvents, EventTable};
use crate::timeline::intervals::union_length;
use crate::timeline::launches::Launches;

/// What the roofline of a step needs: a whole model on one device.
#[derive(Clone, Copy)]
pub struct Served<'a> {
    pub model: &'a Model,
    /// For its number formats; the batch is the step's.
    pub workload: &'a Workload,
    pub device: &'a Device,
}

/// The trace has no time of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace has no wall-clock time, so its steps cannot be joined with requests")]
pub struct NoClock;

/// How many ranks the program of a trace has: each writes a trace of its own.
fn ranks_of(trace: &Trace) -> u32 {
    let size = trace.metadata.get("distributed_world_size");
    size.and_then(|size| size.parse().ok()).unwrap_or(1)
}

/// The steps that engines labelled, by time; none where nothing is labelled.
pub fn engine_steps(trace: &Trace, served: Option<Served<'_>>) -> Result<Vec<EngineStep>, NoClock> {
    let labelled: Vec<(Labelled, StepShape)> = labelled_steps(trace)
        .into_iter()
        .filter_map(|step| step.label.step.clone().map(|shape| (step, shape)))
        .collect();
    if labelled.is_empty() {
        return Ok(Vec::new());
    }
    let origin = trace.clock_origin_ns.ok_or(NoClock)?;
    let events = DeviceEvents::from_trace(trace);
    let devices = on_devices(trace, &events, &labelled);
    // A model that is split over devices has no roofline of one of them.
    let first = events.all().first().map(|event| event.device);
    let is_split =
        events.all().iter().any(|event| Some(event.device) != first) || ranks_of(trace) > 1;
    let roof = served
        .filter(|_| !is_split)
        .map(|served| (served, Roof::new(served.device)));
    let roofline = |shape: &StepShape| {
        let (served, roof) = roof.as_ref()?;
        let step = shape.step.as_ref()?;
        PhaseRoofline::of_step(roof, served.model, served.workload, step).ok()
    };
    let steps = labelled.iter().enumerate();
    Ok(steps
        .map(|(index, (step, shape))| {
            let (prefill, decode) = parts(shape);
            EngineStep {
                start_unix_ns: Nanos(origin.0.saturating_add(step.start)),
                end_unix_ns: Nanos(origin.0.saturating_add(step.end)),
                prefill,
                decode,
                busy_ns: devices.as_ref().map(|devices| devices[index].busy_ns),
                is_eager: devices
                    .as_ref()
                    .map(|devices| &devices[index])
                    .filter(|on| on.kernels > 0)
                    .map(|on| on.in_graphs == 0),
                roofline_ns: roofline(shape).map(|roofline| roofline.roofline_ns),
            }
        })
        .collect())
}

/// What a step launched.
#[derive(Clone, Default)]
struct OnDevices {
    busy_ns: Nanos,
    kernels: u64,
    in_graphs: u64,
}

/// What each step launched; `None` in a trace without devices.
fn on_devices(
    trace: &Trace,
    events: &DeviceEvents,
    steps: &[(Labelled, StepShape)],
) -> Option<Vec<OnDevices>> {
    if events.all().is_empty() {
        return None;
    }
    let launches = Launches::from_trace(trace);
    let mut intervals: Vec<Vec<(i64, i64)>> = vec![Vec::new(); steps.len()];
    let mut found = vec![OnDevices::default(); steps.len()];
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
            if event.table == EventTable::Kernels {
                let name = trace.text(trace.hosts.name[call as usize]);
                let is_in_graph = event.in_graph || name.contains("GraphLaunch");
                found[index].kernels += 1;
                found[index].in_graphs += u64::from(is_in_graph);
            }
        }
    }
    for (found, mut intervals) in found.iter_mut().zip(intervals) {
        intervals.sort_unstable();
        found.busy_ns = Nanos(union_length(intervals));
    }
    Some(found)
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
