//! Host time in which nothing recorded runs: code of the program, the garbage collector, waiting for the GIL.

use std::collections::BTreeMap;

use llmprof_record::trace::CopyKind;
use llmprof_units::{Bytes, Nanos};

use super::cause::{CauseKind, Place};
use super::contention::is_contended;
use super::copies::SMALL_COPY_MAX_BYTES;
use super::pauses::is_pause;
use super::stacks::sampled;
use super::{Candidate, Scene};
use crate::replay::{Edit, WorkRow};

/// Shorter pauses are one cause where they recur at one place, from this length on…
const RECURRING_MIN_NS: i64 = 80_000;
/// …and this many times the usual gap: code between modules of transformers takes up to 10 usual gaps.
const RECURRING_MIN_GAPS: i64 = 12;
/// …this often in a step: once or twice is the code of the loop.
const RECURRING_MIN_COUNT: usize = 4;
/// Python's default switch interval is 5 ms: a thread that waits for the GIL gets it after that, and a little more.
const SWITCH_INTERVAL_NS: std::ops::Range<i64> = 4_900_000..6_000_000;

/// Whether no other pause, here or in another phase, is at least half as long as the longest one.
fn is_seen_once(scene: &Scene<'_>, lengths: &[i64], longest: i64) -> bool {
    let are_alike = |lengths: &[i64]| {
        lengths
            .iter()
            .filter(|&length| 2 * length >= longest)
            .count()
            > 1
    };
    !are_alike(lengths) && !are_alike(&scene.pauses)
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    if is_contended(scene) {
        return Vec::new();
    }
    let mut pauses = recurring_pauses(scene);
    pauses.extend(scene.segments().filter(|&segment| is_pause(scene, segment)));
    pauses.sort_unstable();
    pauses.dedup();
    let duration = |segment: &usize| scene.graph.segment_duration(*segment);
    let Some(&longest) = pauses.iter().max_by_key(|segment| duration(segment)) else {
        return Vec::new();
    };
    let mut edit = Edit::default();
    for &segment in &pauses {
        edit.limit_segment(segment, scene.usual_gap);
    }
    let total: i64 = pauses.iter().map(duration).sum();
    let switched = pauses
        .iter()
        .filter(|s| SWITCH_INTERVAL_NS.contains(&duration(s)));
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
    let intervals: Vec<(i64, i64)> = pauses
        .iter()
        .map(|&segment| (scene.graph.segment_start(segment), duration(&segment)))
        .map(|(start, length)| (start, start + length))
        .collect();
    let stacks = sampled(scene, scene.graph.main_thread(), &intervals);
    let place = Place {
        line: place.line.clone().or(stacks.line),
        ..place
    };
    let start = scene.graph.segment_start(longest);
    let next = scene
        .tops
        .partition_point(|&top| scene.trace.hosts.start[top] < start);
    let name = |row: Option<&usize>| row.map(|&row| scene.name(row).to_owned());
    vec![Candidate {
        kind: CauseKind::HostCode {
            time_ns: Nanos(scene.a_step(total)),
            longest_ns: Nanos(duration(&longest)),
            after: name(next.checked_sub(1).and_then(|at| scene.tops.get(at))),
            before: name(scene.tops.get(next)),
            copied: next
                .checked_sub(1)
                .and_then(|at| copied_to_host(scene, scene.tops[at])),
            collecting_share: stacks.collecting_share,
            gil_holder: stacks.gil_holder,
            has_switch_interval: switched.count() * 2 > pauses.len() && pauses.len() >= 10,
            is_seen_once: is_seen_once(
                scene,
                &pauses.iter().map(duration).collect::<Vec<_>>(),
                duration(&longest),
            ),
            has_ops: scene.tops.iter().any(|&top| scene.is_operator(top)),
        },
        place,
        count: pauses.len() as u64,
        edit,
        partial: None,
    }]
}

