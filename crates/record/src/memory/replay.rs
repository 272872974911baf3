//! From an allocator's events to its memory over time.
//!
//! A recording begins at any time and keeps the latest events, so what was held at its beginning is unknown. What is
//! held at its end is known, from the snapshot: the events are summed up first, and the beginning is the end less that
//! sum.

use std::cmp::Reverse;

use llmprof_units::{Bytes, Nanos};
use rustc_hash::FxHashMap;

use super::{
    DeviceHistory, Holding, MemoryChange, MemoryPoint, MemoryState, OutOfMemory, site_history,
};

/// Sizes are rounded up to this (`kMinBlockSize` of torch's allocators).
const BLOCK: u64 = 512;

/// Entries of the lists of holdings.
const LISTED: usize = 20;

/// The most points that a timeline keeps.
const POINTS: usize = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocatorAction {
    Allocate,
    Free,
    /// Got a segment, or pages for one, from the device.
    Reserve,
    Release,
    /// Could not give a block. The device had this many bytes left.
    OutOfMemory(Option<Bytes>),
    /// Nothing that changes these sizes.
    Other,
}

/// One event of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllocatorEvent {
    pub(crate) action: AllocatorAction,
    pub(crate) address: u64,
    pub(crate) bytes: Bytes,
    pub(crate) time_ns: Nanos,
    /// Index in the list of sites; `None` where the site was not recorded.
    pub(crate) site: Option<u32>,
}

/// The sizes that events move, as differences.
#[derive(Clone, Copy, Debug, Default)]
struct MemoryLevels {
    requested: i64,
    allocated: i64,
    reserved: i64,
}

impl MemoryLevels {
    fn apply(&mut self, event: &AllocatorEvent) {
        let bytes = to_signed(event.bytes.0);
        let rounded = to_signed(
            event
                .bytes
                .0
                .max(1)
                .checked_next_multiple_of(BLOCK)
                .unwrap_or(event.bytes.0),
        );
        let (requested, allocated, reserved) = match event.action {
            AllocatorAction::Allocate => (bytes, rounded, 0),
            AllocatorAction::Free => (-bytes, -rounded, 0),
            AllocatorAction::Reserve => (0, 0, bytes),
            AllocatorAction::Release => (0, 0, -bytes),
            AllocatorAction::OutOfMemory(_) | AllocatorAction::Other => (0, 0, 0),
        };
        self.requested = self.requested.saturating_add(requested);
        self.allocated = self.allocated.saturating_add(allocated);
        self.reserved = self.reserved.saturating_add(reserved);
    }

    fn at(self, time_ns: Nanos) -> MemoryPoint {
        let bytes = |level: i64| Bytes(u64::try_from(level).unwrap_or(0));
        MemoryPoint {
            time_ns,
            requested_bytes: bytes(self.requested),
            allocated_bytes: bytes(self.allocated),
            reserved_bytes: bytes(self.reserved),
        }
    }

    fn is_negative(self) -> bool {
        self.requested < 0 || self.allocated < 0 || self.reserved < 0
    }
}

/// The history that ends with `now`, and at how many events a size was below zero: such events do not belong to the
/// snapshot, or some are missing. `None` where there are no events.
pub(crate) fn replay_events(
    events: &[AllocatorEvent],
    now: &MemoryState,
    sites: &[String],
) -> Option<(DeviceHistory, u64)> {
    let first = events.first()?;
    let mut moved = MemoryLevels::default();
    for event in events {
        moved.apply(event);
    }
    let mut level = MemoryLevels {
        requested: to_signed(now.requested_bytes.0).saturating_sub(moved.requested),
        allocated: to_signed(now.allocated_bytes.0).saturating_sub(moved.allocated),
        reserved: to_signed(now.reserved_bytes.0).saturating_sub(moved.reserved),
    };
    let start = level.at(first.time_ns);
    let mut history = DeviceHistory {
        peak: start,
        peak_reserved_bytes: start.reserved_bytes,
        timeline: vec![start],
        ..DeviceHistory::default()
    };
    let mut below_zero = u64::from(level.is_negative());
    let mut events_to_peak = 0;
    for (position, event) in events.iter().enumerate() {
        match event.action {
            AllocatorAction::Allocate => history.allocations += 1,
            AllocatorAction::Free => history.frees += 1,
            AllocatorAction::OutOfMemory(device_free) => history.out_of_memory.push(OutOfMemory {
                time_ns: event.time_ns,
                requested_bytes: event.bytes,
                device_free_bytes: device_free,
            }),
            AllocatorAction::Reserve | AllocatorAction::Release => {}
            AllocatorAction::Other => continue,
        }
        level.apply(event);
        below_zero += u64::from(level.is_negative());
        let point = level.at(event.time_ns);
        if point.allocated_bytes > history.peak.allocated_bytes {
            history.peak = point;
            events_to_peak = position + 1;
        }
        history.peak_reserved_bytes = history.peak_reserved_bytes.max(point.reserved_bytes);
        history.timeline.push(point);
    }
    history.at_peak = holdings_at_peak(
        &events[..events_to_peak],
        history.peak.requested_bytes,
        sites,
    );
    history.largest = largest_allocations(events, sites);
    history.by_site = site_history(&list_changes(events), start.requested_bytes, sites);
    history.timeline = thin_points(history.timeline, POINTS);
    Some((history, below_zero))
}

