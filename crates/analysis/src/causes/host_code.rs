//! Host time in which nothing recorded runs: code of the program, the garbage collector, waiting for the GIL.

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::{Candidate, Scene};
use crate::replay::Edit;

/// Pauses are at least this long: the Python code between two forward passes of transformers takes up to 0.15 ms.
const PAUSE_MIN_NS: i64 = 200_000;
/// And this many times the usual gap between operators.
const PAUSE_MIN_GAPS: i64 = 10;
/// Python's default switch interval is 5 ms: a thread that waits for the GIL gets it after that, and a little more.
const SWITCH_INTERVAL_NS: std::ops::Range<i64> = 4_900_000..6_000_000;

pub(super) fn is_pause(scene: &Scene<'_>, segment: usize) -> bool {
    let least = PAUSE_MIN_NS.max(PAUSE_MIN_GAPS * scene.usual_gap);
    scene.graph.segment_duration(segment) >= least && scene.is_code(segment)
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let pauses: Vec<usize> = scene
        .segments()
        .filter(|&segment| is_pause(scene, segment))
        .collect();
    let duration = |segment: &usize| scene.graph.segment_duration(*segment);
    let Some(&longest) = pauses.iter().max_by_key(|segment| duration(segment)) else {
        return Vec::new();
    };
    let mut edit = Edit::default();
    for &segment in &pauses {
        edit.limit_segment(segment, scene.usual_gap);
    }
    let total: i64 = pauses.iter().map(duration).sum();
    let switched = pauses.iter().filter(|s| SWITCH_INTERVAL_NS.contains(&duration(s)));
    let place = scene
        .graph
        .row_of_segment(longest)
        .map(|row| {
            let mut place = scene.place(row);
            // The innermost Python function itself is the code.
            place.line = Some(scene.name(row).to_owned());
            place
        })
        .unwrap_or_default();
    let start = scene.graph.segment_start(longest);
    let next = scene.tops.partition_point(|&top| scene.trace.hosts.start[top] < start);
    let name = |row: Option<&usize>| row.map(|&row| scene.name(row).to_owned());
    vec![Candidate {
        kind: CauseKind::HostCode {
            time_ns: Nanos(scene.a_step(total)),
            longest_ns: Nanos(duration(&longest)),
            after: name(next.checked_sub(1).and_then(|at| scene.tops.get(at))),
            before: name(scene.tops.get(next)),
            collecting_share: None,
            gil_holder: None,
            has_switch_interval: switched.count() * 2 > pauses.len() && pauses.len() >= 10,
        },
        place,
        count: pauses.len() as u64,
        edit,
        partial: None,
    }]
}
