//! Host time in which nothing recorded runs: code of the program, the garbage collector, waiting for the GIL.

use crate::thresholds::{
    RECURRING_PAUSE_MIN_GAPS, RECURRING_PAUSE_MIN_NS, RECURRING_PAUSES_MIN, SMALL_COPY_MAX_BYTES,
};
use std::collections::BTreeMap;

use llmprof_record::trace::CopyKind;
use llmprof_units::{Bytes, Nanos};

use super::cause::{CauseKind, CausePlace};
use super::contention::is_contended;
use super::pauses::is_pause;
use super::requests::{is_inside, request_ranges};
use super::stacks::read_samples;
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceRow, Edit};

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

pub(super) fn find_host_code(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    if is_contended(scene) {
        return Vec::new();
    }
    let mut pauses = recurring_pauses(scene);
    pauses.extend(scene.segments().filter(|&segment| is_pause(scene, segment)));
    pauses.sort_unstable();
    pauses.dedup();
    // Between requests there may be nothing to do.
    let requests = request_ranges(scene);
    let is_in_request = |&segment: &usize| {
        let middle = scene.graph.segment_start(segment) + scene.graph.segment_duration(segment) / 2;
        is_inside(&requests, middle)
    };
    // What comes between few of the sequences that repeat does so between requests, too.
    let are_few = scene.subject.are_steps_inferred && 2 * (pauses.len() as u64) < scene.steps;
    let are_outside = !requests.is_empty() && !pauses.iter().any(is_in_request);
    let are_between_requests = are_outside || are_few;
    if !requests.is_empty() && !are_between_requests {
        pauses.retain(is_in_request);
    }
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
    let stacks = read_samples(scene, scene.graph.main_thread(), &intervals);
    let place = CausePlace {
        line: place.line.clone().or(stacks.line),
        ..place
    };
    let start = scene.graph.segment_start(longest);
    let next = scene
        .tops
        .partition_point(|&top| scene.trace.hosts.start[top] < start);
    let name = |row: Option<&usize>| row.map(|&row| scene.name(row).to_owned());
    vec![CauseCandidate {
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
            fits_beside_gpu: scene.own_work().map(|(_, work)| work.duration).sum::<i64>() >= total,
            has_ops: scene.tops.iter().any(|&top| scene.is_operator(top)),
            are_between_requests,
        },
        place,
        count: pauses.len() as u64,
        partial: are_between_requests.then(|| vec![edit.clone()]),
        edit: if are_between_requests {
            Edit::default()
        } else {
            edit
        },
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
    let least = RECURRING_PAUSE_MIN_NS.max(RECURRING_PAUSE_MIN_GAPS * scene.usual_gap);
    places.retain(|_, segments| {
        let long = |segment: &&usize| scene.graph.segment_duration(**segment) >= least;
        let long = segments.iter().filter(long).count();
        // Other code may lie between operators of the same names.
        long >= RECURRING_PAUSES_MIN * scene.steps as usize && 4 * long >= segments.len()
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
        DeviceRow::Copy(row) if copies.kind[row as usize] == CopyKind::DEVICE_TO_HOST => {
            Some(copies.bytes[row as usize])
        }
        _ => None,
    });
    let bytes: u64 = bytes.sum();
    (bytes > SMALL_COPY_MAX_BYTES).then_some(Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use crate::causes::ProgramPurpose;
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
        sketch.purpose = ProgramPurpose::Unknown;
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
        let diagnosed = sketch.diagnose();
        let cause = diagnosed.cause("host_code").unwrap();
        assert!(cause.kind.is_seen_once() && cause.gains.is_empty());
    }

    /// Three requests of so many passes, 15 ms apart.
    fn with_requests(passes: usize) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..3 {
            sketch.range("request", |sketch| {
                for _ in 0..passes {
                    sketch.look_up(1, 1, 32_000, 1024);
                    for _ in 0..10 {
                        sketch.matrix_product(16, 1024, 1024, 10);
                    }
                    sketch.synchronize();
                }
            });
            sketch.pause(15_000);
        }
        sketch.look_up(1, 1, 32_000, 1024);
        sketch.synchronize();
        sketch
    }

    /// Between requests there may be nothing to do, between steps there is.
    #[test]
    fn pauses_between_requests_have_an_upper_bound() {
        let diagnosed = with_requests(4).diagnose();
        let gain = &diagnosed.cause("host_code").unwrap().gains[0];
        assert_eq!((gain.saved_ns.0, gain.low_ns.0), (0, 0));
        assert!(gain.high_ns.0 > 40_000_000, "{gain:?}");
        let (saved, now) = with_requests(1).diagnose().gain_of("host_code").unwrap();
        assert!(saved > 40.0, "{saved} of {now} ms");
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
        let diagnosed = with_hooks(120).diagnose();
        let (saved, now) = diagnosed.gain_of("host_code").unwrap();
        assert!((1.3..1.5).contains(&saved), "{saved} of {now} ms");
        assert_eq!(with_hooks(40).diagnose().gain_of("host_code"), None);
    }

    #[test]
    fn the_code_of_a_loop_is_none() {
        assert_eq!(with_pauses(60).diagnose().gain_of("host_code"), None);
    }
}
