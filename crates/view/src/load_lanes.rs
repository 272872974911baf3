//! A load as lanes: its requests, the engine steps that served them, and what the server and the machine reported meanwhile.

use std::cmp::Reverse;

use llmprof_record::run::{Request, RunRecord};
use llmprof_record::samples::{GpuSample, Sample};
use llmprof_record::serving::{EngineStep, Gauges, RequestRecord, ServedLoad};
use llmprof_record::trace::Trace;
use llmprof_units::Nanos;

use crate::counter::Counter;
use crate::lanes::{LaneKind, TRACKS_MAX, ViewLane, lay_out_slices, table};
use crate::names::{EventNames, Named};
use crate::track::{EventRef, LaneSlice, Track};

/// What is added to times of other clocks to put them on the clock of the timeline; `None` where no record joins the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockShifts {
    /// Shift of the Unix clock, ns.
    pub(crate) unix_ns: Option<i64>,
    /// The clock of the run: requests of passes, telemetry.
    pub(crate) run_ns: Option<i64>,
}

impl ClockShifts {
    /// The timeline is on the clock of the first trace; without one, on that of the load, or of the run.
    pub(crate) fn from_record(record: &RunRecord, first: Option<&Trace>) -> Self {
        let samples = record.samples.as_ref();
        let run_since_1970 = samples
            .map(|samples| samples.unix_offset_ns.0)
            .filter(|&offset| offset != 0);
        let unix_ns = match (first, &record.load) {
            (Some(trace), _) => trace.clock_origin_ns.map(|origin| -origin.0),
            (None, Some(load)) => Some(-load.load.started_unix_ns.0),
            (None, None) => run_since_1970.map(|offset| -offset),
        };
        let is_run_clock = first.is_none() && record.load.is_none();
        let joined = run_since_1970
            .zip(unix_ns)
            .map(|(offset, shift)| offset + shift);
        Self {
            unix_ns,
            run_ns: if is_run_clock { Some(0) } else { joined },
        }
    }
}

pub(crate) fn load_lanes(
    record: &RunRecord,
    clocks: ClockShifts,
    names: &mut EventNames,
) -> Vec<ViewLane> {
    let mut lanes = Vec::new();
    match &record.load {
        Some(load) => {
            if let Some(shift) = clocks.unix_ns {
                lanes.extend(served_lanes(load, shift, names));
            }
        }
        None => {
            if let Some(shift) = clocks.run_ns {
                let spans = record.requests.iter().map(pass_spans);
                lanes.extend(request_lane("Requests", spans, shift, names));
            }
        }
    }
    if let Some(shift) = clocks.run_ns {
        lanes.extend(telemetry_lanes(record, shift));
    }
    lanes
}

fn served_lanes(load: &ServedLoad, shift: i64, names: &mut EventNames) -> Vec<ViewLane> {
    let started = load.load.started_unix_ns.0 + shift;
    let spans = load.load.requests.iter().map(served_spans);
    let mut lanes: Vec<ViewLane> = request_lane("Load", spans, started, names)
        .into_iter()
        .collect();
    let steps = load.steps.iter().enumerate().map(|(row, step)| LaneSlice {
        start: step.start_unix_ns.0 + shift,
        end: step.end_unix_ns.0.max(step.start_unix_ns.0) + shift,
        name: names.of_text(Named::As("engine step"), step_name(step)),
        event: EventRef::new(table::ENGINE_STEPS, row),
    });
    let steps: Vec<LaneSlice> = steps.collect();
    if !steps.is_empty() {
        let (tracks, hidden) = lay_out_slices(steps);
        lanes.push(lane(
            "Load",
            "engine steps",
            LaneKind::EngineSteps,
            tracks,
            hidden,
        ));
    }
    if let Some(server) = &load.server {
        let gauge = |title: &str, unit, value: fn(&Gauges) -> Option<f64>| {
            let points = server.gauges.iter();
            let points = points.filter_map(|(time, gauges)| Some((time.0 + shift, value(gauges)?)));
            counter_lane("Load", title, unit, points.collect())
        };
        lanes.extend(gauge("running requests", "", |gauges| gauges.running));
        lanes.extend(gauge("waiting requests", "", |gauges| gauges.waiting));
        lanes.extend(gauge("KV cache in use", "%", |gauges| {
            gauges.kv_usage.map(|share| share * 100.0)
        }));
    }
    lanes
}

/// What the sequences of an engine step do.
pub(crate) fn step_name(step: &EngineStep) -> &'static str {
    match (step.prefill.sequences, step.decode.sequences) {
        (0, 0) => "empty step",
        (_, 0) => "prefill step",
        (0, _) => "decode step",
        _ => "mixed step",
    }
}

/// Parts of a request, one after the other: start, end and name.
type Spans = Vec<(Nanos, Nanos, String)>;

