//! What other devices of a trace do while one of them idles.

use crate::analyze::phase_intervals::PhaseInterval;
use crate::matching::lanes::WorkLane;
use crate::timeline::intervals::union_length;

/// Part of the wall time in which lane `number` does nothing and another one works; nothing where there is no other.
pub(super) fn busy_elsewhere(
    lanes: &[WorkLane],
    number: usize,
    included: &[&PhaseInterval],
) -> Option<f64> {
    if lanes.len() < 2 {
        return None;
    }
    let (mut elsewhere, mut wall) = (0_i64, 0_i64);
    for interval in included {
        let (start, end) = interval.window();
        let events = |lane: &WorkLane| -> Vec<(i64, i64)> {
            let items = lane.items[lane.items_around((start, end))].iter();
            items
                .map(|item| (item.start.max(start), item.end.min(end)))
                .filter(|(from, to)| from < to)
                .collect()
        };
        let own = union_length(events(&lanes[number]));
        let mut all: Vec<(i64, i64)> = lanes.iter().flat_map(events).collect();
        all.sort_unstable();
        elsewhere = elsewhere.saturating_add(union_length(all).saturating_sub(own));
        wall = wall.saturating_add(interval.length());
    }
    (wall > 0).then(|| elsewhere as f64 / wall as f64)
}
