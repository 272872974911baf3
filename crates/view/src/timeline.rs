//! A run as a timeline: its lanes on one clock, and what can be asked of them.

use llmprof_analysis::{Analysis, EventOrigins};
use llmprof_record::run::{RunRecord, is_graph_capture, rank_of};
use llmprof_record::trace::{HostKind, Trace};
use llmprof_units::Nanos;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::ViewError;
use crate::lanes::{LaneKind, LaneSource, ViewLane};
use crate::load_lanes::{ClockShifts, load_lanes};
use crate::names::EventNames;
use crate::tile::{TILE_PX, TilePlace, encode_track, top_level};
use crate::track::{EventRef, LaneSlice, Track};

/// A tile of more slices than this is cut when the run is opened: of 10⁷ slices some sixty tiles, about a byte a slice.
const COARSE_TILE_SLICES: usize = 150_000;

/// The clock that the ranks of a job share.
pub(crate) struct JobClock<'a> {
    /// The trace whose clock it is.
    pub(crate) first_trace: Option<&'a Trace>,
    pub(crate) analysis: Option<&'a Analysis>,
    /// Its time at the left edge.
    pub(crate) origin: i64,
}

/// A trace on the timeline.
pub(crate) struct TimelineTrace {
    /// Index in [`RunRecord::traces`].
    pub(crate) index: usize,
    pub(crate) shift: i64,
    pub(crate) origins: EventOrigins,
    /// `(call, event)` of every device event whose launch is recorded, by call.
    pub(crate) launched: Vec<(u32, EventRef)>,
}

/// The lanes of a run.
pub struct ViewTimeline {
    /// The first moment, on the clock of the first trace.
    pub origin: i64,
    /// From the first to the last moment, ns.
    pub span: i64,
    pub lanes: Vec<ViewLane>,
    pub(crate) names: EventNames,
    pub(crate) traces: Vec<TimelineTrace>,
    /// Phases with their intervals on the clock of the first trace.
    pub(crate) phases: Vec<(String, i64, i64)>,
    pub(crate) clocks: ClockShifts,
    /// By lane and place.
    coarse_tiles: FxHashMap<(usize, TilePlace), Vec<u8>>,
}

impl ViewTimeline {
    /// Lays out every timeline of a run; graph captures, which show no work, are left out.
    pub fn from_record(record: &RunRecord, analysis: Option<&Analysis>) -> Result<Self, ViewError> {
        Self::lay_out(record, analysis, None)
    }

    /// Lays out a rank on the clock of `job`, which keeps the timeline of another.
    pub(crate) fn of_rank(record: &RunRecord, job: &JobClock<'_>) -> Result<Self, ViewError> {
        Self::lay_out(record, None, Some(job))
    }

