//! Copies between host and device, and what the host computes on them.

use crate::thresholds::{NOT_INPUTS_MIN_COPIES, OPERATOR_AFTER_COPY_MIN_NS, SMALL_COPY_MAX_BYTES};
use llmprof_record::trace::{CopyKind, MemoryKind};
use llmprof_units::{Bytes, Nanos};
use rustc_hash::FxHashSet;

use super::cause::CauseKind;
use super::{CauseCandidate, ProgramPurpose, Scene};
use crate::phase_facts::{CopyDirection, CopyTime, LinkLimit};
use crate::replay::{CallWait, DeviceRow, Edit};

/// What a pinned copy reaches over PCIe 5 ×16, bytes per ns (H200: 52–55 GB/s measured).
const PINNED_BYTES_PER_NS: f64 = 50.0;
/// What an asynchronous copy takes on the host.
const ASYNC_CALL_NS: i64 = 20_000;

#[derive(Default)]
struct CopyGroup {
    /// The copies.
    works: Vec<usize>,
    tops: Vec<usize>,
    /// Time and outermost operator of the copy that takes longest.
    longest: Option<(i64, usize)>,
    edit: Edit,
    partial: Edit,
    copies: u64,
    bytes: u64,
    copied: i64,
    pageable: i64,
    computed: Option<(usize, i64)>,
}

pub(super) fn find_host_copies(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut to_device = CopyGroup::default();
    let mut to_host = CopyGroup::default();
    let prefetch = serialized_prefetch(scene);
    for (index, work) in scene.own_work() {
        let DeviceRow::Copy(row) = work.row else {
            continue;
        };
        if prefetch.contains(&index) {
            continue;
        }
        let (copies, row) = (&scene.trace.copies, row as usize);
        let group = match copies.kind[row] {
            CopyKind::HOST_TO_DEVICE => &mut to_device,
            CopyKind::DEVICE_TO_HOST if copies.bytes[row] > SMALL_COPY_MAX_BYTES => &mut to_host,
            _ => continue,
        };
        group.works.push(index);
        group.copies += 1;
        group.bytes += copies.bytes[row];
        group.copied += work.duration;
        let is_pageable = copies.source[row] == MemoryKind::PAGEABLE
            || copies.target[row] == MemoryKind::PAGEABLE;
        if is_pageable {
            group.pageable += work.duration;
            let pinned = copies.bytes[row] as f64 / PINNED_BYTES_PER_NS;
            group.partial.set_duration(index, pinned as i64);
            // The host stages pageable memory itself, whether it waits for the copy or not.
            group
                .partial
                .limit_segment(work.segment as usize, ASYNC_CALL_NS);
        }
        let segment = work.segment as usize;
        group.partial.drop_wait(segment);
        let Some(top) = scene.top_of(segment) else {
            continue;
        };
        for inner in scene.graph.segments_of_row(top) {
            group.partial.drop_wait(inner);
        }
        if group.longest.is_none_or(|(most, _)| work.duration > most) {
            group.longest = Some((work.duration, top));
        }
        if group.tops.last() != Some(&top) {
            group.tops.push(top);
            scene.remove(&mut group.edit, top);
            if let Some(wait) = scene.wait_after_copy(top) {
                scene.remove(&mut group.edit, wait);
                for inner in scene.graph.segments_of_row(wait) {
                    group.partial.drop_wait(inner);
                }
            }
        }
    }
    compute_on_host(scene, &mut to_host);
    let is_input = may_be_inputs(scene, &to_device);
    if is_input {
        to_device.edit = overlap_inputs(scene, &to_device);
    }
    let groups = [(true, to_device), (false, to_host)].into_iter();
    // What costs of a few numbers is waiting for them: `synchronization`.
    let is_cause = |(to_device, group): &(bool, CopyGroup)| {
        group.copies > 0 && !(*to_device && are_inputs(scene, group.copies, group.bytes))
    };
    let groups = groups.filter(is_cause);
    groups
        .map(|(is_to_device, group)| {
            make_candidate(scene, is_to_device, is_to_device && is_input, group)
        })
        .chain(prefetch_candidate(scene, &prefetch))
        .collect()
}

