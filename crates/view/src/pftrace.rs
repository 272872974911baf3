//! Export to Perfetto's protobuf trace: every lane as a track, launches as flows, counters, phases, idle time by cause.
//!
//! Fields are those of <https://perfetto.dev/docs/reference/trace-packet-proto>, written by hand: a packet is a few varints. Slices of one
//! track must nest there, so those of a lane that overlap go to further tracks of the same name.

use std::cmp::Reverse;
use std::io::{self, Write};

use llmprof_record::run::RunRecord;

use crate::counter::Counter;
use crate::lanes::{LaneKind, ViewLane, idle_parts, table};
use crate::timeline::ViewTimeline;
use crate::track::LaneSlice;

/// All packets are of one writer, whose names are interned once.
const SEQUENCE: u64 = 1;
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
/// `CLOCK_BOOTTIME`, which Perfetto takes for the trace's own clock without a snapshot.
const BOOTTIME: u64 = 6;
const BYTES_UNIT: u64 = 3;
/// Children of a track are in the order of their ranks.
const EXPLICIT_ORDER: u64 = 3;
const ROOT_NAME: &str = "llmprof";

mod packet {
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const CLOCK_ID: u32 = 58;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
}

#[derive(Clone, Copy)]
enum EventType {
    Begin = 1,
    End = 2,
    Counter = 4,
}

#[derive(Clone, Copy)]
enum TrackKind<'a> {
    /// Of other tracks, in the order of their ranks.
    Group,
    Slices,
    Counter(&'a Counter),
}

/// A message as it grows.
#[derive(Default)]
struct ProtoMessage(Vec<u8>);

impl ProtoMessage {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) -> &mut Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    fn fixed64(&mut self, field: u32, value: u64) -> &mut Self {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn clear(&mut self) -> &mut Self {
        self.0.clear();
        self
    }
}

/// Facts of a slice that Perfetto shows as arguments.
enum DebugAnnotation<'a> {
    Number(&'static str, i64),
    Text(&'static str, &'a str),
}

struct PacketWriter<'a, W> {
    out: W,
    timeline: &'a ViewTimeline,
    record: &'a RunRecord,
    packet: ProtoMessage,
    part: ProtoMessage,
    inner: ProtoMessage,
    /// Names that Perfetto knows already, by their number here.
    known: Vec<bool>,
    next_track: u64,
    is_first: bool,
}

impl ViewTimeline {
    /// Writes the timeline as a Perfetto trace (`.pftrace`).
    pub fn write_pftrace(&self, record: &RunRecord, out: impl Write) -> io::Result<()> {
        let mut writer = PacketWriter {
            out,
            timeline: self,
            record,
            packet: ProtoMessage::default(),
            part: ProtoMessage::default(),
            inner: ProtoMessage::default(),
            known: vec![false; self.names.len()],
            next_track: 1,
            is_first: true,
        };
        // Perfetto sorts tracks without a parent by name, so the groups get one.
        let root = writer.describe_track(ROOT_NAME, None, TrackKind::Group)?;
        let mut group: Option<(&str, u64)> = None;
        for (rank, lane) in (0..).zip(&self.lanes) {
            let parent = match group {
                Some((name, track)) if name == lane.group => track,
                _ => {
                    let place = Some((root, rank));
                    let track = writer.describe_track(&lane.group, place, TrackKind::Group)?;
                    group = Some((&lane.group, track));
                    track
                }
            };
            let place = (parent, rank);
            match &lane.counter {
                Some(counter) => {
                    let kind = TrackKind::Counter(counter);
                    let track = writer.describe_track(&lane.title, Some(place), kind)?;
                    for (time, value) in counter.points() {
                        writer.counter(track, time, value)?;
                    }
                }
                None => writer.lane(lane, place)?,
            }
        }
        writer.out.flush()
    }
}

