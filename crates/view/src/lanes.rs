//! The lanes of a timeline: what of a trace is drawn where.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use llmprof_analysis::{EventOrigins, IdleGap};
use llmprof_record::trace::{FrameId, HostKind, MemoryPlace, RangeKind, StrId, ThreadId, Trace};
use rayon::prelude::*;

use crate::counter::Counter;
use crate::names::{EventNames, Named};
use crate::track::{EventRef, LaneSlice, Track};

/// Rows of one lane; Python stacks of models are some sixty deep.
pub(crate) const TRACKS_MAX: usize = 128;

/// Tables that slices come from, by the number in an [`EventRef`].
pub mod table {
    pub const HOSTS: u8 = 0;
    pub const KERNELS: u8 = 1;
    pub const COPIES: u8 = 2;
    pub const MEMSETS: u8 = 3;
    pub const RANGES: u8 = 4;
    pub const SYNCS: u8 = 5;
    /// Idle gaps of devices, in the order of [`EventOrigins::gaps`](llmprof_analysis::EventOrigins::gaps).
    pub const IDLE_GAPS: u8 = 6;
    /// Intervals of phases, in the order of the analysis.
    pub const PHASES: u8 = 7;
    pub const STACKS: u8 = 8;
    /// Requests of a load, or those of passes where the run has no load.
    pub const REQUESTS: u8 = 9;
    /// Engine steps of a load.
    pub const ENGINE_STEPS: u8 = 10;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneKind {
    Phases,
    GpuIdle,
    Stream,
    DeviceRanges,
    Synchronization,
    Ranges,
    Host,
    HostStacks,
    Counter,
    Requests,
    EngineSteps,
}

/// A row of the timeline, of one or more tracks below each other.
pub struct ViewLane {
    /// The rank, device or process that it belongs to.
    pub group: String,
    pub title: String,
    pub kind: LaneKind,
    /// The trace of the run that it is from.
    pub trace: usize,
    pub tracks: Vec<Track>,
    pub counter: Option<Counter>,
    /// Slices below the last track that is kept.
    pub hidden: u64,
    /// Whether the process is made up by the profiler, for its own marks.
    pub is_made_up: bool,
}

/// A lane before its slices are laid out.
struct LaneDraft {
    group: String,
    title: String,
    kind: LaneKind,
    slices: Vec<LaneSlice>,
    is_made_up: bool,
}

/// Device, part of it, context and stream: the order of lanes.
type DeviceLane = (u32, u8, u32, u32);

/// One trace of a run and what is known of it.
pub(crate) struct LaneSource<'a> {
    pub(crate) number: usize,
    pub(crate) trace: &'a Trace,
    pub(crate) origins: &'a EventOrigins,
    /// Added to the times of the trace.
    pub(crate) shift: i64,
    /// Written before every group: `rank 3`.
    pub(crate) prefix: String,
    /// Phases with their intervals, on the clock of the trace.
    pub(crate) phases: Vec<(String, i64, i64)>,
}