/// Whether copies to the device are a few numbers of each step, which have to come from the host.
fn are_inputs(scene: &Scene<'_>, copies: u64, bytes: u64) -> bool {
    bytes <= copies * SMALL_COPY_MAX_BYTES && copies < NOT_INPUTS_MIN_COPIES * scene.steps.max(1)
}

/// Whether the copies to the device of a phase are inputs of its steps.
pub(super) fn sends_inputs_alone(scene: &Scene<'_>) -> bool {
    let (mut count, mut bytes) = (0, 0);
    for (_, work) in scene.own_work() {
        if let DeviceRow::Copy(row) = work.row
            && scene.trace.copies.kind[row as usize] == CopyKind::HOST_TO_DEVICE
        {
            count += 1;
            bytes += scene.trace.copies.bytes[row as usize];
        }
    }
    are_inputs(scene, count, bytes)
}

/// Copies from pinned memory on streams without kernels that nothing but an order of streams keeps from running beside kernels.
fn serialized_prefetch(scene: &Scene<'_>) -> Vec<usize> {
    let all = scene.graph.work();
    let kernels = || {
        let own = scene.own_work().map(|(_, work)| work);
        own.filter(|work| matches!(work.row, DeviceRow::Kernel(_)))
    };
    let streams: FxHashSet<u32> = kernels().map(|work| work.stream).collect();
    let copies: Vec<usize> = scene
        .own_work()
        .filter(|(_, work)| {
            let DeviceRow::Copy(row) = work.row else {
                return false;
            };
            scene.trace.copies.kind[row as usize] == CopyKind::HOST_TO_DEVICE
                && scene.trace.copies.source[row as usize] != MemoryKind::PAGEABLE
                && !streams.contains(&work.stream)
                && scene.graph.wait_of(work.segment as usize) == CallWait::No
        })
        .map(|(index, _)| index)
        .collect();
    let mut busy: Vec<(i64, i64)> = kernels().map(|work| (work.start, work.end())).collect();
    busy.sort_unstable();
    let copied: i64 = copies.iter().map(|&index| all[index].duration).sum();
    let beside: i64 = copies
        .iter()
        .map(|&index| overlap(&busy, all[index].start, all[index].end()))
        .sum();
    if 2 * beside < copied {
        copies
    } else {
        Vec::new()
    }
}

/// The part of an interval that lies in others, which are sorted and of one stream or a few.
fn overlap(others: &[(i64, i64)], start: i64, end: i64) -> i64 {
    let until = others.partition_point(|other| other.0 < end);
    let (mut covered, mut from) = (0, start);
    let first = others[..until].partition_point(|other| other.1 <= start);
    for other in &others[first.min(until)..until] {
        let begin = other.0.max(from);
        let close = other.1.min(end);
        covered += (close - begin).max(0);
        from = from.max(close);
    }
    covered
}

fn prefetch_candidate(scene: &Scene<'_>, copies: &[usize]) -> Option<CauseCandidate> {
    let all = scene.graph.work();
    let first = all[*copies.first()?].segment as usize;
    let mut edit = Edit::default();
    let (mut bytes, mut copied) = (0, 0);
    for &index in copies {
        edit.drop_stream_wait(index);
        copied += all[index].duration;
        if let DeviceRow::Copy(row) = all[index].row {
            bytes += scene.trace.copies.bytes[row as usize];
        }
    }
    Some(CauseCandidate {
        kind: CauseKind::HostCopies {
            to_device: true,
            bytes: Bytes(bytes / scene.steps.max(1)),
            is_pageable: false,
            is_serialized: true,
            is_input: false,
            gains_by_joining: false,
            copied_ns: Nanos(scene.a_step(copied)),
            computed_on_host: None,
        },
        place: scene
            .top_of(first)
            .map(|top| scene.place(top))
            .unwrap_or_default(),
        count: copies.len() as u64,
        edit,
        partial: None,
    })
}