fn list_changes(events: &[AllocatorEvent]) -> Vec<MemoryChange> {
    let moved = events.iter().filter_map(|event| {
        let bytes = match event.action {
            AllocatorAction::Allocate => to_signed(event.bytes.0),
            AllocatorAction::Free => -to_signed(event.bytes.0),
            _ => return None,
        };
        Some(MemoryChange {
            time_ns: event.time_ns,
            bytes,
            address: event.address,
            site: event.site,
        })
    });
    moved.collect()
}

/// Who holds memory after these events, when `requested` bytes are held in all.
fn holdings_at_peak(events: &[AllocatorEvent], requested: Bytes, sites: &[String]) -> Vec<Holding> {
    let mut live: FxHashMap<u64, (Bytes, Option<u32>)> = FxHashMap::default();
    for event in events {
        match event.action {
            AllocatorAction::Allocate => {
                live.insert(event.address, (event.bytes, event.site));
            }
            AllocatorAction::Free => {
                live.remove(&event.address);
            }
            _ => {}
        }
    }
    let mut by_site: FxHashMap<Option<u32>, (Bytes, u64)> = FxHashMap::default();
    for (bytes, site) in live.into_values() {
        let entry = by_site.entry(site).or_default();
        entry.0 += bytes;
        entry.1 += 1;
    }
    let seen: Bytes = by_site.values().map(|(bytes, _)| *bytes).sum();
    let mut holdings: Vec<Holding> = by_site
        .into_iter()
        .map(|(site, (bytes, blocks))| Holding {
            site: site_name(site, sites).or_else(|| Some("unknown".to_owned())),
            bytes,
            blocks: Some(blocks),
        })
        .collect();
    if requested > seen {
        holdings.push(Holding {
            site: None,
            bytes: requested - seen,
            blocks: None,
        });
    }
    holdings.sort_by(|a, b| (Reverse(a.bytes), &a.site).cmp(&(Reverse(b.bytes), &b.site)));
    holdings.truncate(LISTED);
    holdings
}

/// The largest allocations; those of one size and site are one.
fn largest_allocations(events: &[AllocatorEvent], sites: &[String]) -> Vec<Holding> {
    let mut by_size: FxHashMap<(Bytes, Option<u32>), u64> = FxHashMap::default();
    for event in events
        .iter()
        .filter(|event| event.action == AllocatorAction::Allocate)
    {
        *by_size.entry((event.bytes, event.site)).or_default() += 1;
    }
    let mut all: Vec<_> = by_size.into_iter().collect();
    let key = |((bytes, site), blocks): &((Bytes, Option<u32>), u64)| {
        (Reverse(*bytes), Reverse(*blocks), *site)
    };
    all.sort_unstable_by_key(key);
    all.truncate(LISTED);
    all.into_iter()
        .map(|((bytes, site), blocks)| Holding {
            site: site_name(site, sites),
            bytes,
            blocks: Some(blocks),
        })
        .collect()
}

fn site_name(site: Option<u32>, sites: &[String]) -> Option<String> {
    sites.get(site? as usize).cloned()
}

/// At most `most` points. Of each interval of equally many, the one with the most allocated memory and the last are kept.
fn thin_points(points: Vec<MemoryPoint>, most: usize) -> Vec<MemoryPoint> {
    if points.len() <= most {
        return points;
    }
    let interval = points.len().div_ceil((most / 2).max(1));
    let mut kept = Vec::with_capacity(most);
    for chunk in points.chunks(interval) {
        let highest = (0..chunk.len()).max_by_key(|&i| (chunk[i].allocated_bytes, Reverse(i)));
        if let Some(highest) = highest {
            kept.push(chunk[highest]);
            if highest + 1 < chunk.len() {
                kept.push(chunk[chunk.len() - 1]);
            }
        }
    }
    kept
}