    fn lay_out(
        record: &RunRecord,
        analysis: Option<&Analysis>,
        job: Option<&JobClock<'_>>,
    ) -> Result<Self, ViewError> {
        let shown: Vec<(usize, &Trace)> = (record.traces.iter().enumerate())
            .map(|(index, recorded)| (index, &recorded.trace))
            .filter(|(index, trace)| *index == 0 || !is_graph_capture(trace))
            .collect();
        for (_, trace) in &shown {
            if trace.rows() >= EventRef::ROWS_MAX {
                return Err(ViewError::TooManyEvents {
                    events: trace.rows(),
                });
            }
        }
        let phases = analysis.map_or_else(Vec::new, phases_of);
        let mut names = EventNames::default();
        let (mut lanes, mut traces) = (Vec::new(), Vec::new());
        for (number, &(index, trace)) in shown.iter().enumerate() {
            let origins = EventOrigins::of(trace);
            let shift = match job {
                Some(job) => {
                    (job.first_trace).map_or(0, |first| clock_shift(first, trace, job.analysis))
                }
                None if number == 0 => 0,
                None => clock_shift(shown[0].1, trace, analysis),
            };
            let source = LaneSource {
                number,
                trace,
                origins: &origins,
                shift,
                prefix: match rank_of(trace) {
                    Some(rank) if shown.len() > 1 => format!("rank {rank}"),
                    None if shown.len() > 1 => format!("trace {}", number + 1),
                    _ => String::new(),
                },
                phases: if number == 0 {
                    phases.clone()
                } else {
                    Vec::new()
                },
            };
            lanes.extend(source.lanes(&mut names));
            traces.push(TimelineTrace {
                index,
                shift,
                launched: launched_events(trace, &origins),
                origins,
            });
        }
        // Marks of profilers come after the lanes of all ranks.
        lanes.sort_by_key(|lane: &ViewLane| lane.is_made_up);
        let clocks = ClockShifts::from_record(record, shown.first().map(|(_, trace)| *trace));
        lanes.extend(load_lanes(record, clocks, &mut names));
        let spans = lanes.iter().filter_map(lane_span);
        let (origin, end) = spans
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
            .unwrap_or((0, 0));
        let origin = job.map_or(origin, |job| job.origin);
        let mut timeline = Self {
            origin,
            span: end.saturating_sub(origin),
            lanes,
            names,
            traces,
            phases,
            clocks,
            coarse_tiles: FxHashMap::default(),
        };
        timeline.coarse_tiles = timeline.cut_coarse_tiles();
        Ok(timeline)
    }