/// Removes the operators that compute on the host what was copied there, and the copy of their result back.
fn compute_on_host(scene: &Scene<'_>, group: &mut CopyGroup) {
    let mut longest: Option<(usize, i64)> = None;
    let mut total = 0;
    for index in 0..group.tops.len() {
        for row in host_operators_after(scene, group.tops[index]) {
            let time = scene.trace.hosts.duration[row];
            let launches = !scene.work_of(row).is_empty();
            if !launches {
                total += time;
                if longest.is_none_or(|(_, most)| time > most) {
                    longest = Some((row, time));
                }
            }
            scene.remove(&mut group.edit, row);
        }
    }
    group.computed = longest.map(|(row, _)| (row, total));
}

/// Operators after a copy to the host that launch nothing, up to the copy of a result back.
pub(super) fn host_operators_after(scene: &Scene<'_>, top: usize) -> Vec<usize> {
    let Ok(place) = scene.tops.binary_search(&top) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for &row in &scene.tops[place + 1..] {
        let work = &scene.graph.work()[scene.work_of(row)];
        let is_copy_back = |row: &DeviceRow| match *row {
            DeviceRow::Copy(copy) => {
                scene.trace.copies.kind[copy as usize] == CopyKind::HOST_TO_DEVICE
            }
            _ => false,
        };
        if work.iter().any(|work| !is_copy_back(&work.row)) {
            break;
        }
        let ends = !work.is_empty();
        // A runtime call outside operators computes nothing.
        let computes = scene.api(row).is_none()
            && scene.trace.hosts.duration[row] >= OPERATOR_AFTER_COPY_MIN_NS;
        if ends || computes {
            rows.push(row);
        }
        if ends {
            break;
        }
    }
    rows
}

/// Whether the copies to the device may be fresh inputs: no more than one a step, in a program that is not known to generate text, whose
/// inputs are a few numbers.
fn may_be_inputs(scene: &Scene<'_>, group: &CopyGroup) -> bool {
    group.copies <= scene.steps && scene.subject.purpose != ProgramPurpose::GeneratesText
}

/// Inputs copied while the step before computes: a step then takes as long as the longer of the two.
fn overlap_inputs(scene: &Scene<'_>, group: &CopyGroup) -> Edit {
    let mut edit = group.partial.clone();
    let windows = scene.windows.iter();
    let time: i64 = windows.map(|window| window.end - window.start).sum();
    let exposed = (2 * group.copied - time).max(0) / (group.copies.max(1) as i64);
    for &index in &group.works {
        edit.set_duration(index, exposed);
    }
    edit
}

