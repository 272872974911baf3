//! Arrows from host calls to device events.
//!
//! Kineto numbers its `ac2g` arrows with the correlation id, which both ends have among their arguments too. The
//! arrows are needed only where an end lacks it, as in traces that were cut down by other tools; then the file is
//! read a second time for them. Some ends have no start (graph launches, calls before the capture): ids join them all
//! the same.
//!
//! Ascend's profiler has no ids in the arguments that both ends share. Its `async_npu` arrows lead from an operator to the task of the
//! device that it asked for, `HostToDevice` arrows from the runtime call.

use std::cmp::Reverse;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::device_lanes::AscendThreads;
use super::event::{Event, Id};
use crate::trace::{HostKind, TraceBuilder};

/// Arrows, where they are collected.
#[derive(Default)]
pub(super) struct Flows {
    /// Whether an event was met that should have a correlation id and has none.
    pub(super) wanted: bool,
    pub(super) keep: bool,
    arrows: Vec<Arrow>,
}

/// Process, thread and time at which an end of an arrow is drawn.
type Place = (i64, i64, i64);

/// One end of an arrow.
#[derive(Clone, Copy)]
struct Arrow {
    place: Place,
    id: u64,
    kind: ArrowKind,
    begins: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrowKind {
    /// From a runtime call to a device event; the id is their correlation id.
    Kineto,
    AscendCall,
    AscendOperator,
}

impl ArrowKind {
    fn from_category(category: &[u8]) -> Option<Self> {
        match category {
            b"ac2g" => Some(Self::Kineto),
            b"HostToDevice" => Some(Self::AscendCall),
            b"async_npu" => Some(Self::AscendOperator),
            _ => None,
        }
    }
}

impl Flows {
    pub(super) fn add(&mut self, event: &Event<'_>) {
        if !self.keep {
            return;
        }
        if let (Some(time), Id::Number(process), Id::Number(thread), Some(kind)) = (
            event.time,
            event.process,
            event.thread,
            ArrowKind::from_category(event.category),
        ) {
            self.arrows.push(Arrow {
                place: (process, thread, time),
                id: event.flow,
                kind,
                begins: event.phase == b's',
            });
        }
    }

    pub(super) fn absorb(&mut self, mut other: Self) {
        self.wanted |= other.wanted;
        self.arrows.append(&mut other.arrows);
    }

    /// Gives events without a correlation id that of the arrow drawn at their beginning.
    pub(super) fn resolve(&self, builder: &mut TraceBuilder) {
        let mut at: HashMap<Place, u32, FxBuildHasher> = HashMap::default();
        let kineto = self
            .arrows
            .iter()
            .filter(|arrow| arrow.kind == ArrowKind::Kineto);
        for arrow in kineto {
            let Ok(arrow_id) = u32::try_from(arrow.id) else {
                continue;
            };
            // Two arrows from one place: the smaller id, whatever their order in the file.
            at.entry(arrow.place)
                .and_modify(|id| *id = arrow_id.min(*id))
                .or_insert(arrow_id);
        }
        macro_rules! on_device {
            ($($table:ident),*) => { $( {
                let table = &mut builder.$table;
                for row in 0..table.len() {
                    if table.correlation[row] == 0 {
                        let place = (i64::from(table.device[row]), i64::from(table.stream[row]), table.start[row]);
                        if let Some(&id) = at.get(&place) {
                            table.correlation.make_mut()[row] = id;
                        }
                    }
                }
            } )* };
        }
        on_device!(kernels, copies, memsets, syncs);
        for row in 0..builder.hosts.len() {
            let call = matches!(
                builder.hosts.kind[row],
                HostKind::RUNTIME | HostKind::DRIVER
            );
            if call && builder.hosts.correlation[row] == 0 {
                let (process, thread) = builder.thread_numbers(builder.hosts.thread[row]);
                if let Some(&id) = at.get(&(process, thread, builder.hosts.start[row])) {
                    builder.hosts.correlation.make_mut()[row] = id;
                }
            }
        }
    }

