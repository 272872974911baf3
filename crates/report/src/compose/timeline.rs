//! Events over time, in lanes of ranges, host threads and streams.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::trace::{HostKind, RangeKind, StrId, Trace};
use llmprof_units::Nanos;
use std::collections::HashMap;

use crate::analyzed::Analysis;
use crate::document::{Document, Drawing};
use crate::kernel_label::kernel_label;
use crate::text;
use crate::view::{Timeline, TimelineEvent, TimelineWindow};

/// Events that a page draws. Device events come first, then ranges, then host slices from the outermost inwards.
pub const EVENTS_MAX: usize = 300_000;
/// Host slices deeper than this are not drawn: a page is for an overview.
const HOST_DEPTH_MAX: u16 = 6;

/// Adds the section where there are events to draw.
pub(super) fn add(document: &mut Document, analysis: &Analysis, trace: Option<&Trace>) {
    let Some((trace, facts_of_trace)) = trace.zip(analysis.timeline.as_deref()) else {
        return;
    };
    let drawn = trace_timeline(trace, analysis);
    document.issues.extend(left_out(&drawn));
    let section = document.section("timeline", "Timeline of the profiled pass");
    let shown = (drawn.timeline.len() + drawn.left_out) as u64;
    section.chart("timeline", Drawing::Timeline(drawn.timeline));
    let mut facts = text::trace::facts(facts_of_trace);
    let others = facts_of_trace.totals.events.saturating_sub(shown);
    facts.extend((others > 0).then(|| text::trace::not_drawn(others, HOST_DEPTH_MAX)));
    let device_time = facts_of_trace.totals.device_time_ns;
    let graphs = analysis.graphs.as_ref();
    facts.extend(graphs.and_then(|graphs| super::graphs::sentences::covered(graphs, device_time)));
    section.list(facts);
}

fn left_out(drawn: &TraceTimeline) -> Option<Issue> {
    if drawn.left_out == 0 {
        return None;
    }
    let issue = Issue::info(IssueCode::ReportTimelineCut).with("left_out", drawn.left_out);
    Some(issue.with("of", drawn.left_out + drawn.timeline.len()))
}

/// The position of a name in a list, to which it is added if it is new.
fn numbered(names: &mut Vec<String>, name: String) -> u32 {
    let known = names.iter().position(|known| *known == name);
    let number = known.unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    });
    number as u32
}

/// A trace as a timeline.
pub struct TraceTimeline {
    pub timeline: Timeline,
    pub left_out: usize,
}

/// An event and how readily it is left out.
struct DrawnEvents {
    rank: u16,
    lane: TraceLane,
    start: i64,
    duration: i64,
    name: StrId,
}

/// What a lane shows; the order is that of the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum TraceLane {
    Ranges(u32),
    Host(u32),
    Stream(u32, u32, u32),
}