    /// Tiles of so many slices that cutting one takes longer than a person should wait: a pixel of them asks far-apart places of memory.
    fn cut_coarse_tiles(&self) -> FxHashMap<(usize, TilePlace), Vec<u8>> {
        let mut places = Vec::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            let slices: usize = lane.tracks.iter().map(Track::len).sum();
            for level in (0..=top_level(self.span)).rev() {
                let tiles = self.span / (TILE_PX << level) + 1;
                if slices < COARSE_TILE_SLICES.saturating_mul(tiles as usize) {
                    break;
                }
                places.extend((0..tiles).map(|x| (number, TilePlace { level, x })));
            }
        }
        let cut = places.into_par_iter();
        cut.filter_map(|(lane, place)| Some(((lane, place), self.cut_tile(lane, place)?)))
            .collect()
    }

    /// A time since 1970 as nanoseconds after the origin, where the clocks are joined.
    pub(crate) fn unix_to_timeline(&self, time: Nanos) -> Option<i64> {
        Some(time.0.saturating_add(self.clocks.unix_ns?) - self.origin)
    }

    /// Slices and points of all lanes.
    pub fn events(&self) -> usize {
        let tracks = self.lanes.iter().flat_map(|lane| &lane.tracks);
        let counters = self.lanes.iter().filter_map(|lane| lane.counter.as_ref());
        tracks.map(Track::len).sum::<usize>()
            + counters.map(crate::counter::Counter::len).sum::<usize>()
    }

    /// Bytes of memory that lanes take beside the traces.
    pub fn memory_bytes(&self) -> usize {
        let lane = |lane: &ViewLane| {
            let tracks = lane.tracks.iter().map(Track::memory_bytes);
            tracks.sum::<usize>()
                + lane
                    .counter
                    .as_ref()
                    .map_or(0, crate::counter::Counter::memory_bytes)
        };
        let coarse = self.coarse_tiles.values().map(Vec::capacity);
        self.lanes.iter().map(lane).sum::<usize>() + coarse.sum::<usize>()
    }

    pub fn lanes_json(&self) -> Value {
        let is_host = |lane: &ViewLane| {
            let kinds = [LaneKind::Host, LaneKind::Ranges, LaneKind::HostStacks];
            kinds.contains(&lane.kind)
        };
        let mut hosts = self.lanes.iter().filter(|lane| is_host(lane));
        let has_real_hosts = hosts.any(|lane| !lane.is_made_up);
        let lanes = self.lanes.iter().map(|lane| {
            json!({
                "group": lane.group,
                "title": lane.title,
                "kind": lane.kind,
                "trace": lane.trace,
                "tracks": lane.tracks.len(),
                "slices": lane.tracks.iter().map(Track::len).sum::<usize>(),
                "hidden": lane.hidden,
                "is_folded": lane.is_made_up && has_real_hosts,
                "unit": lane.counter.as_ref().map(|counter| counter.unit),
                "largest": lane.counter.as_ref().map(|counter| counter.largest),
            })
        });
        json!({
            "span_ns": self.span,
            "origin_ns": self.origin,
            "top_level": top_level(self.span),
            "names": self.names.len(),
            "events": self.events(),
            "lanes": lanes.collect::<Vec<_>>(),
        })
    }

    /// When the host began the operator that launched the work at the start of a window, where the window begins with device work.
    pub(crate) fn host_start(&self, record: &RunRecord, window_start: i64) -> Option<i64> {
        let first = self.traces.first()?;
        let trace = &record.traces[first.index].trace;
        let begins = |starts: &[i64]| starts.iter().position(|&start| start == window_start);
        let origins = &first.origins;
        let origin = begins(&trace.kernels.start)
            .map(|row| origins.of_kernel(row))
            .or_else(|| begins(&trace.copies.start).map(|row| origins.of_copy(row)))
            .or_else(|| begins(&trace.memsets.start).map(|row| origins.of_memset(row)))?;
        let hosts = &trace.hosts;
        let call = origin.call? as usize;
        let (thread, called) = (hosts.thread[call], hosts.start[call]);
        let around = (0..hosts.len()).filter(|&row| {
            let end = hosts.start[row].saturating_add(hosts.duration[row]);
            let is_operator = hosts.kind[row] == HostKind::OPERATOR && hosts.thread[row] == thread;
            is_operator && hosts.start[row] <= called && called < end
        });
        let outermost = around.map(|row| hosts.start[row]).min();
        Some(outermost.unwrap_or(called).min(window_start))
    }

    /// Start and end of the pause between two operators of one thread that is closest to a length; `None` where none is within a tenth of it.
    pub(crate) fn find_pause(
        &self,
        record: &RunRecord,
        between: (Option<&str>, Option<&str>),
        length: i64,
    ) -> Option<(i64, i64)> {
        let first = self.traces.first()?;
        let trace = &record.traces[first.index].trace;
        let hosts = &trace.hosts;
        let mut operators: Vec<usize> = (0..hosts.len())
            .filter(|&row| hosts.kind[row] == HostKind::OPERATOR)
            .collect();
        operators.sort_by_key(|&row| (hosts.thread[row].0, hosts.start[row]));
        let is_named = |row: usize, name: Option<&str>| {
            name.is_none_or(|name| trace.text(hosts.name[row]) == name)
        };
        let mut closest: Option<(i64, i64)> = None;
        // The operator that ended last, and when.
        let mut ended: Option<(usize, i64)> = None;
        for row in operators {
            let start = hosts.start[row];
            let end = start.saturating_add(hosts.duration[row]);
            let last = ended.filter(|(last, _)| hosts.thread[*last] == hosts.thread[row]);
            if let Some((before, pause)) = last.filter(|(_, pause)| *pause < start)
                && is_named(before, between.0)
                && is_named(row, between.1)
            {
                let error = |(from, to): (i64, i64)| (to - from - length).abs();
                if closest.is_none_or(|known| error((pause, start)) < error(known)) {
                    closest = Some((pause, start));
                }
            }
            if last.is_none_or(|(_, last)| last <= end) {
                ended = Some((row, end));
            }
        }
        closest.filter(|(from, to)| (to - from - length).abs() <= length / 10)
    }

    pub fn names_json(&self, block: usize) -> Option<Value> {
        self.names.block(block)
    }

    /// One lane at one place; `None` where there is no such lane or place. Counters are JSON, slices binary.
    pub fn tile(&self, lane: usize, place: TilePlace) -> Option<Vec<u8>> {
        match self.coarse_tiles.get(&(lane, place)) {
            Some(tile) => Some(tile.clone()),
            None => self.cut_tile(lane, place),
        }
    }

    fn cut_tile(&self, lane: usize, place: TilePlace) -> Option<Vec<u8>> {
        let lane = self.lanes.get(lane)?;
        place.interval()?;
        if let Some(counter) = &lane.counter {
            return Some(counter.tile(self.origin, place).to_string().into_bytes());
        }
        let encoded = |track: &Track| {
            let mut out = Vec::new();
            encode_track(track, self.origin, place, &mut out);
            out
        };
        // Stacks are tens of tracks deep.
        let tracks: Vec<Vec<u8>> = lane.tracks.par_iter().map(encoded).collect();
        Some(tracks.concat())
    }

    /// The lane and track of an event of a trace, with its slice there.
    pub(crate) fn locate(
        &self,
        trace: usize,
        event: EventRef,
        start: i64,
    ) -> Option<(usize, usize)> {
        let lanes = self.lanes.iter().enumerate();
        lanes
            .filter(|(_, lane)| lane.trace == trace && may_hold(lane.kind, event.table()))
            .find_map(|(number, lane)| {
                let has = |track: &Track| {
                    let first = track.begun_before(start);
                    let mut rows = (first..track.len()).map(|row| track.slice(row));
                    rows.by_ref()
                        .take_while(|slice| slice.start == start)
                        .any(|slice| slice.event == event)
                };
                Some((number, lane.tracks.iter().position(has)?))
            })
    }

    /// All slices of lanes that `keep` accepts, with the number of the lane.
    pub(crate) fn slices(
        &self,
        keep: impl Fn(&ViewLane) -> bool,
    ) -> impl Iterator<Item = (usize, LaneSlice)> {
        let lanes = self.lanes.iter().enumerate();
        lanes
            .filter(move |(_, lane)| keep(lane))
            .flat_map(|(number, lane)| {
                let tracks = lane.tracks.iter();
                tracks.flat_map(move |track| {
                    (0..track.len()).map(move |row| (number, track.slice(row)))
                })
            })
    }
}

