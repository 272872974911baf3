//! Time of the device between phases: how much, and the longest such time with the kernels around it.

use llmprof_record::trace::Trace;
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::phases::{PhaseSource, Phases};
use crate::thresholds::{HOST_OPERATOR_NAMED_PART, OPEN_RANGE_MIN_SHARE, OUTSIDE_NOTICED_PART};
use crate::timeline::breakdown::DeviceTimeline;
use crate::timeline::device_events::{DeviceEvent, DeviceEvents};
use crate::timeline::extent::host_span;
use crate::timeline::idle::{HostOperatorIdle, IdleCauses};
use crate::timeline::open_ranges::ProgramRanges;
use crate::timeline::slices;
use crate::trace::span_of;
use crate::waterfall::idle_parts::NamedTime;

/// Time between the first and the last device event that belongs to no phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct OutsidePhases {
    /// All of it, summed over devices.
    pub total_ns: Nanos,
    /// The longest interval of it.
    pub longest: OutsideGap,
}

/// An interval between phases, on the device with the most events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct OutsideGap {
    /// Start of the gap on the clock of the trace.
    pub start_ns: Nanos,
    /// Length of the gap in ns.
    pub span_ns: Nanos,
    /// Time in the gap with at least one device event.
    pub busy_ns: Nanos,
    /// Time of events in it that were launched before the recording: their launch is not in the trace, and that of every later event
    /// of their stream is.
    pub launched_before_ns: Nanos,
    /// The phases around it; absent at the beginning and at the end of the trace.
    pub after_phase: Option<String>,
    /// Name of the phase after the gap; absent at the end of the trace.
    pub before_phase: Option<String>,
    /// The last device event that began before it, and the first after it.
    pub after_event: Option<String>,
    /// Name of the first device event after the gap.
    pub before_event: Option<String>,
    /// Its idle time by cause.
    pub idle: IdleCauses,
    /// Whether its longest idle time ended with the first recorded event of a stream: it may have waited for work from before the
    /// recording that the trace does not have.
    #[serde(default)]
    pub first_of_stream: bool,
    /// What the host did longest while the device waited for it.
    pub host_operator: Option<String>,
    /// Time of that host operator.
    pub host_operator_ns: Nanos,
    /// Ranges of the program in it that take a good part of it, the longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<NamedTime>,
}

/// `None` if the phases are the whole trace, only slices were recorded, or the phases leave hardly any time out.
pub(crate) fn find_outside(
    trace: &Trace,
    phases: &Phases,
    timelines: &[DeviceTimeline<'_>],
) -> Option<OutsidePhases> {
    if phases.source == PhaseSource::Whole || slices::recorded_slices(trace).is_some() {
        return None;
    }
    let timeline = timelines.iter().max_by_key(|one| one.events.len())?;
    let all = timelines.iter().flat_map(|one| one.events);
    let first = all.clone().map(|event| event.start).min()?;
    let last = all.map(|event| event.end).max()?;
    // A device that runs apart from the others has begun with its own first event.
    let span_on = |one: &DeviceTimeline<'_>| {
        let own = span_of(one.events);
        if phases.are_of_devices() {
            own
        } else {
            (first, last)
        }
    };
    let judged = timelines.iter().filter(|one| one.activity.is_some());
    let devices = judged.clone().count().max(1) as i64;
    let total = judged
        .flat_map(|one| gaps_between_windows(phases, one.device(), span_on(one)))
        .map(|gap| gap.length())
        .fold(0, i64::saturating_add);
    let span = last.saturating_sub(first).saturating_mul(devices);
    if total.saturating_mul(OUTSIDE_NOTICED_PART) <= span {
        return None;
    }
    let gaps = gaps_between_windows(phases, timeline.device(), span_on(timeline));
    let gap = gaps.iter().max_by_key(|gap| gap.length())?;
    let breakdown = timeline.break_down(&[(gap.start, gap.end)], false);
    let name = |event: &DeviceEvent| trace.text(event.name).to_owned();
    let events = timeline.events;
    let begun = events.partition_point(|event| event.start < gap.start);
    let next = events.partition_point(|event| event.start < gap.end);
    let idle = breakdown.total.idle_ns.0;
    let is_told = |row: &&HostOperatorIdle| {
        let named = row.operator.is_some();
        named && row.idle_ns.0.saturating_mul(HOST_OPERATOR_NAMED_PART) >= idle
    };
    let host = breakdown.host_operators.iter().find(is_told);
    let phase = |window: Option<usize>| {
        let window = phases.windows.get(window?)?;
        Some(phases.names[window.name].clone())
    };
    Some(OutsidePhases {
        total_ns: Nanos(total),
        longest: OutsideGap {
            start_ns: Nanos(gap.start),
            span_ns: Nanos(gap.length()),
            busy_ns: breakdown.total.busy_ns,
            launched_before_ns: Nanos(launched_before(timeline, begun, next)),
            after_phase: phase(gap.after),
            before_phase: phase(gap.before),
            after_event: begun.checked_sub(1).map(|place| name(&events[place])),
            before_event: events.get(next).map(name),
            idle: breakdown.total.idle,
            first_of_stream: ends_with_first_of_stream(events, (gap.start, gap.end)),
            host_operator: host.and_then(|row| row.operator.clone()),
            host_operator_ns: host.map_or(Nanos(0), |row| row.idle_ns),
            ranges: ranges_in(trace, (gap.start, gap.end)),
        },
    })
}

