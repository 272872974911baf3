//! Time of the device between phases: how much, and the longest such time with the kernels around it.

use llmprof_record::trace::Trace;
use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::phases::{PhaseSource, Phases};
use crate::thresholds::{HOST_OPERATOR_NAMED_PART, OUTSIDE_NOTICED_PART};
use crate::timeline::breakdown::DeviceTimeline;
use crate::timeline::device_events::DeviceEvent;
use crate::timeline::idle::{HostOperatorIdle, IdleCauses};
use crate::timeline::slices;

/// Time between the first and the last device event that belongs to no phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsidePhases {
    /// All of it.
    pub total_ns: Nanos,
    /// The longest interval of it.
    pub longest: OutsideGap,
}

/// An interval between phases, on the device with the most events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideGap {
    pub start_ns: Nanos,
    pub span_ns: Nanos,
    /// With at least one device event.
    pub busy_ns: Nanos,
    /// Time of events in it whose launch is not in the trace, though others' are: they were launched before the recording.
    pub launched_before_ns: Nanos,
    /// The phases around it; absent at the beginning and at the end of the trace.
    pub after_phase: Option<String>,
    pub before_phase: Option<String>,
    /// The last device event that began before it, and the first after it.
    pub after_event: Option<String>,
    pub before_event: Option<String>,
    /// Its idle time by cause.
    pub idle: IdleCauses,
    /// Whether its longest idle time ended with the first recorded event of a stream: it may have waited for work from before the
    /// recording that the trace does not have.
    #[serde(default)]
    pub first_of_stream: bool,
    /// What the host did longest while the device waited for it.
    pub host_operator: Option<String>,
    pub host_operator_ns: Nanos,
}

/// Nothing where phases are the whole trace, only slices were recorded, or phases leave hardly any time out.
pub(crate) fn outside(
    trace: &Trace,
    phases: &Phases,
    timelines: &[DeviceTimeline<'_>],
) -> Option<OutsidePhases> {
    if phases.source == PhaseSource::Whole || slices::of(trace).is_some() {
        return None;
    }
    let timeline = timelines.iter().max_by_key(|one| one.events.len())?;
    let all = timelines.iter().flat_map(|one| one.events);
    let first = all.clone().map(|event| event.start).min()?;
    let last = all.map(|event| event.end).max()?;
    let gaps = gaps(phases, (first, last));
    let total = gaps.iter().map(Apart::length).fold(0, i64::saturating_add);
    if total.saturating_mul(OUTSIDE_NOTICED_PART) <= last.saturating_sub(first) {
        return None;
    }
    let gap = gaps.iter().max_by_key(|gap| gap.length())?;
    let found = timeline.break_down(&[(gap.start, gap.end)], false);
    let name = |event: &DeviceEvent| trace.text(event.name).to_owned();
    let events = timeline.events;
    let begun = events.partition_point(|event| event.start < gap.start);
    let next = events.partition_point(|event| event.start < gap.end);
    let idle = found.total.idle_ns.0;
    let is_told = |row: &&HostOperatorIdle| {
        let named = row.operator.is_some();
        named && row.idle_ns.0.saturating_mul(HOST_OPERATOR_NAMED_PART) >= idle
    };
    let host = found.host_operators.iter().find(is_told);
    let phase = |window: Option<usize>| {
        let window = phases.windows.get(window?)?;
        Some(phases.names[window.name].clone())
    };
    Some(OutsidePhases {
        total_ns: Nanos(total),
        longest: OutsideGap {
            start_ns: Nanos(gap.start),
            span_ns: Nanos(gap.length()),
            busy_ns: found.total.busy_ns,
            launched_before_ns: Nanos(launched_before(timeline, begun, next)),
            after_phase: phase(gap.after),
            before_phase: phase(gap.before),
            after_event: begun.checked_sub(1).map(|place| name(&events[place])),
            before_event: events.get(next).map(name),
            idle: found.total.idle,
            first_of_stream: ends_with_first_of_stream(events, (gap.start, gap.end)),
            host_operator: host.and_then(|row| row.operator.clone()),
            host_operator_ns: host.map_or(Nanos(0), |row| row.idle_ns),
        },
    })
}

/// Whether the longest time without an event in an interval ends with the first event of its stream.
fn ends_with_first_of_stream(events: &[DeviceEvent], (start, end): (i64, i64)) -> bool {
    let mut reached = start;
    let mut longest: Option<(i64, usize)> = None;
    for (place, event) in events.iter().enumerate() {
        let idle = event.start.min(end).saturating_sub(reached);
        if longest.is_none_or(|(most, _)| idle > most) && idle > 0 {
            longest = Some((idle, place));
        }
        if event.start >= end {
            break;
        }
        reached = reached.max(event.end);
    }
    longest.is_some_and(|(_, place)| {
        let stream = events[place].stream;
        events[..place].iter().all(|event| event.stream != stream)
    })
}

/// Time of the events from one place to another that no recorded call launched; none where no launch is recorded.
fn launched_before(timeline: &DeviceTimeline<'_>, first: usize, last: usize) -> i64 {
    let is_launched = |place: usize| timeline.calls.call(timeline.first + place).is_some();
    if !(0..timeline.events.len()).any(is_launched) {
        return 0;
    }
    (first..last)
        .filter(|&place| !is_launched(place))
        .map(|place| timeline.events[place].duration())
        .fold(0, i64::saturating_add)
}

/// An interval in no window, and the windows around it.
#[derive(Debug, PartialEq)]
struct Apart {
    start: i64,
    end: i64,
    after: Option<usize>,
    before: Option<usize>,
}

impl Apart {
    fn length(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// What windows, which are in order of time, leave of a span.
fn gaps(phases: &Phases, (first, last): (i64, i64)) -> Vec<Apart> {
    let mut gaps = Vec::new();
    let (mut reached, mut after) = (first, None);
    for (number, window) in phases.windows.iter().enumerate() {
        if window.start.min(last) > reached {
            gaps.push(Apart {
                start: reached,
                end: window.start.min(last),
                after,
                before: Some(number),
            });
        }
        if window.end > reached {
            (reached, after) = (window.end, Some(number));
        }
    }
    if last > reached {
        gaps.push(Apart {
            start: reached,
            end: last,
            after,
            before: None,
        });
    }
    gaps
}
