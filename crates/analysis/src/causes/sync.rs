//! Calls in which the host waits for the device.

use crate::thresholds::{READ_BURST_MAX_OPERATORS, READ_TENSOR_MAX_ELEMENTS, SMALL_COPY_MAX_BYTES};
use std::collections::BTreeMap;

use llmprof_record::trace::CopyKind;
use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::copies::sends_inputs_alone;
use super::devices_in_turn::turns;
use super::operator_loops::PICKS;
use super::{CauseCandidate, Scene};
use crate::replay::{CallEffect, DeviceRow, Edit};

/// Stands for all operators that send the inputs of a step.
const INPUTS: &str = "inputs";

/// Operators that read one value: without a reader nothing needs them.
const READS: &[&str] = &[
    "aten::item",
    "aten::is_nonzero",
    "aten::_local_scalar_dense",
    "aten::equal",
    "aten::allclose",
];

/// Operators whose result has a size that only the device knows.
pub(super) const SELECTS: &[&str] = &[
    "aten::nonzero",
    "aten::masked_select",
    "aten::unique",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::bincount",
];

/// Operators that compute what is read: checks and reductions.
const CHECKS: &[&str] = &[
    "isnan",
    "isinf",
    "isfinite",
    "any",
    "all",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "abs",
    "max",
    "min",
    "sum",
    "mean",
    "norm",
    "linalg_vector_norm",
    "logical_not",
    "logical_or",
    "logical_and",
    "bitwise_not",
    "bitwise_and",
    "bitwise_or",
    "std",
    "var",
];

#[derive(Default)]
struct WaitGroup {
    edit: Edit,
    count: u64,
    waited: i64,
    call: String,
    row: usize,
    removed: usize,
    is_read: bool,
    copied_back: u64,
}

pub(super) fn find_synchronization(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    // Without the waits a replay would run devices at once that may need each other's results.
    if turns(scene).is_some() {
        return Vec::new();
    }
    let mut groups: BTreeMap<&str, WaitGroup> = BTreeMap::new();
    let with_inputs = sends_inputs_alone(scene);
    for window in scene.windows {
        let segments = scene.graph.segments_in(*window);
        let launches = |segment: &usize| !scene.graph.launched_by(*segment..segment + 1).is_empty();
        let Some(last_launch) = segments.clone().rev().find(launches) else {
            continue;
        };
        // What waits after the last launch ends the phase: the next one would only begin before it is over.
        for segment in segments.start..last_launch {
            if scene.is_captured(segment) {
                continue;
            }
            let Some(row) = scene.graph.row_of_segment(segment) else {
                continue;
            };
            let is_wait = scene.api(row).is_some_and(CallEffect::waits_by_itself);
            if is_wait && scene.graph.segments_of_row(row).start == segment {
                add_wait(scene, &mut groups, segment, row, with_inputs);
            }
        }
    }
    // A program reads its token once a step to know when to stop.
    let is_loop = |group: &WaitGroup| group.is_read && group.count <= scene.steps;
    let groups = groups.into_values().filter(|group| !is_loop(group));
    groups.map(|group| make_candidate(scene, group)).collect()
}

fn add_wait<'a>(
    scene: &Scene<'a>,
    groups: &mut BTreeMap<&'a str, WaitGroup>,
    segment: usize,
    row: usize,
    with_inputs: bool,
) {
    let Some(top) = scene.top_of(segment) else {
        return;
    };
    // Without operators the copy that is waited for is a call of its own.
    let copy = scene.copy_before_wait(top);
    let source = copy.unwrap_or(top);
    if moves_data(scene, source, with_inputs) {
        return;
    }
    let is_value = READS.contains(&scene.name(top));
    let is_read = is_value || only_copies(scene, source, CopyKind::DEVICE_TO_HOST);
    let selects = scene
        .rows_in(top)
        .find(|&row| SELECTS.contains(&scene.name(row)));
    let key = match selects {
        _ if is_value => READS[0],
        Some(row) => scene.name(row),
        // Reads have operators of the same name.
        None if only_copies(scene, source, CopyKind::HOST_TO_DEVICE) => INPUTS,
        None => scene.name(source),
    };
    let before = groups.get(key).map(|group| group.removed);
    let group = groups.entry(key).or_default();
    group.is_read = is_read;
    if group.count > 0 && group.removed == top {
        group.waited += scene.graph.waited_ns(segment);
        return;
    }
    group.count += 1;
    group.waited += scene.graph.waited_ns(segment);
    group.removed = top;
    scene.name(row).clone_into(&mut group.call);
    group.row = selects.unwrap_or(top);
    if is_read && let Some(copy) = copy {
        scene.remove(&mut group.edit, copy);
    }
    if top == row || is_read {
        scene.remove(&mut group.edit, top);
        if is_read {
            remove_checks(scene, &mut group.edit, top);
            remove_between(scene, &mut group.edit, before, top);
            group.copied_back += u64::from(remove_round_trip(scene, &mut group.edit, top));
        }
    } else if selects.is_some() {
        for row in scene
            .rows_in(top)
            .filter(|&row| SELECTS.contains(&scene.name(row)))
        {
            scene.remove(&mut group.edit, row);
        }
    } else {
        group.edit.drop_wait(segment);
    }
}