/// Ranges of the program between phases of the host, where there is no device.
pub(crate) fn outside_ranges(
    trace: &Trace,
    phases: &Phases,
    events: &DeviceEvents,
) -> Vec<NamedTime> {
    let Some(span) = host_span(trace).filter(|_| events.all().is_empty()) else {
        return Vec::new();
    };
    let gaps: Vec<(i64, i64)> = gaps_between_windows(phases, 0, span)
        .iter()
        .map(|gap| (gap.start, gap.end))
        .collect();
    let lengths = gaps.iter().map(|gap| gap.1.saturating_sub(gap.0));
    let total = lengths.fold(0, i64::saturating_add);
    let ranges = ProgramRanges::from_trace(trace, Some(phases));
    let mut rows = ranges.during(trace, &gaps, total);
    rows.retain(|row| row.time_ns.0 as f64 >= OPEN_RANGE_MIN_SHARE * total as f64);
    rows
}

/// Ranges inside a gap between phases. Ranges with the name of a phase count too: in the gap they are not one.
fn ranges_in(trace: &Trace, gap: (i64, i64)) -> Vec<NamedTime> {
    let span = gap.1.saturating_sub(gap.0);
    let mut rows = ProgramRanges::from_trace(trace, None).during(trace, &[gap], span);
    rows.retain(|row| row.time_ns.0 as f64 >= OPEN_RANGE_MIN_SHARE * span as f64);
    rows
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

/// Time of the events from one place to another that were launched before the recording. A stream runs its events in the order of
/// their launches: where all launches of later events are recorded, those of the first ones came before the recording.
fn launched_before(timeline: &DeviceTimeline<'_>, first: usize, last: usize) -> i64 {
    let is_launched = |place: usize| timeline.calls.call(timeline.first + place).is_some();
    // The first event of a stream with a launch; `None` if a later event of the stream has no launch.
    let mut begins: FxHashMap<(u32, u32), Option<usize>> = FxHashMap::default();
    for (place, event) in timeline.events.iter().enumerate() {
        match (is_launched(place), begins.get(&event.stream)) {
            (true, None) => {
                begins.insert(event.stream, Some(place));
            }
            (false, Some(Some(_))) => {
                begins.insert(event.stream, None);
            }
            _ => {}
        }
    }
    let is_early = |place: &usize| {
        let begins = begins.get(&timeline.events[*place].stream);
        begins.is_some_and(|begins| begins.is_some_and(|begins| *place < begins))
    };
    (first..last)
        .filter(is_early)
        .map(|place| timeline.events[place].duration())
        .fold(0, i64::saturating_add)
}

/// An interval between windows, and the windows around it.
#[derive(Debug, PartialEq)]
struct PhaseGap {
    start: i64,
    end: i64,
    after: Option<usize>,
    before: Option<usize>,
}

impl PhaseGap {
    fn length(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// The gaps that the windows of a device, which are in order of time, leave in a span.
fn gaps_between_windows(phases: &Phases, device: u32, (first, last): (i64, i64)) -> Vec<PhaseGap> {
    let mut gaps = Vec::new();
    let (mut reached, mut after) = (first, None);
    let windows = phases.windows.iter().enumerate();
    let own = windows.filter(|(_, window)| window.device.is_none_or(|own| own == device));
    for (number, window) in own {
        if window.start.min(last) > reached {
            gaps.push(PhaseGap {
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
        gaps.push(PhaseGap {
            start: reached,
            end: last,
            after,
            before: None,
        });
    }
    gaps
}