    /// Joins tasks of an Ascend device with the call and the operator that their arrows begin at. `device_threads` are the process and
    /// thread of each device and stream.
    pub(super) fn resolve_ascend(
        &self,
        builder: &mut TraceBuilder,
        device_threads: &AscendThreads,
    ) {
        let operators = innermost_operators(builder);
        let calls = self.calls_around_arrows(builder);
        let operator_arrows: HashMap<u64, Place, FxBuildHasher> = self
            .begins(ArrowKind::AscendOperator)
            .map(|arrow| (arrow.id, arrow.place))
            .collect();
        let mut tasks: HashMap<(u32, u32, i64), usize, FxBuildHasher> = HashMap::default();
        for row in 0..builder.kernels.len() {
            let kernels = &builder.kernels;
            let place = (kernels.device[row], kernels.stream[row], kernels.start[row]);
            tasks.insert(place, row);
        }
        for end in self.arrows.iter().filter(|arrow| !arrow.begins) {
            let (process, thread, time) = end.place;
            let device = device_threads.get(&(process, thread));
            let task = device.and_then(|&(device, stream)| tasks.get(&(device, stream, time)));
            let Some(&task) = task else { continue };
            match end.kind {
                ArrowKind::Kineto => {}
                ArrowKind::AscendCall => {
                    if let Some(&row) = calls.get(&end.id) {
                        let id = row as u32 + 1;
                        builder.hosts.correlation.make_mut()[row] = id;
                        builder.kernels.correlation.make_mut()[task] = id;
                    }
                }
                ArrowKind::AscendOperator => {
                    let begin = operator_arrows.get(&end.id);
                    if let Some(&row) = begin.and_then(|begin| operators.get(begin)) {
                        // Operators have no ids in these files; the numbers of their rows serve.
                        let id = row as u64 + 1;
                        builder.hosts.external.make_mut()[row] = id;
                        builder.kernels.external.make_mut()[task] = id;
                    }
                }
            }
        }
    }

    fn begins(&self, kind: ArrowKind) -> impl Iterator<Item = &Arrow> {
        let arrows = self.arrows.iter();
        arrows.filter(move |arrow| arrow.begins && arrow.kind == kind)
    }

    /// The row of the innermost call around the beginning of each `HostToDevice` arrow, by the arrow's id.
    fn calls_around_arrows(&self, builder: &TraceBuilder) -> HashMap<u64, usize, FxBuildHasher> {
        let hosts = &builder.hosts;
        // A call sorts before an arrow at the same moment, and a longer call before a shorter one.
        let mut moments: Vec<(Place, Reverse<i64>, ArrowMoment)> = Vec::new();
        for row in 0..hosts.len() {
            if hosts.kind[row] == HostKind::RUNTIME {
                let (process, thread) = builder.thread_numbers(hosts.thread[row]);
                let place = (process, thread, hosts.start[row]);
                moments.push((place, Reverse(hosts.duration[row]), ArrowMoment::Call(row)));
            }
        }
        for arrow in self.begins(ArrowKind::AscendCall) {
            moments.push((arrow.place, Reverse(-1), ArrowMoment::Arrow(arrow.id)));
        }
        moments.sort_unstable();
        let mut around: HashMap<u64, usize, FxBuildHasher> = HashMap::default();
        let mut open: Vec<usize> = Vec::new();
        let mut last_thread = None;
        for ((process, thread, time), _, moment) in moments {
            if last_thread.replace((process, thread)) != Some((process, thread)) {
                open.clear();
            }
            let end = |row: usize| hosts.start[row].saturating_add(hosts.duration[row]);
            while open.last().is_some_and(|&row| end(row) < time) {
                open.pop();
            }
            match moment {
                ArrowMoment::Call(row) => open.push(row),
                ArrowMoment::Arrow(id) => {
                    if let Some(&row) = open.last() {
                        around.insert(id, row);
                    }
                }
            }
        }
        around
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ArrowMoment {
    Call(usize),
    Arrow(u64),
}

/// The shortest operator that begins at each place.
fn innermost_operators(builder: &TraceBuilder) -> HashMap<Place, usize, FxBuildHasher> {
    let hosts = &builder.hosts;
    let mut operators: HashMap<Place, usize, FxBuildHasher> = HashMap::default();
    for row in (0..hosts.len()).filter(|&row| hosts.kind[row] == HostKind::OPERATOR) {
        let (process, thread) = builder.thread_numbers(hosts.thread[row]);
        let inner = operators
            .entry((process, thread, hosts.start[row]))
            .or_insert(row);
        if hosts.duration[row] < hosts.duration[*inner] {
            *inner = row;
        }
    }
    operators
}