/// Removes what lies between two reads that follow each other closely: a tensor that is printed is read value by value.
fn remove_between(scene: &Scene<'_>, edit: &mut Edit, before: Option<usize>, top: usize) {
    let place = |row: usize| scene.tops.partition_point(|&top| top < row);
    let Some(before) = before.filter(|&before| before < top) else {
        return;
    };
    let between = &scene.tops[place(before)..place(top)];
    // Steps that end with a read may be as short, but compute on more than what is read.
    let is_for_reads = |&row: &usize| scene.work_of(row).is_empty() || is_for_read(scene, row);
    let others = between.get(1..).unwrap_or_default();
    if between.len() <= READ_BURST_MAX_OPERATORS && others.iter().all(is_for_reads) {
        for &row in between {
            scene.remove(edit, row);
        }
        // The code between formats what was read.
        let code = scene.graph.segments_of_row(before).end..scene.graph.segments_of_row(top).start;
        for segment in code {
            edit.limit_segment(segment, 0);
        }
    }
}

/// Whether an operator launches copies of one direction and nothing else.
fn only_copies(scene: &Scene<'_>, top: usize, kind: CopyKind) -> bool {
    let work = &scene.graph.work()[scene.work_of(top)];
    let is_such = |row: DeviceRow| match row {
        DeviceRow::Copy(copy) => scene.trace.copies.kind[copy as usize] == kind,
        _ => false,
    };
    !work.is_empty() && work.iter().all(|work| is_such(work.row))
}

/// Removes what the host computes on a value that was read, where it copies the result back before it launches anything else.
fn remove_round_trip(scene: &Scene<'_>, edit: &mut Edit, top: usize) -> bool {
    let Ok(place) = scene.tops.binary_search(&top) else {
        return false;
    };
    let after = &scene.tops[place + 1..];
    let Some(next) = after
        .iter()
        .take(READ_BURST_MAX_OPERATORS)
        .position(|&row| !scene.work_of(row).is_empty())
    else {
        return false;
    };
    if !only_copies(scene, after[next], CopyKind::HOST_TO_DEVICE) {
        return false;
    }
    let segments =
        scene.graph.segments_of_row(top).end..scene.graph.segments_of_row(after[next]).start;
    for segment in segments {
        edit.limit_segment(segment, 0);
    }
    scene.remove(edit, after[next]);
    true
}

/// Whether a copy of some size, or one to the device, is what the operator is for. Inputs of a step are small.
fn moves_data(scene: &Scene<'_>, top: usize, with_inputs: bool) -> bool {
    let work = &scene.graph.work()[scene.work_of(top)];
    work.iter().any(|work| match work.row {
        DeviceRow::Copy(copy) => {
            let copies = &scene.trace.copies;
            let kind = copies.kind[copy as usize];
            kind == CopyKind::HOST_TO_DEVICE && !with_inputs
                || copies.bytes[copy as usize] > SMALL_COPY_MAX_BYTES
        }
        _ => false,
    })
}

/// Removes the operators right before a read that compute what it reads.
fn remove_checks(scene: &Scene<'_>, edit: &mut Edit, top: usize) {
    let Ok(place) = scene.tops.binary_search(&top) else {
        return;
    };
    for &before in scene.tops[..place].iter().rev() {
        if !is_for_read(scene, before) {
            break;
        }
        scene.remove(edit, before);
    }
}