impl LaneSource<'_> {
    pub(crate) fn lanes(&self, names: &mut EventNames) -> Vec<ViewLane> {
        let mut drafts = Vec::new();
        drafts.extend(self.phases(names));
        drafts.extend(self.device_lanes(names));
        drafts.extend(self.host_lanes(names));
        let mut lanes: Vec<ViewLane> = drafts
            .into_par_iter()
            .map(|draft| lay_out(draft, self.number))
            .collect();
        lanes.extend(self.memory());
        // A group is one block, where its first lane is.
        let mut firsts: HashMap<String, usize> = HashMap::new();
        for (place, lane) in lanes.iter().enumerate() {
            firsts.entry(lane.group.clone()).or_insert(place);
        }
        lanes.sort_by_key(|lane| firsts[&lane.group]);
        lanes
    }

    fn group(&self, name: &str) -> String {
        match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix} · {name}"),
        }
    }

    fn slice(&self, start: i64, duration: i64, name: u32, table: u8, row: usize) -> LaneSlice {
        let start = start.saturating_add(self.shift);
        LaneSlice {
            start,
            end: start.saturating_add(duration.max(0)),
            name,
            event: EventRef::new(table, row),
        }
    }

    fn phases(&self, names: &mut EventNames) -> Option<LaneDraft> {
        let slices = self.phases.iter().enumerate();
        let slices: Vec<LaneSlice> = slices
            .map(|(row, (phase, start, end))| {
                let name = names.of_text(Named::As("phase"), phase);
                self.slice(*start, end - start, name, table::PHASES, row)
            })
            .collect();
        (!slices.is_empty()).then(|| LaneDraft {
            group: self.group("Run"),
            title: "Phases".to_owned(),
            kind: LaneKind::Phases,
            slices,
            is_made_up: false,
        })
    }

    fn device_lanes(&self, names: &mut EventNames) -> Vec<LaneDraft> {
        let trace = self.trace;
        // By device; within it idle time first, then ranges, then streams by context and number.
        let mut lanes: BTreeMap<DeviceLane, (LaneKind, Vec<LaneSlice>)> = BTreeMap::new();
        for (row, gap) in self.origins.gaps().iter().enumerate() {
            let name = names.of_text(Named::As("idle"), idle_label(gap));
            let slice = self.slice(
                gap.start_ns,
                gap.end_ns - gap.start_ns,
                name,
                table::IDLE_GAPS,
                row,
            );
            let lane = lanes.entry((gap.device, 0, 0, 0));
            lane.or_insert((LaneKind::GpuIdle, Vec::new()))
                .1
                .push(slice);
        }
        macro_rules! collect {
            ($table:ident, $number:expr, $named:expr) => {
                let rows = &trace.$table;
                for row in 0..rows.len() {
                    let name = names.of_trace(self.number, trace, $named, rows.name[row]);
                    let slice = self.slice(rows.start[row], rows.duration[row], name, $number, row);
                    let key = (rows.device[row], 2, rows.context[row], rows.stream[row]);
                    let lane = lanes.entry(key);
                    lane.or_insert((LaneKind::Stream, Vec::new())).1.push(slice);
                }
            };
        }
        collect!(kernels, table::KERNELS, Named::Kernel);
        collect!(copies, table::COPIES, Named::As("copy"));
        collect!(memsets, table::MEMSETS, Named::As("memset"));
        let ranges = &trace.ranges;
        for row in 0..ranges.len() {
            if ranges.kind[row] == RangeKind::DEVICE_ANNOTATION {
                let name = names.of_trace(self.number, trace, Named::As("range"), ranges.name[row]);
                let slice = self.slice(
                    ranges.start[row],
                    ranges.duration[row],
                    name,
                    table::RANGES,
                    row,
                );
                let lane = lanes.entry((ranges.device[row], 1, 0, ranges.stream[row]));
                lane.or_insert((LaneKind::DeviceRanges, Vec::new()))
                    .1
                    .push(slice);
            }
        }
        let syncs = &trace.syncs;
        for row in 0..syncs.len() {
            let name = names.of_trace(self.number, trace, Named::As("sync"), syncs.name[row]);
            let slice = self.slice(
                syncs.start[row],
                syncs.duration[row],
                name,
                table::SYNCS,
                row,
            );
            let lane = lanes.entry((syncs.device[row], 3, 0, 0));
            lane.or_insert((LaneKind::Synchronization, Vec::new()))
                .1
                .push(slice);
        }
        let has_contexts = |device: u32| {
            // Sorted by context.
            let mut streams = lanes.range((device, 2, 0, 0)..(device, 3, 0, 0));
            let first = streams.next().map(|(key, _)| key.2);
            streams
                .next_back()
                .is_some_and(|(key, _)| Some(key.2) != first)
        };
        let titles: Vec<(String, String)> = lanes
            .keys()
            .map(|&(device, part, context, stream)| {
                let title = match part {
                    0 => format!("{} idle", trace.accelerator().noun()),
                    1 => format!("ranges, stream {stream}"),
                    2 if has_contexts(device) => format!("context {context}, stream {stream}"),
                    2 => format!("stream {stream}"),
                    _ => "synchronization".to_owned(),
                };
                (self.group(&self.device_name(device)), title)
            })
            .collect();
        let lanes = lanes.into_values().zip(titles);
        lanes
            .map(|((kind, slices), (group, title))| LaneDraft {
                group,
                title,
                kind,
                slices,
                is_made_up: false,
            })
            .collect()
    }

    fn device_name(&self, device: u32) -> String {
        let devices = &self.trace.devices;
        let known = devices.iter().find(|known| known.id == device);
        let noun = known.map_or("GPU", |known| known.kind.noun());
        match known.map(|known| known.name.as_str()) {
            Some(name) if !name.is_empty() => format!("{noun} {device} · {name}"),
            _ => format!("{noun} {device}"),
        }
    }

    fn host_lanes(&self, names: &mut EventNames) -> Vec<LaneDraft> {
        let trace = self.trace;
        let mut lanes: BTreeMap<(u32, u8), (LaneKind, Vec<LaneSlice>)> = BTreeMap::new();
        let ranges = &trace.ranges;
        for row in 0..ranges.len() {
            if ranges.kind[row] != RangeKind::DEVICE_ANNOTATION {
                let name = names.of_trace(self.number, trace, Named::As("range"), ranges.name[row]);
                let slice = self.slice(
                    ranges.start[row],
                    ranges.duration[row],
                    name,
                    table::RANGES,
                    row,
                );
                let lane = lanes.entry((ranges.thread[row].0, 0));
                lane.or_insert((LaneKind::Ranges, Vec::new())).1.push(slice);
            }
        }
        let hosts = &trace.hosts;
        for row in 0..hosts.len() {
            let named = Named::As(host_category(hosts.kind[row]));
            let name = names.of_trace(self.number, trace, named, hosts.name[row]);
            let slice = self.slice(
                hosts.start[row],
                hosts.duration[row],
                name,
                table::HOSTS,
                row,
            );
            let lane = lanes.entry((hosts.thread[row].0, 1));
            lane.or_insert((LaneKind::Host, Vec::new())).1.push(slice);
        }
        for (thread, slices) in self.sampled_stacks(names) {
            lanes.insert((thread, 2), (LaneKind::HostStacks, slices));
        }
        let mut lanes: Vec<_> = lanes.into_iter().collect();
        lanes.sort_by_key(|((thread, _), _)| self.is_made_up(ThreadId(*thread)));
        lanes
            .into_iter()
            .map(|((thread, _), (kind, slices))| {
                let is_made_up = self.is_made_up(ThreadId(thread));
                let (process, thread) = self.thread_names(ThreadId(thread));
                let title = match kind {
                    LaneKind::Ranges => format!("{thread}: ranges"),
                    LaneKind::HostStacks => format!("{thread}: sampled stacks"),
                    _ => thread,
                };
                LaneDraft {
                    group: self.group(&process),
                    title,
                    kind,
                    slices,
                    is_made_up,
                }
            })
            .collect()
    }

    /// Whether a profiler made a process up for its own marks (Kineto: `-1`, `Spans`, `Traces`): those come after real ones.
    fn is_made_up(&self, id: ThreadId) -> bool {
        let threads = &self.trace.threads;
        let row = id.0 as usize;
        id != ThreadId::NONE
            && row < threads.len()
            && (threads.process[row] < 0 || threads.process_label[row] != StrId::EMPTY)
    }

    fn thread_names(&self, id: ThreadId) -> (String, String) {
        let row = id.0 as usize;
        if id == ThreadId::NONE || row >= self.trace.threads.len() {
            return ("Host".to_owned(), "no thread".to_owned());
        }
        let thread = self.trace.threads.row(row);
        let written = |number: i64, label: StrId, name: StrId, noun: &str| {
            let number = match label {
                StrId::EMPTY => number.to_string(),
                label => self.trace.text(label).to_owned(),
            };
            match self.trace.text(name) {
                "" => format!("{noun} {number}"),
                // Kineto: `thread 532 (python3)`.
                name if name.split_whitespace().any(|word| word == number) => name.to_owned(),
                name => format!("{name} {number}"),
            }
        };
        (
            written(
                thread.process,
                thread.process_label,
                thread.process_name,
                "process",
            ),
            written(thread.thread, thread.label, thread.name, "thread"),
        )
    }

    /// Stacks as slices: a frame lasts as long as samples in a row have it at the same depth under the same callers.
    fn sampled_stacks(&self, names: &mut EventNames) -> BTreeMap<u32, Vec<LaneSlice>> {
        let (samples, frames) = (&self.trace.host_samples, &self.trace.stack_frames);
        let mut open: BTreeMap<u32, Vec<(StrId, LaneSlice)>> = BTreeMap::new();
        let mut sampled_until: BTreeMap<u32, i64> = BTreeMap::new();
        let mut lanes: BTreeMap<u32, Vec<LaneSlice>> = BTreeMap::new();
        for row in 0..samples.len() {
            let thread = samples.thread[row].0;
            let end = samples.time[row].saturating_add(self.shift);
            let start = end.saturating_sub(samples.period[row].max(0));
            let before = sampled_until.insert(thread, end);
            let mut stack = Vec::new();
            let mut frame = samples.stack[row];
            while frame != FrameId::NONE
                && (frame.0 as usize) < frames.len()
                && stack.len() < TRACKS_MAX
            {
                stack.push(frames.function[frame.0 as usize]);
                frame = frames.parent[frame.0 as usize];
            }
            stack.reverse();
            let open = open.entry(thread).or_default();
            let lane = lanes.entry(thread).or_default();
            let is_next = before.is_some_and(|before| start <= before);
            let same = open.iter().zip(&stack);
            let kept = same.take_while(|((name, _), other)| name == *other).count();
            let kept = if is_next { kept } else { 0 };
            lane.extend(open.drain(kept..).map(|(_, slice)| slice));
            for (_, slice) in open.iter_mut() {
                slice.end = end;
            }
            let begin = before.map_or(start, |before| before.max(start));
            for &function in &stack[kept..] {
                let name = names.of_trace(self.number, self.trace, Named::As("stack"), function);
                let slice = LaneSlice {
                    start: begin,
                    end,
                    name,
                    event: EventRef::new(table::STACKS, row),
                };
                open.push((function, slice));
            }
        }
        for (thread, open) in open {
            let slices = open.into_iter().map(|(_, slice)| slice);
            lanes.entry(thread).or_default().extend(slices);
        }
        lanes.retain(|_, slices| !slices.is_empty());
        lanes
    }

    fn memory(&self) -> Vec<ViewLane> {
        let memory = &self.trace.memory;
        let mut points: BTreeMap<(MemoryPlace, u32), Vec<(i64, f64)>> = BTreeMap::new();
        for row in 0..memory.len() {
            let place = (memory.place[row], memory.device[row]);
            let time = memory.time[row].saturating_add(self.shift);
            let value = memory.allocated[row] as f64;
            points.entry(place).or_default().push((time, value));
        }
        points
            .into_iter()
            .map(|((place, device), points)| ViewLane {
                group: self.group(&match place {
                    MemoryPlace::HOST => "Host".to_owned(),
                    _ => self.device_name(device),
                }),
                title: "allocated memory".to_owned(),
                kind: LaneKind::Counter,
                trace: self.number,
                tracks: Vec::new(),
                counter: Some(Counter::new("bytes", points)),
                hidden: 0,
                is_made_up: false,
            })
            .collect()
    }
}