impl<W: Write> PacketWriter<'_, W> {
    fn send(&mut self) -> io::Result<()> {
        let mut head = [0; 11];
        // Field 1 of the trace, a message.
        head[0] = 1 << 3 | 2;
        let mut length = 1;
        let mut rest = self.packet.0.len() as u64;
        loop {
            let is_last = rest < 0x80;
            head[length] = rest as u8 & 0x7f | if is_last { 0 } else { 0x80 };
            length += 1;
            rest >>= 7;
            if is_last {
                break;
            }
        }
        self.out.write_all(&head[..length])?;
        self.out.write_all(&self.packet.0)
    }

    /// A new track, under a parent as the one of a rank.
    fn describe_track(
        &mut self,
        name: &str,
        place: Option<(u64, u64)>,
        kind: TrackKind<'_>,
    ) -> io::Result<u64> {
        let track = self.next_track;
        self.next_track += 1;
        self.part.clear().number(1, track).bytes(2, name.as_bytes());
        if let Some((parent, rank)) = place {
            self.part.number(5, parent).number(12, rank);
        }
        match kind {
            TrackKind::Group => {
                self.part.number(11, EXPLICIT_ORDER);
            }
            TrackKind::Slices => {}
            TrackKind::Counter(counter) => {
                self.inner.clear();
                if counter.unit == "bytes" {
                    self.inner.number(3, BYTES_UNIT);
                }
                self.part.bytes(8, &self.inner.0);
            }
        }
        self.packet.clear().number(packet::SEQUENCE_ID, SEQUENCE);
        if std::mem::take(&mut self.is_first) {
            self.packet.number(packet::SEQUENCE_FLAGS, CLEARED);
        }
        self.packet.bytes(packet::TRACK_DESCRIPTOR, &self.part.0);
        self.send()?;
        Ok(track)
    }

    /// Times since the origin: Perfetto's are unsigned.
    fn head(&mut self, time: i64) {
        let time = time.saturating_sub(self.timeline.origin).max(0) as u64;
        self.packet
            .clear()
            .number(packet::TIMESTAMP, time)
            .number(packet::CLOCK_ID, BOOTTIME)
            .number(packet::SEQUENCE_ID, SEQUENCE)
            .number(packet::SEQUENCE_FLAGS, NEEDS_STATE);
    }

    fn counter(&mut self, track: u64, time: i64, value: f64) -> io::Result<()> {
        self.head(time);
        self.part
            .clear()
            .number(9, EventType::Counter as u64)
            .number(11, track)
            .fixed64(44, value.to_bits());
        self.packet.bytes(packet::TRACK_EVENT, &self.part.0);
        self.send()
    }

    fn lane(&mut self, lane: &ViewLane, place: (u64, u64)) -> io::Result<()> {
        for slices in nested(lane) {
            let track = self.describe_track(&lane.title, Some(place), TrackKind::Slices)?;
            let mut open: Vec<i64> = Vec::new();
            for slice in slices {
                while open.last().is_some_and(|&end| end <= slice.start) {
                    let end = open.pop().unwrap_or(slice.start);
                    self.end(track, end)?;
                }
                self.begin(lane, track, &slice)?;
                open.push(slice.end);
            }
            while let Some(end) = open.pop() {
                self.end(track, end)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, track: u64, time: i64) -> io::Result<()> {
        self.head(time);
        self.part
            .clear()
            .number(9, EventType::End as u64)
            .number(11, track);
        self.packet.bytes(packet::TRACK_EVENT, &self.part.0);
        self.send()
    }

    fn begin(&mut self, lane: &ViewLane, track: u64, slice: &LaneSlice) -> io::Result<()> {
        let name = slice.name;
        // Numbers of interned names begin at 1.
        let iid = u64::from(name) + 1;
        self.head(slice.start);
        if !std::mem::replace(&mut self.known[name as usize], true) {
            let text = self.timeline.names.text(name).as_bytes();
            self.inner.clear().number(1, iid).bytes(2, text);
            self.part.clear().bytes(2, &self.inner.0);
            self.packet.bytes(packet::INTERNED_DATA, &self.part.0);
        }
        self.part
            .clear()
            .number(9, EventType::Begin as u64)
            .number(10, iid)
            .number(11, track)
            .bytes(22, self.timeline.names.category(name).as_bytes());
        self.arguments(lane, slice);
        self.packet.bytes(packet::TRACK_EVENT, &self.part.0);
        self.send()
    }

    /// Flows from a call to what it launched, and the facts of device events and gaps.
    fn arguments(&mut self, lane: &ViewLane, slice: &LaneSlice) {
        let Some(on) = self.timeline.traces.get(lane.trace) else {
            return;
        };
        let trace = &self.record.traces[on.index].trace;
        let row = slice.event.row();
        let flow = |call: u32| ((lane.trace as u64 + 1) << 32) | u64::from(call);
        let origin = match slice.event.table() {
            table::KERNELS => on.origins.of_kernel(row),
            table::COPIES => on.origins.of_copy(row),
            table::MEMSETS => on.origins.of_memset(row),
            table::HOSTS => {
                let first = on
                    .launched
                    .partition_point(|(call, _)| (*call as usize) < row);
                if on
                    .launched
                    .get(first)
                    .is_some_and(|(call, _)| *call as usize == row)
                {
                    self.part.fixed64(47, flow(row as u32));
                }
                return;
            }
            table::IDLE_GAPS => {
                for (label, time) in idle_parts(&on.origins.gaps()[row]) {
                    if time > 0 {
                        self.argument(&DebugAnnotation::Number(label, time));
                    }
                }
                return;
            }
            _ => return,
        };
        if let Some(call) = origin.call {
            // A call may launch a whole graph: its flow goes on to every event of it.
            self.part.fixed64(47, flow(call));
        }
        if let Some(operator) = origin.operator {
            let name = trace.text(trace.hosts.name[operator as usize]);
            self.argument(&DebugAnnotation::Text("operator", name));
        }
        if let Some(modules) = on.origins.modules(trace, origin) {
            self.argument(&DebugAnnotation::Text("module", &modules));
        }
        match slice.event.table() {
            table::KERNELS => {
                let kernel = trace.kernels.row(row);
                let blocks = kernel.grid.iter().map(|&blocks| i64::from(blocks));
                let threads = kernel.block.iter().map(|&threads| i64::from(threads));
                let facts = [
                    ("correlation", i64::from(kernel.correlation)),
                    ("blocks", blocks.product()),
                    ("threads_per_block", threads.product()),
                ];
                for (name, value) in facts {
                    self.argument(&DebugAnnotation::Number(name, value));
                }
            }
            table::COPIES => {
                self.argument(&DebugAnnotation::Number(
                    "bytes",
                    trace.copies.bytes[row] as i64,
                ));
            }
            _ => {}
        }
    }

    fn argument(&mut self, argument: &DebugAnnotation<'_>) {
        self.inner.clear();
        match argument {
            DebugAnnotation::Number(name, value) => self
                .inner
                .number(4, *value as u64)
                .bytes(10, name.as_bytes()),
            DebugAnnotation::Text(name, text) => self
                .inner
                .bytes(6, text.as_bytes())
                .bytes(10, name.as_bytes()),
        };
        self.part.bytes(4, &self.inner.0);
    }
}

/// The slices of a lane in groups in which each lies within the one before it or after its end.
fn nested(lane: &ViewLane) -> Vec<Vec<LaneSlice>> {
    let tracks = lane.tracks.iter();
    let mut slices: Vec<LaneSlice> = tracks
        .flat_map(|track| (0..track.len()).map(|row| track.slice(row)))
        .collect();
    slices.sort_by_key(|slice| (slice.start, Reverse(slice.end)));
    let mut groups: Vec<(Vec<i64>, Vec<LaneSlice>)> = Vec::new();
    for slice in slices {
        let fits = |(open, _): &mut (Vec<i64>, Vec<LaneSlice>)| {
            while open.last().is_some_and(|&end| end <= slice.start) {
                open.pop();
            }
            // Device events that nest are still two events of a stream, one beside the other.
            match lane.kind {
                LaneKind::Stream => open.is_empty(),
                _ => open.last().is_none_or(|&end| slice.end <= end),
            }
        };
        let place = groups.iter_mut().position(fits);
        let place = place.unwrap_or_else(|| {
            groups.push((Vec::new(), Vec::new()));
            groups.len() - 1
        });
        let (open, group) = &mut groups[place];
        open.push(slice.end);
        group.push(slice);
    }
    groups.into_iter().map(|(_, slices)| slices).collect()
}
