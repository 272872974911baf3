//! Memory taken from the driver and given back while the program runs.

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::pinned_memory::is_pinning;
use super::{Candidate, Scene};
use crate::replay::{Api, Edit};

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let rows = scene.tops.iter().flat_map(|&top| scene.rows_in(top));
    let rows: Vec<usize> = rows
        .filter(|&row| scene.api(row) == Some(Api::Memory) && !is_pinning(scene, row))
        .collect();
    let Some(&first) = rows.first() else {
        return Vec::new();
    };
    let mut edit = Edit::default();
    for &row in &rows {
        scene.remove_host(&mut edit, row);
    }
    let time: i64 = rows
        .iter()
        .map(|&row| scene.trace.hosts.duration[row])
        .sum();
    vec![Candidate {
        kind: CauseKind::Allocation {
            time_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(first),
        count: rows.len() as u64,
        edit,
        partial: None,
    }]
}