fn host_category(kind: HostKind) -> &'static str {
    match kind {
        HostKind::PYTHON => "python",
        HostKind::OPERATOR => "operator",
        HostKind::RUNTIME | HostKind::DRIVER => "api",
        HostKind::SYSTEM => "system",
        HostKind::OVERHEAD => "profiler",
        _ => "host",
    }
}

/// The cause that most of a gap has.
pub(crate) fn idle_label(gap: &IdleGap) -> &'static str {
    let parts = idle_parts(gap);
    let most = parts.iter().max_by_key(|(_, time)| *time);
    most.map_or("unknown", |(label, _)| label)
}

/// Causes of a gap with their names, ns.
pub(crate) fn idle_parts(gap: &IdleGap) -> [(&'static str, i64); 8] {
    let causes = &gap.causes;
    [
        ("host busy", causes.host_busy_ns.0),
        ("host in sync call", causes.host_sync_ns.0),
        ("launch latency", causes.launch_latency_ns.0),
        ("in launch call", causes.launch_call_ns.0),
        ("inter-kernel gap", causes.queued_gap_ns.0),
        ("queued, not started", causes.not_started_ns.0),
        ("data loading", causes.data_loading_ns.0),
        ("unknown", causes.unknown_ns.0),
    ]
}

fn lay_out(draft: LaneDraft, trace: usize) -> ViewLane {
    let (tracks, hidden) = lay_out_slices(draft.slices);
    ViewLane {
        group: draft.group,
        title: draft.title,
        kind: draft.kind,
        trace,
        tracks,
        counter: None,
        hidden,
        is_made_up: draft.is_made_up,
    }
}

/// Puts slices into as few tracks as it takes for none to overlap: nested slices below what holds them. Returns how many are below the
/// last track as well.
pub(crate) fn lay_out_slices(mut slices: Vec<LaneSlice>) -> (Vec<Track>, u64) {
    let key = |slice: &LaneSlice| (slice.start, Reverse(slice.end));
    if !slices.is_sorted_by_key(key) {
        slices.par_sort_by_key(key);
    }
    let mut tracks: Vec<Track> = Vec::new();
    let mut hidden = 0;
    for slice in slices {
        let is_free = |track: &Track| track.last_end().is_none_or(|end| end <= slice.start);
        match tracks.iter().position(is_free) {
            Some(free) => tracks[free].push(slice),
            None if tracks.len() < TRACKS_MAX => {
                let mut track = Track::default();
                track.push(slice);
                tracks.push(track);
            }
            None => hidden += 1,
        }
    }
    for track in &mut tracks {
        track.index();
    }
    (tracks, hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_profiler_come_after_real_ones() {
        use llmprof_record::run::{RecordedTrace, RunRecord};
        use llmprof_record::trace::{Host, TraceBuilder};

        use crate::ViewTimeline;
        let mut builder = TraceBuilder::default();
        let name = builder.intern("op");
        for process in [-1, 7, 3] {
            let thread = builder.thread(process, process);
            builder.hosts.push(Host {
                name,
                thread,
                duration: 5,
                ..Host::default()
            });
        }
        let trace = builder.finish();
        let source = LaneSource {
            number: 0,
            trace: &trace,
            origins: &EventOrigins::of(&trace),
            shift: 0,
            prefix: String::new(),
            phases: Vec::new(),
        };
        let lanes = source.lanes(&mut EventNames::default());
        let groups: Vec<&str> = lanes.iter().map(|lane| lane.group.as_str()).collect();
        assert_eq!(groups, ["process 3", "process 7", "process -1"]);
        // Those of two ranks come after the processes of both, folded.
        let ranks = [0_u32, 1].map(|_| RecordedTrace {
            pass: None,
            trace: trace.clone(),
        });
        let record = RunRecord {
            traces: ranks.into(),
            ..RunRecord::default()
        };
        let lanes = ViewTimeline::from_record(&record, None)
            .unwrap()
            .lanes_json();
        let lanes = lanes["lanes"].as_array().unwrap();
        let folded: Vec<bool> = lanes.iter().map(|lane| lane["is_folded"] == true).collect();
        assert_eq!(folded, [false, false, false, false, true, true]);
    }

    #[test]
    fn nested_slices_are_below_what_holds_them() {
        let slice = |start, end, row| LaneSlice {
            start,
            end,
            name: 0,
            event: EventRef::new(table::HOSTS, row),
        };
        let lane = lay_out(
            LaneDraft {
                group: String::new(),
                title: String::new(),
                kind: LaneKind::Host,
                slices: vec![
                    slice(6, 9, 3),
                    slice(0, 10, 0),
                    slice(1, 5, 1),
                    slice(2, 4, 2),
                    slice(10, 11, 4),
                ],
                is_made_up: false,
            },
            0,
        );
        let rows: Vec<Vec<usize>> = lane
            .tracks
            .iter()
            .map(|track| {
                (0..track.len())
                    .map(|row| track.slice(row).event.row())
                    .collect()
            })
            .collect();
        assert_eq!(rows, [vec![0, 4], vec![1, 3], vec![2]]);
    }
}