/// The timeline of a trace, with the phases of its analysis.
pub fn trace_timeline(trace: &Trace, analysis: &Analysis) -> TraceTimeline {
    let mut drawn = device_events(trace);
    ranges(trace, &mut drawn);
    hosts(trace, &mut drawn);
    let all = drawn.len();
    if all > EVENTS_MAX {
        drawn.sort_by_key(|event| event.rank);
        // A rank is drawn as a whole or not at all, unless it is the first.
        let cut = drawn[EVENTS_MAX].rank;
        let whole = drawn.partition_point(|event| event.rank < cut);
        drawn.truncate(if whole == 0 { EVENTS_MAX } else { whole });
    }
    let left_out = all - drawn.len();
    let mut lanes: Vec<TraceLane> = drawn.iter().map(|event| event.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let texts = lanes.iter().map(|lane| lane_name(trace, *lane)).collect();
    let place: HashMap<TraceLane, u32> = lanes
        .iter()
        .enumerate()
        .map(|(place, &lane)| (lane, place as u32))
        .collect();
    let windows = windows(analysis);
    let mut phases: Vec<String> = Vec::new();
    let windows: Vec<(i64, i64, u32)> = windows
        .into_iter()
        .map(|(start, end, name)| (start, end, numbered(&mut phases, name)))
        .collect();
    let mut numbers: HashMap<StrId, u32> = HashMap::new();
    let mut timeline = Timeline::new(texts, Vec::new(), phases);
    for event in &drawn {
        let name = *numbers.entry(event.name).or_insert_with(|| {
            let name = trace.text(event.name);
            timeline.names.push(name.to_owned());
            timeline.labels.push(event_label(event.lane, name));
            (timeline.names.len() - 1) as u32
        });
        let after = windows.partition_point(|&(start, ..)| start <= event.start);
        let phase = after
            .checked_sub(1)
            .map(|index| windows[index])
            .filter(|&(_, end, _)| event.start < end)
            .map_or(u32::MAX, |(.., phase)| phase);
        timeline.push(TimelineEvent {
            lane: place[&event.lane],
            start_ns: Nanos(event.start),
            duration_ns: Nanos(event.duration),
            name,
            phase,
        });
    }
    timeline.windows = windows
        .into_iter()
        .map(|(start, end, phase)| TimelineWindow {
            phase,
            start_ns: Nanos(start),
            end_ns: Nanos(end),
        })
        .collect();
    timeline.origin_ns = first_moment(trace).map(Nanos);
    TraceTimeline { timeline, left_out }
}

/// When the first event of any kind begins: the zero of `llmprof view`, too.
fn first_moment(trace: &Trace) -> Option<i64> {
    let starts: [&[i64]; 7] = [
        &trace.hosts.start,
        &trace.kernels.start,
        &trace.copies.start,
        &trace.memsets.start,
        &trace.ranges.start,
        &trace.syncs.start,
        &trace.memory.time,
    ];
    starts.into_iter().flatten().copied().min()
}

/// The windows of all phases in order of time, once for all devices.
fn windows(analysis: &Analysis) -> Vec<(i64, i64, String)> {
    let mut windows: Vec<(i64, i64, String)> = Vec::new();
    for phase in &analysis.phases {
        let Some(traced) = &phase.traced else {
            continue;
        };
        for instance in &traced.instances {
            let end = instance.start_ns.0.saturating_add(instance.wall_ns.0);
            windows.push((instance.start_ns.0, end, phase.phase.to_string()));
        }
    }
    windows.sort();
    windows.dedup();
    windows
}

fn device_events(trace: &Trace) -> Vec<DrawnEvents> {
    let mut drawn = Vec::new();
    macro_rules! collect {
        ($table:ident) => {
            let table = &trace.$table;
            for row in 0..table.len() {
                drawn.push(DrawnEvents {
                    rank: 0,
                    lane: TraceLane::Stream(
                        table.device[row],
                        table.context[row],
                        table.stream[row],
                    ),
                    start: table.start[row],
                    duration: table.duration[row],
                    name: table.name[row],
                });
            }
        };
    }
    collect!(kernels);
    collect!(copies);
    collect!(memsets);
    drawn
}

fn ranges(trace: &Trace, drawn: &mut Vec<DrawnEvents>) {
    let ranges = &trace.ranges;
    for row in 0..ranges.len() {
        if matches!(
            ranges.kind[row],
            RangeKind::ANNOTATION | RangeKind::NVTX | RangeKind::NVTX_START_END
        ) {
            drawn.push(DrawnEvents {
                rank: 1,
                lane: TraceLane::Ranges(ranges.thread[row].0),
                start: ranges.start[row],
                duration: ranges.duration[row],
                name: ranges.name[row],
            });
        }
    }
}

/// Host slices with their depth as rank.
fn hosts(trace: &Trace, drawn: &mut Vec<DrawnEvents>) {
    let hosts = &trace.hosts;
    let mut open: Vec<i64> = Vec::new();
    for row in 0..hosts.len() {
        if row > 0 && hosts.thread[row] != hosts.thread[row - 1] {
            open.clear();
        }
        let drawn_kind = matches!(
            hosts.kind[row],
            HostKind::OPERATOR | HostKind::RUNTIME | HostKind::DRIVER
        );
        if !drawn_kind {
            continue;
        }
        let start = hosts.start[row];
        let end = start.saturating_add(hosts.duration[row]);
        while open.pop_if(|until| *until <= start).is_some() {}
        let depth = open.len().min(usize::from(u16::MAX)) as u16;
        open.push(end);
        if depth < HOST_DEPTH_MAX {
            drawn.push(DrawnEvents {
                rank: 2 + depth,
                lane: TraceLane::Host(hosts.thread[row].0),
                start,
                duration: hosts.duration[row],
                name: hosts.name[row],
            });
        }
    }
}

/// A name as there is room for on an event: kernels by what tells them apart, ops without their namespace.
fn event_label(lane: TraceLane, name: &str) -> String {
    match lane {
        TraceLane::Stream(..) => kernel_label(name),
        TraceLane::Host(_) => name.strip_prefix("aten::").unwrap_or(name).to_owned(),
        TraceLane::Ranges(_) => name.to_owned(),
    }
}

fn lane_name(trace: &Trace, lane: TraceLane) -> String {
    let thread = |number: u32| {
        let threads = &trace.threads;
        let row = number as usize;
        if row >= threads.len() {
            return format!("thread {number}");
        }
        match trace.text(threads.name[row]) {
            "" => format!("thread {}", threads.thread[row]),
            name => name.to_owned(),
        }
    };
    match lane {
        TraceLane::Ranges(number) => format!("ranges, {}", thread(number)),
        TraceLane::Host(number) => thread(number),
        TraceLane::Stream(device, _, stream) => format!("GPU {device}, stream {stream}"),
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::run::{RecordedTrace, RunRecord};
    use llmprof_record::trace::{Host, Kernel, Range, TraceBuilder};

    use super::*;

    #[test]
    fn labels_are_short_and_ranges_keep_their_names() {
        assert_eq!(event_label(TraceLane::Host(0), "aten::mm"), "mm");
        assert_eq!(
            event_label(TraceLane::Host(0), "cudaLaunchKernel"),
            "cudaLaunchKernel"
        );
        let kernel = "void gemm<float>(float*, int)";
        let label = event_label(TraceLane::Stream(0, 0, 7), kernel);
        assert_eq!(label, kernel_label(kernel));
        assert!(label.len() < kernel.len(), "{label}");
        assert_eq!(
            event_label(TraceLane::Ranges(0), "aten::step"),
            "aten::step"
        );
    }

    /// Python functions are not drawn, and times count from the first of them all the same, as in `llmprof view`.
    #[test]
    fn times_count_from_the_start_of_the_recording() {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 7);
        let name = builder.intern("work");
        for (start, kind) in [(1_000, HostKind::PYTHON), (5_000, HostKind::OPERATOR)] {
            builder.hosts.push(Host {
                start,
                duration: 100,
                name,
                thread,
                kind,
                ..Host::default()
            });
        }
        let record = RunRecord {
            traces: vec![RecordedTrace {
                pass: None,
                trace: builder.finish(),
            }],
            ..RunRecord::default()
        };
        let analysis = llmprof_analysis::analyze(&record, None).unwrap();
        let drawn = trace_timeline(&record.traces[0].trace, &analysis);
        assert_eq!(drawn.timeline.len(), 1);
        assert_eq!(drawn.timeline.origin_ns, Some(Nanos(1_000)));
    }

    #[test]
    fn lanes_are_ranges_then_threads_then_streams() {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 7);
        let name = builder.intern("work");
        builder.kernels.push(Kernel {
            start: 5,
            duration: 2,
            name,
            stream: 3,
            ..Kernel::default()
        });
        builder.hosts.push(Host {
            start: 1,
            duration: 3,
            name,
            thread,
            kind: HostKind::OPERATOR,
            ..Host::default()
        });
        builder.ranges.push(Range {
            start: 0,
            duration: 9,
            name,
            thread,
            kind: RangeKind::NVTX,
            ..Range::default()
        });
        let trace = builder.finish();
        let record = RunRecord {
            traces: vec![RecordedTrace { pass: None, trace }],
            ..RunRecord::default()
        };
        let analysis = llmprof_analysis::analyze(&record, None).unwrap();
        let drawn = trace_timeline(&record.traces[0].trace, &analysis);
        assert_eq!(
            drawn.timeline.lanes,
            ["ranges, thread 7", "thread 7", "GPU 0, stream 3"]
        );
        assert_eq!((drawn.timeline.len(), drawn.left_out), (3, 0));
    }
}