fn may_hold(kind: LaneKind, table: u8) -> bool {
    use crate::lanes::table as tables;
    match kind {
        LaneKind::Phases => table == tables::PHASES,
        LaneKind::GpuIdle => table == tables::IDLE_GAPS,
        LaneKind::Stream => matches!(table, tables::KERNELS | tables::COPIES | tables::MEMSETS),
        LaneKind::DeviceRanges | LaneKind::Ranges => table == tables::RANGES,
        LaneKind::Synchronization => table == tables::SYNCS,
        LaneKind::Host => table == tables::HOSTS,
        LaneKind::HostStacks => table == tables::STACKS,
        LaneKind::Requests => table == tables::REQUESTS,
        LaneKind::EngineSteps => table == tables::ENGINE_STEPS,
        LaneKind::Counter => false,
    }
}

fn lane_span(lane: &ViewLane) -> Option<(i64, i64)> {
    if let Some(counter) = &lane.counter {
        return counter.span();
    }
    let tracks = lane.tracks.iter().filter(|track| !track.is_empty());
    let spans = tracks.map(|track| (track.slice(0).start, track.slice(track.len() - 1).end));
    spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

fn phases_of(analysis: &Analysis) -> Vec<(String, i64, i64)> {
    let Some(timeline) = &analysis.timeline else {
        return Vec::new();
    };
    let mut phases: Vec<(String, i64, i64)> = (timeline.phases.iter())
        .flat_map(|phase| {
            let windows = phase.windows.iter();
            windows.map(|window| {
                let start = window.start_ns.0;
                (
                    phase.name.clone(),
                    start,
                    start.saturating_add(window.span_ns.0),
                )
            })
        })
        .collect();
    phases.sort_by_key(|phase| (phase.1, phase.2));
    phases
}

/// What is added to the times of a trace to put it on the clock of the first: the difference of the clocks' origins, less what the
/// clock of its rank is ahead by the ends of collectives.
fn clock_shift(first: &Trace, trace: &Trace, analysis: Option<&Analysis>) -> i64 {
    let origin = |trace: &Trace| trace.clock_origin_ns.map(|origin| origin.0);
    let apart = match (origin(first), origin(trace)) {
        (Some(first), Some(other)) => other.saturating_sub(first),
        _ => 0,
    };
    let ranks = analysis.and_then(|analysis| analysis.ranks.as_ref());
    let row = ranks.and_then(|ranks| {
        let rank = rank_of(trace)?;
        ranks.ranks.iter().find(|row| row.rank == rank)
    });
    apart.saturating_sub(row.map_or(0, |row| row.clock.offset_ns.0))
}

fn launched_events(trace: &Trace, origins: &EventOrigins) -> Vec<(u32, EventRef)> {
    use crate::lanes::table;
    let kernels = (0..trace.kernels.len()).map(|row| {
        (
            origins.of_kernel(row).call,
            EventRef::new(table::KERNELS, row),
        )
    });
    let copies = (0..trace.copies.len())
        .map(|row| (origins.of_copy(row).call, EventRef::new(table::COPIES, row)));
    let memsets = (0..trace.memsets.len()).map(|row| {
        (
            origins.of_memset(row).call,
            EventRef::new(table::MEMSETS, row),
        )
    });
    let mut launched: Vec<(u32, EventRef)> = kernels
        .chain(copies)
        .chain(memsets)
        .filter_map(|(call, event)| Some((call?, event)))
        .collect();
    launched.sort_unstable_by_key(|(call, event)| (*call, event.0));
    launched
}

#[cfg(test)]
mod tests {
    use llmprof_record::run::RecordedTrace;
    use llmprof_record::trace::{Host, Kernel, TraceBuilder};

    use super::*;

    /// An operator of 100 ns launches a kernel at its end; after 50 and after 400 ns without operators another follows.
    fn record() -> RunRecord {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let [linear, slice, launch] =
            ["aten::linear", "aten::slice", "cudaLaunchKernel"].map(|name| builder.intern(name));
        let mut host = |start, duration, name, kind, correlation| {
            builder.hosts.push(Host {
                start,
                duration,
                name,
                thread,
                kind,
                correlation,
                ..Host::default()
            });
        };
        host(1_000, 100, linear, HostKind::OPERATOR, 0);
        host(1_080, 10, launch, HostKind::RUNTIME, 1);
        host(1_150, 20, slice, HostKind::OPERATOR, 0);
        host(1_200, 100, linear, HostKind::OPERATOR, 0);
        host(1_700, 20, slice, HostKind::OPERATOR, 0);
        builder.kernels.push(Kernel {
            start: 1_095,
            duration: 30,
            name: linear,
            correlation: 1,
            ..Kernel::default()
        });
        RunRecord {
            traces: vec![RecordedTrace {
                pass: None,
                trace: builder.finish(),
            }],
            ..RunRecord::default()
        }
    }

    #[test]
    fn a_window_that_begins_with_a_kernel_begins_with_the_operator_that_launched_it() {
        let record = record();
        let timeline = ViewTimeline::from_record(&record, None).unwrap();
        assert_eq!(timeline.host_start(&record, 1_095), Some(1_000));
        assert_eq!(
            timeline.host_start(&record, 1_000),
            None,
            "the host's own time"
        );
    }

    #[test]
    fn a_pause_is_found_by_its_operators_and_its_length() {
        let record = record();
        let timeline = ViewTimeline::from_record(&record, None).unwrap();
        let between = (Some("aten::linear"), Some("aten::slice"));
        assert_eq!(
            timeline.find_pause(&record, between, 400),
            Some((1_300, 1_700))
        );
        assert_eq!(
            timeline.find_pause(&record, between, 50),
            Some((1_100, 1_150))
        );
        assert_eq!(timeline.find_pause(&record, between, 200), None);
        let turned = (Some("aten::slice"), Some("aten::linear"));
        assert_eq!(timeline.find_pause(&record, turned, 400), None);
    }
}