fn served_spans(request: &RequestRecord) -> Spans {
    let sent = request.sent_ns.unwrap_or(request.end_ns);
    let first = request.arrivals.first().map(|arrival| arrival.at_ns);
    let mut spans = vec![(request.scheduled_ns, sent, "in the client".to_owned())];
    let ending = match &request.failure {
        Some(failure) => format!("failed: {}", failure.kind.name()),
        None if request.is_whole => "whole answer".to_owned(),
        None => "tokens".to_owned(),
    };
    match first.filter(|_| !request.is_whole) {
        Some(first) => {
            spans.push((sent, first, "until the first token".to_owned()));
            spans.push((first, request.end_ns, ending));
        }
        None => spans.push((sent, request.end_ns, ending)),
    }
    spans
}

fn pass_spans(request: &Request) -> Spans {
    let Some((&first, &last)) = request.token_ns.first().zip(request.token_ns.last()) else {
        return vec![(request.start_ns, request.start_ns, "no token".to_owned())];
    };
    vec![
        (request.start_ns, first, "until the first token".to_owned()),
        (first, last, "tokens".to_owned()),
    ]
}

/// The parts of a request are on one track, so that a track is a place of the load that requests take in turn.
fn request_lane(
    group: &str,
    requests: impl Iterator<Item = Spans>,
    shift: i64,
    names: &mut EventNames,
) -> Option<ViewLane> {
    let mut units: Vec<Vec<LaneSlice>> = Vec::new();
    for (row, spans) in requests.enumerate() {
        let has_length = spans.iter().any(|(start, end, _)| end > start);
        let kept = spans
            .into_iter()
            .filter(|(start, end, _)| end > start || !has_length);
        let slices = kept.map(|(start, end, name)| LaneSlice {
            start: start.0.saturating_add(shift),
            end: end.0.max(start.0).saturating_add(shift),
            name: names.of_text(Named::As("request"), &name),
            event: EventRef::new(table::REQUESTS, row),
        });
        units.push(slices.collect());
    }
    units.retain(|unit| !unit.is_empty());
    if units.is_empty() {
        return None;
    }
    units.sort_by_key(|unit| (unit[0].start, Reverse(unit[unit.len() - 1].end)));
    let mut tracks: Vec<Track> = Vec::new();
    let mut hidden = 0;
    for unit in units {
        let is_free = |track: &Track| track.last_end().is_none_or(|end| end <= unit[0].start);
        let free = tracks.iter().position(is_free).or_else(|| {
            (tracks.len() < TRACKS_MAX).then(|| {
                tracks.push(Track::default());
                tracks.len() - 1
            })
        });
        let Some(free) = free else {
            hidden += unit.len() as u64;
            continue;
        };
        // Times of one request may go back where its clock does; a track's may not.
        for slice in unit {
            if tracks[free].last_end().is_none_or(|end| end <= slice.start) {
                tracks[free].push(slice);
            } else {
                hidden += 1;
            }
        }
    }
    tracks.iter_mut().for_each(Track::index);
    Some(lane(group, "requests", LaneKind::Requests, tracks, hidden))
}

fn telemetry_lanes(record: &RunRecord, shift: i64) -> Vec<ViewLane> {
    let Some(samples) = &record.samples else {
        return Vec::new();
    };
    let mut lanes = Vec::new();
    for gpu in &samples.gpus {
        let group = format!("GPU {} · telemetry", gpu.index);
        let series = |title: &str, unit, value: fn(&GpuSample) -> Option<f64>| {
            let points = gpu.rows.iter();
            let points = points.filter_map(|row| Some((row.time_ns.0 + shift, value(row)?)));
            counter_lane(&group, title, unit, points.collect())
        };
        lanes.extend(series("GPU utilization", "%", |row| row.gpu_percent));
        lanes.extend(series("power", "W", |row| {
            row.power_instant_w.or(row.power_w).map(|power| power.0)
        }));
        lanes.extend(series("SM clock", "Hz", |row| {
            row.sm_clock_hz.map(|clock| clock.0)
        }));
        lanes.extend(series("memory used", "bytes", |row| {
            row.memory_used_bytes.map(|bytes| bytes.0 as f64)
        }));
    }
    let series = |title: &str, unit, value: fn(&Sample) -> Option<f64>| {
        let points = samples.rows.iter();
        let points = points.filter_map(|row| Some((row.time_ns.0 + shift, value(row)?)));
        counter_lane("Host · telemetry", title, unit, points.collect())
    };
    lanes.extend(series("CPU busy", "%", |row| row.cpu_percent));
    lanes.extend(series("worker memory", "bytes", |row| {
        row.worker_rss_bytes.map(|bytes| bytes.0 as f64)
    }));
    lanes
}

fn counter_lane(
    group: &str,
    title: &str,
    unit: &'static str,
    mut points: Vec<(i64, f64)>,
) -> Option<ViewLane> {
    points.retain(|point| point.1.is_finite());
    points.sort_by_key(|point| point.0);
    (!points.is_empty()).then(|| ViewLane {
        counter: Some(Counter::new(unit, points)),
        ..lane(group, title, LaneKind::Counter, Vec::new(), 0)
    })
}

fn lane(group: &str, title: &str, kind: LaneKind, tracks: Vec<Track>, hidden: u64) -> ViewLane {
    ViewLane {
        group: group.to_owned(),
        title: title.to_owned(),
        kind,
        trace: 0,
        tracks,
        counter: None,
        hidden,
        is_made_up: false,
    }
}
