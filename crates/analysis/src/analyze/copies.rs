//! Copies of a phase by direction, with the limit of what they go over.

use llmprof_record::trace::{CopyKind, MemoryKind};
use llmprof_units::{Bytes, Nanos};

use crate::analyze::phase_intervals::PhaseInterval;
use crate::analyze::tracing::TraceContext;
use crate::matching::lanes::{Item, WorkLane};
use crate::phase_facts::{CopyDirection, CopyTime, LinkLimit};
use crate::timeline::device_events::{Class, EventTable};
use crate::timeline::intervals::union_length;

impl TraceContext<'_> {
    /// Copies and memsets that begin in some intervals, the longest first.
    pub(super) fn sum_copies(&self, included: &[&PhaseInterval], lane: &WorkLane) -> Vec<CopyTime> {
        let mut copies_by_direction: Vec<CopyTime> = Vec::new();
        for interval in included {
            for item in &lane.items[lane.items_around(interval.window())] {
                let is_here = (interval.start..interval.end).contains(&item.start);
                if !is_here || !matches!(item.class, Class::Copy | Class::Memset) {
                    continue;
                }
                let (direction, bytes, is_pageable) = match item.transfer {
                    Some((table, row)) => self.transfer(table, row as usize),
                    None => (CopyDirection::Other, 0, false),
                };
                let place = copies_by_direction
                    .iter()
                    .position(|one| one.direction == direction);
                let place = place.unwrap_or_else(|| {
                    copies_by_direction.push(CopyTime {
                        limit: self
                            .device
                            .and_then(|device| LinkLimit::of_direction(device, direction)),
                        ..CopyTime::of(direction)
                    });
                    copies_by_direction.len() - 1
                });
                let (sum, time) = (
                    &mut copies_by_direction[place],
                    item.end.saturating_sub(item.start),
                );
                // What starts a copy is counted with what waits for it.
                let starts = self.trace.text(item.name).starts_with("copy-start");
                sum.copies += u64::from(item.transfer.is_some() || !starts);
                sum.time_ns = Nanos(sum.time_ns.0.saturating_add(time));
                sum.bytes = Bytes(sum.bytes.0.saturating_add(bytes));
                if is_pageable {
                    sum.pageable_ns = Nanos(sum.pageable_ns.0.saturating_add(time));
                }
            }
        }
        copies_by_direction.sort_by_key(|one| (std::cmp::Reverse(one.time_ns), one.direction));
        copies_by_direction
    }

    /// Direction and bytes of a copy or memset, and whether the host's side of it may be paged out.
    fn transfer(&self, table: EventTable, row: usize) -> (CopyDirection, u64, bool) {
        if table == EventTable::Memsets {
            return (CopyDirection::Memset, self.trace.memsets.bytes[row], false);
        }
        let copies = &self.trace.copies;
        let direction = match copies.kind[row] {
            CopyKind::HOST_TO_DEVICE => CopyDirection::HostToDevice,
            CopyKind::DEVICE_TO_HOST => CopyDirection::DeviceToHost,
            CopyKind::DEVICE_TO_DEVICE => CopyDirection::OnDevice,
            CopyKind::PEER_TO_PEER => CopyDirection::Peer,
            _ => CopyDirection::Other,
        };
        let ends = [copies.source[row], copies.target[row]];
        let is_pageable = ends.contains(&MemoryKind::PAGEABLE);
        (direction, copies.bytes[row], is_pageable)
    }
}

/// Part of the busy time in which only copies and memsets ran, up to their ends; absent where the trace has none. Work that starts beside a
/// copy does not wait for it: of such a copy the time after the last of that work counts.
pub(super) fn exposed_copies(
    included: &[&PhaseInterval],
    lane: &WorkLane,
    busy: Nanos,
) -> Option<f64> {
    let mut exposed = 0_i64;
    for interval in included {
        let (start, end) = interval.window();
        let items = &lane.items[lane.items_around((start, end))];
        let is_copy = |item: &&Item| matches!(item.class, Class::Copy | Class::Memset);
        let mut reached = i64::MIN;
        // Ends of other work, each the latest so far.
        let others: Vec<(i64, i64)> = items
            .iter()
            .filter(|item| !is_copy(item))
            .map(|item| {
                reached = reached.max(item.end);
                (item.start, reached)
            })
            .collect();
        let mut tails: Vec<(i64, i64)> = items
            .iter()
            .filter(is_copy)
            .map(|copy| {
                let begun = others.partition_point(|other| other.0 < copy.end);
                let other_end = begun.checked_sub(1).map_or(i64::MIN, |last| others[last].1);
                (copy.start.max(other_end).max(start), copy.end.min(end))
            })
            .filter(|tail| tail.0 < tail.1)
            .collect();
        tails.sort_unstable();
        exposed = exposed.saturating_add(union_length(tails));
    }
    (exposed > 0 && busy.0 > 0).then(|| exposed as f64 / busy.0 as f64)
}
