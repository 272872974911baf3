//! Calls of the CUDA API that neither launch, copy nor wait, and the code around them: queries of memory, attributes, events.

use crate::thresholds::CODE_OF_CALL_MIN_GAPS;
use std::collections::BTreeMap;

use llmprof_units::{Nanos, stats::upper_median};

use super::cause::CauseKind;
use super::pinned_memory::is_pinning;
use super::{CauseCandidate, Scene};
use crate::replay::{CallEffect, Edit};
use crate::timeline::launches::loads_code;

/// Parts of the names of calls that order work, capture it or read the last error: programs need them, and they take about 1 µs.
const NEEDED_CALLS: &[&str] = &["Captur", "Error", "Event", "Graph", "StreamWait"];
/// Events are asked for their state only to wait for them.
const QUERY: &str = "Query";

#[derive(Default)]
struct CallGroup {
    rows: Vec<usize>,
    time: i64,
}

pub(super) fn find_host_calls(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut groups: BTreeMap<&str, CallGroup> = BTreeMap::new();
    for &top in &scene.tops {
        // Calls inside of operators are the framework's.
        if is_avoidable_call(scene, top) {
            groups.entry(scene.name(top)).or_default().rows.push(top);
        }
    }
    // Code is loaded when it is used for the first time, which is less often than in each step.
    let is_first_use = |name: &str, group: &CallGroup| {
        loads_code(name) && (group.rows.len() as u64) < scene.steps.max(2)
    };
    let groups = groups
        .into_iter()
        .filter(|(name, group)| !is_first_use(name, group));
    groups
        .map(|(_, group)| make_candidate(scene, group))
        .collect()
}

fn is_avoidable_call(scene: &Scene<'_>, row: usize) -> bool {
    let name = scene.name(row);
    scene.api(row) == Some(CallEffect::Other)
        && !is_pinning(scene, row)
        && (name.contains(QUERY) || !NEEDED_CALLS.iter().any(|part| name.contains(part)))
}

/// The code right before and after a call.
fn code_around(scene: &Scene<'_>, row: usize) -> [Option<usize>; 2] {
    let segments = scene.graph.segments_of_row(row);
    let is_code =
        |segment: &usize| *segment < scene.graph.segment_count() && scene.is_code(*segment);
    [
        segments.start.checked_sub(1).filter(is_code),
        Some(segments.end).filter(is_code),
    ]
}

fn make_candidate(scene: &Scene<'_>, mut group: CallGroup) -> CauseCandidate {
    let duration = |segment: usize| scene.graph.segment_duration(segment);
    let around: Vec<[Option<usize>; 2]> = group
        .rows
        .iter()
        .map(|&row| code_around(scene, row))
        .collect();
    // Without operators every call is at the top, and code between calls is the framework's.
    let has_operators = scene.tops.iter().any(|&top| scene.is_operator(top));
    let usual = |side: usize| {
        let mut gaps: Vec<i64> = around
            .iter()
            .filter_map(|sides| sides[side])
            .map(duration)
            .collect();
        upper_median(&mut gaps).unwrap_or(0)
    };
    let is_own_code =
        [0, 1].map(|side| has_operators && usual(side) >= CODE_OF_CALL_MIN_GAPS * scene.usual_gap);
    let mut edit = Edit::default();
    for (&row, sides) in group.rows.iter().zip(&around) {
        scene.remove_host(&mut edit, row);
        group.time += scene.trace.hosts.duration[row];
        for side in 0..2 {
            if let Some(segment) = sides[side].filter(|_| is_own_code[side]) {
                edit.limit_segment(segment, scene.usual_gap);
                group.time += (duration(segment) - scene.usual_gap).max(0);
            }
        }
    }
    let first = group.rows[0];
    CauseCandidate {
        kind: CauseKind::HostCalls {
            call: scene.name(first).to_owned(),
            time_ns: Nanos(scene.a_step(group.time)),
        },
        place: scene.place(first),
        count: group.rows.len() as u64,
        edit,
        partial: None,
    }
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_calls(name: &str) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..20 {
            sketch.call(name, 20);
            sketch.pause(100);
            for _ in 0..5 {
                sketch.matrix_product(16, 1024, 1024, 5);
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn asking_for_free_memory_in_each_layer_is_a_cause() {
        let diagnosed = sketch_calls("cudaMemGetInfo").diagnose();
        let (saved, now) = diagnosed.gain_of("host_calls").unwrap();
        assert!((2.2..2.5).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn polling_an_event_is_a_cause_and_recording_one_is_none() {
        let polled = sketch_calls("cudaEventQuery").diagnose();
        assert!(polled.gain_of("host_calls").is_some());
        let recorded = sketch_calls("cudaEventRecordWithFlags").diagnose();
        assert_eq!(recorded.gain_of("host_calls"), None);
    }
}
