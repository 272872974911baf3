//! Arrows from host calls to device events.
//!
//! Kineto numbers its `ac2g` arrows with the correlation id, which both ends have among their arguments too. The
//! arrows are needed only where an end lacks it, as in traces that were cut down by other tools; then the file is
//! read a second time for them. Some ends have no start (graph launches, calls before the capture): ids join them all
//! the same.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::event::{Event, Id};
use crate::trace::{HostKind, TraceBuilder};

/// Arrows, where they are collected.
#[derive(Default)]
pub(super) struct Flows {
    /// Whether an event was met that should have a correlation id and has none.
    pub(super) wanted: bool,
    /// Whether arrows are kept.
    pub(super) keep: bool,
    arrows: Vec<Arrow>,
}

/// One end of an arrow: where it is drawn, and its id.
#[derive(Clone, Copy)]
struct Arrow {
    place: (i64, i64, i64),
    id: u32,
}

impl Flows {
    pub(super) fn add(&mut self, event: &Event<'_>) {
        if !self.keep || event.category != b"ac2g" {
            return;
        }
        if let (Some(time), Id::Number(process), Id::Number(thread), Ok(id)) = (
            event.time,
            event.process,
            event.thread,
            u32::try_from(event.flow),
        ) {
            self.arrows.push(Arrow {
                place: (process, thread, time),
                id,
            });
        }
    }

    pub(super) fn absorb(&mut self, mut other: Self) {
        self.wanted |= other.wanted;
        self.arrows.append(&mut other.arrows);
    }

    /// Gives events without a correlation id that of the arrow drawn at their beginning.
    pub(super) fn resolve(&self, builder: &mut TraceBuilder) {
        let mut at: HashMap<(i64, i64, i64), u32, FxBuildHasher> = HashMap::default();
        for arrow in &self.arrows {
            // Two arrows from one place: the smaller id, whatever their order in the file.
            at.entry(arrow.place)
                .and_modify(|id| *id = arrow.id.min(*id))
                .or_insert(arrow.id);
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
}
