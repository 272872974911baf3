//! Rows of a Chrome trace for synchronizations.
//!
//! A synchronization begins and ends in the middle of kernels of its stream. Slices of one row that overlap without nesting are
//! dropped by Perfetto, so synchronizations have rows beside those of their streams, and as many as overlap.

use std::collections::BTreeMap;

use super::Syncs;

/// The name of the row of each synchronization.
pub(super) fn sync_lanes(syncs: &Syncs) -> Vec<String> {
    let mut rows: Vec<usize> = (0..syncs.len()).collect();
    rows.sort_by_key(|&row| syncs.start[row]);
    // When the last slice of each lane of a stream ends.
    let mut ends: BTreeMap<(u32, u32), Vec<i64>> = BTreeMap::new();
    let mut names = vec![String::new(); syncs.len()];
    for row in rows {
        let sync = syncs.row(row);
        let lanes = ends.entry((sync.device, sync.stream)).or_default();
        let free = lanes.iter().position(|&end| end <= sync.start);
        let lane = free.unwrap_or_else(|| {
            lanes.push(0);
            lanes.len() - 1
        });
        lanes[lane] = sync.start.saturating_add(sync.duration);
        let place = match sync.stream {
            u32::MAX => "context".to_owned(),
            stream => format!("stream {stream}"),
        };
        names[row] = match lane {
            0 => format!("{place} synchronization"),
            lane => format!("{place} synchronization {}", lane + 1),
        };
    }
    names
}
