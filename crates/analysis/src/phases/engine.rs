//! Steps of serving engines: ranges whose labels state the batch.

use llmprof_record::trace::{RangeKind, StrId, ThreadId, Trace};

use super::annotations::lie_on_device;
use super::{PhaseSource, Phases, TraceWindow};
use crate::engine_label::{EngineLabel, LabelEngine, StepKind};
use crate::labels::{STEP, is_annotation};
use crate::row_order::sort_ascending;
use crate::thresholds::ENGINE_STREAMS_MAX;
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::launch_times::EventLaunchTimes;

/// A labelled range of one thread.
pub(crate) struct Labelled {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) name: StrId,
    pub(crate) label: EngineLabel,
}

/// Phases from the labels of an engine; `None` where there are none.
pub(super) fn engine_phases(
    trace: &Trace,
    events: &DeviceEvents,
    launched: &EventLaunchTimes,
) -> Option<Phases> {
    let on_device = lie_on_device(trace, events, launched);
    let steps = if on_device {
        device_steps(trace)
    } else {
        merge_streams(labelled_steps(trace))
    };
    let overlap = steps.windows(2).any(|pair| pair[0].end > pair[1].start);
    if steps.is_empty() || overlap {
        return None;
    }
    let mut phases = Phases::empty(PhaseSource::Annotation);
    phases.on_device = on_device;
    phases.are_generation = true;
    for step in steps {
        let name = match step.label.kind {
            StepKind::Prefill => "prefill",
            StepKind::Decode => STEP,
            StepKind::Mixed => "mixed",
            StepKind::Idle | StepKind::Unknown => "step",
        };
        let known = step.label.step.and_then(|shape| shape.step);
        phases.push(name, step.start, step.end);
        if let Some(step) = known {
            phases.state_step(step);
        }
    }
    Some(phases)
}

/// The steps that an engine labelled, by time.
pub(crate) fn labelled_steps(trace: &Trace) -> Vec<Labelled> {
    let threads = labelled_by_thread(trace, StepsOf::Engine).into_iter();
    let mut steps: Vec<Labelled> = threads.flat_map(|(_, steps)| steps).collect();
    sort_ascending(&mut steps, |step| step.start);
    steps
}

/// The steps that an engine labels, else those of PyTorch's profiler, of the thread that has most of them.
pub(super) fn steps_of_one_thread(trace: &Trace) -> Vec<Labelled> {
    let of = |by: StepsOf| {
        let threads = labelled_by_thread(trace, by).into_iter();
        let most = threads.max_by_key(|(thread, steps)| (steps.len(), std::cmp::Reverse(*thread)));
        most.map(|(_, steps)| steps)
            .filter(|steps| !steps.is_empty())
    };
    of(StepsOf::Engine)
        .or_else(|| of(StepsOf::Profiler))
        .unwrap_or_default()
}

/// The steps that an engine labelled, thread by thread.
///
/// Where a label encloses another one (`execute_…` around `step[…]`), the inner one is the step and the outer one has the
/// batch. One that encloses several says nothing about each of them.
fn labelled_by_thread(trace: &Trace, by: StepsOf) -> Vec<(ThreadId, Vec<Labelled>)> {
    let mut threads = Vec::new();
    let ranges = &trace.ranges;
    let rows: Vec<usize> = (0..ranges.len())
        .filter(|&row| is_annotation(ranges.kind[row]))
        .collect();
    for thread in rows.chunk_by(|&a, &b| ranges.thread[a] == ranges.thread[b]) {
        let labelled = thread.iter().filter_map(|&row| read_label(trace, row, by));
        let steps = innermost_labels(labelled.collect());
        threads.push((ranges.thread[thread[0]], steps));
    }
    threads
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepsOf {
    Engine,
    /// PyTorch's profiler, with a schedule.
    Profiler,
}

/// The label of a range, where it is one of a step.
fn read_label(trace: &Trace, row: usize, by: StepsOf) -> Option<Labelled> {
    let ranges = &trace.ranges;
    let label = EngineLabel::parse(trace.text(ranges.name[row]))?;
    let is_profiler = label.engine == LabelEngine::ProfilerStep;
    let is_step = is_profiler == (by == StepsOf::Profiler) && label.kind != StepKind::Idle;
    is_step.then(|| Labelled {
        start: ranges.start[row],
        end: ranges.start[row].saturating_add(ranges.duration[row]),
        name: ranges.name[row],
        label,
    })
}

/// The steps by the ranges of the device. Kineto writes one for each stream: those of one label that overlap are one step.
fn device_steps(trace: &Trace) -> Vec<Labelled> {
    let ranges = &trace.ranges;
    let rows = (0..ranges.len()).filter(|&row| ranges.kind[row] == RangeKind::DEVICE_ANNOTATION);
    let read = |row| read_label(trace, row, StepsOf::Engine);
    let mut steps: Vec<Labelled> = rows.filter_map(read).collect();
    steps.sort_by_key(|step| (step.start, std::cmp::Reverse(step.end)));
    innermost_labels(merge_streams(steps))
}

/// Ranges of one label that overlap, as one; in order of starts.
fn merge_streams(steps: Vec<Labelled>) -> Vec<Labelled> {
    let mut merged: Vec<Labelled> = Vec::new();
    for step in steps {
        let same = |known: &&mut Labelled| known.label == step.label && known.end > step.start;
        match merged.iter_mut().rev().take(ENGINE_STREAMS_MAX).find(same) {
            Some(known) => known.end = known.end.max(step.end),
            None => merged.push(step),
        }
    }
    merged
}

/// The innermost of nested ranges, sorted by start with the longer first. A single one takes the batch of the range around
/// it, where that states more.
fn innermost_labels(labelled: Vec<Labelled>) -> Vec<Labelled> {
    let mut steps = Vec::new();
    let mut rest = labelled.into_iter().peekable();
    while let Some(outer) = rest.next() {
        let mut inner: Vec<Labelled> = Vec::new();
        while let Some(next) = rest.next_if(|next| next.end <= outer.end) {
            inner.push(next);
        }
        match inner.len() {
            0 => steps.push(outer),
            1 => steps.extend(inner.into_iter().map(|inner| {
                let states = |label: &EngineLabel| {
                    label
                        .step
                        .as_ref()
                        .is_some_and(|shape| shape.step.is_some())
                };
                let label = if states(&outer.label) {
                    outer.label.clone()
                } else {
                    inner.label
                };
                Labelled { label, ..inner }
            })),
            _ => steps.extend(innermost_labels(inner)),
        }
    }
    steps
}

impl TraceWindow {
    /// The number of its step in [`Phases::steps`].
    pub(crate) fn step_index(&self) -> Option<usize> {
        self.step.map(|step| step as usize)
    }
}