fn make_candidate(
    scene: &Scene<'_>,
    to_device: bool,
    is_input: bool,
    group: CopyGroup,
) -> CauseCandidate {
    let computed = group.computed.map(|(row, time)| {
        let name = scene.name(row).to_owned();
        (name, Nanos(scene.a_step(time)))
    });
    let place = group.longest.map(|(_, top)| scene.place(top));
    let direction = if to_device {
        CopyDirection::HostToDevice
    } else {
        CopyDirection::DeviceToHost
    };
    let copies = CopyTime {
        copies: group.copies,
        bytes: Bytes(group.bytes),
        time_ns: Nanos(group.copied),
        limit: scene
            .device
            .and_then(|device| LinkLimit::of_direction(device, direction)),
        ..CopyTime::of(direction)
    };
    CauseCandidate {
        kind: CauseKind::HostCopies {
            to_device,
            bytes: Bytes(group.bytes / scene.steps.max(1)),
            is_pageable: 2 * group.pageable > group.copied,
            is_serialized: false,
            is_input,
            gains_by_joining: group.copies > scene.steps && copies.gains_by_joining(),
            copied_ns: Nanos(scene.a_step(group.copied)),
            computed_on_host: computed,
        },
        place: place.unwrap_or_default(),
        count: group.copies,
        edit: group.edit,
        partial: (!is_input).then(|| vec![group.partial]),
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::CopyKind;

    use crate::causes::sketch::Sketch;
    use crate::causes::{CauseKind, ProgramPurpose};

    fn with_copy(bytes: u64, us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.copy(CopyKind::DEVICE_TO_HOST, bytes, us);
            sketch.matrix_product(16, 4096, 4096, 200);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn large_copies_that_the_host_waits_for_are_a_cause() {
        let (saved, now) = with_copy(32 << 20, 4_000)
            .diagnose()
            .gain_of("host_copies")
            .unwrap();
        assert!((15.9..16.9).contains(&saved), "{saved} of {now} ms");
    }

    /// Layers of 2 ms with weights of 1 ms to copy, in turns or all copied before the first.
    fn with_prefetch(is_serialized: bool) -> Sketch {
        let mut sketch = Sketch::default();
        for layer in 0..8 {
            if is_serialized || layer == 0 {
                sketch.prefetch(48 << 20, 1_000);
            }
            for _ in 0..20 {
                sketch.matrix_product(4096, 4096, 4096, 100);
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn copies_that_could_run_beside_kernels_are_a_cause() {
        let diagnosed = with_prefetch(true).diagnose();
        let (saved, now) = diagnosed.gain_of("host_copies").unwrap();
        assert!((6.5..7.2).contains(&saved), "{saved} of {now} ms");
        assert_eq!(with_prefetch(false).diagnose().gain_of("host_copies"), None);
    }

    /// 10 ms of input before 8 ms of work, or 2 ms: prefetching hides the shorter of the two.
    #[test]
    fn fresh_inputs_can_be_copied_while_the_step_before_computes() {
        for (copied, hidden) in [(10_000, 8.0), (2_000, 2.0)] {
            let mut sketch = Sketch::default();
            sketch.steps = 4;
            sketch.purpose = ProgramPurpose::RunsModel;
            for _ in 0..4 {
                sketch.copy(CopyKind::HOST_TO_DEVICE, 64 << 20, copied);
                for _ in 0..40 {
                    sketch.matrix_product(4096, 4096, 4096, 200);
                }
                sketch.synchronize();
            }
            let found = sketch.diagnose();
            let (saved, now) = found.gain_of("host_copies").unwrap();
            assert!(
                (hidden - 0.8..hidden + 0.8).contains(&saved),
                "{saved} of {now} ms"
            );
            let kind = &found.cause("host_copies").unwrap().kind;
            assert!(
                matches!(kind, CauseKind::HostCopies { is_input: true, .. }),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn joining_is_advised_for_small_copies_below_link_speed() {
        let gains = |bytes: u64, us| {
            let mut sketch = Sketch::default();
            for _ in 0..16 {
                sketch.copy(CopyKind::HOST_TO_DEVICE, bytes, us);
            }
            sketch.matrix_product(512, 2048, 2048, 200);
            sketch.synchronize();
            let found = sketch.diagnose();
            match found.cause("host_copies").unwrap().kind {
                CauseKind::HostCopies {
                    gains_by_joining, ..
                } => gains_by_joining,
                _ => false,
            }
        };
        // 5 and 52 GB/s over PCIe 5 with 64 GB/s.
        assert!(gains(512 << 10, 100));
        assert!(!gains(512 << 10, 10));
        assert!(!gains(32 << 20, 4_000));
    }

    #[test]
    fn reading_a_token_is_none() {
        assert_eq!(with_copy(8, 2).diagnose().gain_of("host_copies"), None);
    }
}