/// Pauses between the same two operators again and again: hooks and logging in each layer.
fn recurring_pauses(scene: &Scene<'_>) -> Vec<usize> {
    let name = |row: Option<usize>| row.map(|row| scene.trace.hosts.name[row]);
    let mut places: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for segment in scene.segments().filter(|&segment| scene.is_code(segment)) {
        let after = scene.top_after(segment);
        let before = segment.checked_sub(1).and_then(|other| scene.top_of(other));
        // What calls of the CUDA API are for is `host_calls`.
        let is_between_operators = [before, after]
            .iter()
            .all(|row| row.is_some_and(|row| scene.is_operator(row)));
        if is_between_operators {
            let place = (name(before), name(after));
            places.entry(place).or_default().push(segment);
        }
    }
    let least = RECURRING_MIN_NS.max(RECURRING_MIN_GAPS * scene.usual_gap);
    places.retain(|_, segments| {
        let long = |segment: &&usize| scene.graph.segment_duration(**segment) >= least;
        let long = segments.iter().filter(long).count();
        // Other code may lie between operators of the same names.
        long >= RECURRING_MIN_COUNT * scene.steps as usize && 4 * long >= segments.len()
    });
    let recurring = places.into_values().flatten();
    recurring
        .filter(|&segment| scene.graph.segment_duration(segment) >= least)
        .collect()
}

/// Bytes that an operator copies to the host, where they are worth computing on.
fn copied_to_host(scene: &Scene<'_>, top: usize) -> Option<Bytes> {
    let work = &scene.graph.work()[scene.work_of(top)];
    let copies = &scene.trace.copies;
    let bytes = work.iter().filter_map(|work| match work.row {
        WorkRow::Copy(row) if copies.kind[row as usize] == CopyKind::DEVICE_TO_HOST => {
            Some(copies.bytes[row as usize])
        }
        _ => None,
    });
    let bytes: u64 = bytes.sum();
    (bytes > SMALL_COPY_MAX_BYTES).then_some(Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use crate::causes::Purpose;
    use crate::causes::sketch::Sketch;

    fn with_pauses(us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            for _ in 0..10 {
                sketch.matrix_product(16, 1024, 1024, 10);
            }
            sketch.synchronize();
            sketch.pause(us);
        }
        sketch.matrix_product(16, 1024, 1024, 10);
        sketch.synchronize();
        sketch
    }

    #[test]
    fn pauses_of_milliseconds_at_one_place_are_a_cause() {
        let (saved, now) = with_pauses(2_500).diagnose().gain_of("host_code").unwrap();
        assert!((9.9..10.1).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn pauses_between_repetitions_of_any_program_are_a_cause() {
        let mut sketch = with_pauses(2_500);
        sketch.purpose = Purpose::Unknown;
        let (saved, now) = sketch.diagnose().gain_of("host_code").unwrap();
        assert!((9.9..10.1).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn a_pause_that_is_seen_once_has_no_gain() {
        let mut sketch = Sketch::default();
        for step in 0..4 {
            for _ in 0..10 {
                sketch.matrix_product(16, 1024, 1024, 10);
            }
            sketch.synchronize();
            sketch.pause(if step == 1 { 20_000 } else { 300 });
        }
        sketch.matrix_product(16, 1024, 1024, 10);
        sketch.synchronize();
        let found = sketch.diagnose();
        let cause = found.cause("host_code").unwrap();
        assert!(cause.kind.is_seen_once() && cause.gains.is_empty());
    }

    /// Code of `us` before every tenth operator.
    fn with_hooks(us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..12 {
            for _ in 0..9 {
                sketch.matrix_product(16, 1024, 1024, 5);
            }
            sketch.pause(us);
            sketch.operator("aten::layer_norm", &[], &[("norm", 3)]);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn hooks_in_each_layer_are_a_cause() {
        let found = with_hooks(120).diagnose();
        let (saved, now) = found.gain_of("host_code").unwrap();
        assert!((1.3..1.5).contains(&saved), "{saved} of {now} ms");
        assert_eq!(with_hooks(40).diagnose().gain_of("host_code"), None);
    }

    #[test]
    fn the_code_of_a_loop_is_none() {
        assert_eq!(with_pauses(60).diagnose().gain_of("host_code"), None);
    }
}