/// Whether an operator before a read checks or reduces a tensor, picks elements of one, or works on so few that it must be for the value
/// that is read.
fn is_for_read(scene: &Scene<'_>, top: usize) -> bool {
    let elements = |dims: &[i64]| {
        dims.iter()
            .fold(1_i64, |all, &size| all.saturating_mul(size))
    };
    let tensors = scene.tensors(top);
    let are_small = || {
        let mut dims = tensors.iter().map(|(dims, _)| elements(dims));
        dims.all(|elements| elements <= READ_TENSOR_MAX_ELEMENTS)
    };
    let picks = PICKS.contains(&scene.name(top)) && scene.work_of(top).is_empty();
    let name = scene.name(top).trim_start_matches("aten::");
    CHECKS.contains(&name)
        || scene.is_operator(top) && !tensors.is_empty() && (picks || are_small())
}

fn make_candidate(scene: &Scene<'_>, group: WaitGroup) -> CauseCandidate {
    CauseCandidate {
        kind: CauseKind::Synchronization {
            call: group.call,
            waited_ns: Nanos(scene.a_step(group.waited)),
            is_copied_back: 2 * group.copied_back > group.count,
        },
        place: scene.place(group.row),
        count: group.count,
        edit: group.edit,
        partial: None,
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::CopyKind;

    use crate::causes::CauseKind;
    use crate::causes::sketch::Sketch;

    /// Three numbers are sent in each pass, and the host waits for each: no copy need be dropped, only the wait.
    #[test]
    fn waiting_for_a_few_inputs_is_a_cause() {
        let mut sketch = Sketch::default();
        for _ in 0..3 {
            for _ in 0..10 {
                sketch.matrix_product(512, 2048, 2048, 20);
            }
            sketch.synchronizing_copy(CopyKind::HOST_TO_DEVICE, 8);
        }
        for _ in 0..40 {
            sketch.matrix_product(16, 2048, 2048, 3);
        }
        sketch.synchronize();
        let diagnosed = sketch.diagnose();
        assert!(diagnosed.gain_of("synchronization").is_some());
        assert_eq!(diagnosed.gain_of("host_copies"), None);
    }

    /// Products of 100 µs whose launches take 13 µs.
    fn with_waits(is_each_layer: bool) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..20 {
            sketch.matrix_product(512, 2048, 2048, 100);
            if is_each_layer {
                sketch.synchronize();
                sketch.pause(40);
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn waiting_after_each_layer_is_a_cause() {
        let (saved, now) = with_waits(true)
            .diagnose()
            .gain_of("synchronization")
            .unwrap();
        assert!((0.8..1.2).contains(&saved), "{saved} of {now} ms");
    }

    /// A table read in each layer, 60 µs of host code on it, and the result copied back.
    fn with_round_trips(a_step: usize) -> Sketch {
        let mut sketch = Sketch::default();
        for layer in 0..16 {
            for _ in 0..4 {
                sketch.matrix_product(16, 1024, 1024, 5);
            }
            if layer < a_step {
                sketch.synchronizing_copy(CopyKind::DEVICE_TO_HOST, 6_528);
                sketch.pause(60);
                sketch.synchronizing_copy(CopyKind::HOST_TO_DEVICE, 384);
            }
        }
        sketch.matrix_product(16, 1024, 1024, 5);
        sketch.synchronize();
        sketch
    }

    #[test]
    fn a_round_trip_over_the_host_in_each_layer_is_a_cause() {
        let diagnosed = with_round_trips(16).diagnose();
        let (saved, now) = diagnosed.gain_of("synchronization").unwrap();
        assert!((1.4..2.0).contains(&saved), "{saved} of {now} ms");
        let is_named = matches!(
            diagnosed.cause("synchronization").unwrap().kind,
            CauseKind::Synchronization {
                is_copied_back: true,
                ..
            }
        );
        assert!(is_named);
    }

    /// Frames of a few operators, each of which ends with a read.
    #[test]
    fn short_steps_between_reads_are_not_for_the_reads() {
        let mut sketch = Sketch::default();
        for _ in 0..12 {
            for _ in 0..4 {
                sketch.matrix_product(32, 2048, 2048, 40);
            }
            sketch.synchronizing_copy(CopyKind::DEVICE_TO_HOST, 256);
        }
        let diagnosed = sketch.diagnose();
        let (saved, now) = diagnosed.gain_of("synchronization").unwrap_or_default();
        assert!(saved <= 0.3 * now, "{saved} of {now} ms");
    }

    #[test]
    fn reading_once_a_step_is_none() {
        let diagnosed = with_round_trips(1).diagnose();
        assert_eq!(diagnosed.gain_of("synchronization"), None);
    }

    #[test]
    fn waiting_at_the_end_is_none() {
        assert_eq!(
            with_waits(false).diagnose().gain_of("synchronization"),
            None
        );
    }
}