fn to_signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(
        action: AllocatorAction,
        address: u64,
        bytes: u64,
        time_ns: i64,
        site: u32,
    ) -> AllocatorEvent {
        AllocatorEvent {
            action,
            address,
            bytes: Bytes(bytes),
            time_ns: Nanos(time_ns),
            site: Some(site),
        }
    }

    fn sites() -> Vec<String> {
        vec!["a.py:1 f".to_owned(), "b.py:2 g".to_owned()]
    }

    #[test]
    fn a_short_history_by_hand() {
        // At the end 1,000 bytes are requested, 2,048 allocated, 4,096 reserved. The recording saw 100 and 600 bytes come
        // (512 and 1,024 rounded), 700 bytes of before go (1,024), and a segment of 2,048 come: it began with
        // 1,000 + 700 − 700 requested, 2,048 + 1,024 − 1,536 allocated, 4,096 − 2,048 reserved.
        let now = MemoryState {
            segments: 2,
            reserved_bytes: Bytes(4096),
            allocated_bytes: Bytes(2048),
            requested_bytes: Bytes(1000),
            ..MemoryState::default()
        };
        let events = [
            event(AllocatorAction::Allocate, 1, 100, 10, 0),
            event(AllocatorAction::Reserve, 9, 2048, 20, 0),
            event(AllocatorAction::Allocate, 2, 600, 30, 1),
            event(AllocatorAction::Other, 0, 0, 35, 0),
            event(AllocatorAction::Free, 3, 700, 40, 0),
            event(
                AllocatorAction::OutOfMemory(Some(Bytes(7))),
                0,
                99_999,
                50,
                0,
            ),
        ];
        let (history, below_zero) = replay_events(&events, &now, &sites()).unwrap();
        assert_eq!(below_zero, 0);
        let levels: Vec<_> = history
            .timeline
            .iter()
            .map(|point| {
                (
                    point.time_ns.0,
                    point.requested_bytes.0,
                    point.allocated_bytes.0,
                    point.reserved_bytes.0,
                )
            })
            .collect();
        assert_eq!(
            levels,
            [
                (10, 1000, 1536, 2048),
                (10, 1100, 2048, 2048),
                (20, 1100, 2048, 4096),
                (30, 1700, 3072, 4096),
                (40, 1000, 2048, 4096),
                (50, 1000, 2048, 4096),
            ]
        );
        assert_eq!((history.allocations, history.frees), (2, 1));
        assert_eq!(history.peak, history.timeline[3]);
        assert_eq!(history.peak.fragmentation(), Some(0.25));
        assert_eq!(history.peak_reserved_bytes, Bytes(4096));
        assert_eq!(history.out_of_memory[0].device_free_bytes, Some(Bytes(7)));
        let held: Vec<_> = history
            .at_peak
            .iter()
            .map(|one| (one.site.as_deref(), one.bytes.0, one.blocks))
            .collect();
        assert_eq!(
            held,
            [
                (None, 1000, None),
                (Some("b.py:2 g"), 600, Some(1)),
                (Some("a.py:1 f"), 100, Some(1))
            ]
        );
        assert_eq!(history.largest[0].bytes, Bytes(600));
    }

    #[test]
    fn events_of_another_snapshot_are_noticed() {
        let events = [event(AllocatorAction::Allocate, 1, 100, 0, 0)];
        let (history, below_zero) =
            replay_events(&events, &MemoryState::default(), &sites()).unwrap();
        assert_eq!(below_zero, 1);
        assert_eq!(history.timeline[0].requested_bytes, Bytes(0));
        assert!(replay_events(&[], &MemoryState::default(), &[]).is_none());
    }

    #[test]
    fn thinning_keeps_peaks_and_the_end() {
        let points: Vec<MemoryPoint> = (0..1000)
            .map(|i| MemoryPoint {
                time_ns: Nanos(i),
                allocated_bytes: Bytes(if i == 333 { 1_000_000 } else { i as u64 }),
                ..MemoryPoint::default()
            })
            .collect();
        let kept = thin_points(points.clone(), 100);
        assert!(kept.len() <= 100, "{}", kept.len());
        assert!(kept.contains(&points[333]));
        assert_eq!(kept.last(), points.last());
        assert!(
            kept.windows(2)
                .all(|pair| pair[0].time_ns < pair[1].time_ns)
        );
        assert_eq!(thin_points(points.clone(), 1000), points);
    }
}
