//! Copies between host and device, and what the host computes on them.

use llmprof_record::trace::{CopyKind, MemoryKind};
use llmprof_units::{Bytes, Nanos};

use super::cause::CauseKind;
use super::sync::SMALL_COPY_MAX_BYTES;
use super::{Candidate, Scene};
use crate::replay::{Edit, WorkRow};

/// What a pinned copy reaches over PCIe 5 ×16, bytes per ns (H200: 52–55 GB/s measured).
const PINNED_BYTES_PER_NS: f64 = 50.0;
/// What an asynchronous copy takes on the host.
const ASYNC_CALL_NS: i64 = 20_000;
/// Operators on the host that take less are views and bookkeeping.
const HOST_OPERATOR_MIN_NS: i64 = 20_000;

#[derive(Default)]
struct Group {
    tops: Vec<usize>,
    edit: Edit,
    partial: Edit,
    copies: u64,
    bytes: u64,
    copied: i64,
    pageable: i64,
    computed: Option<(usize, i64)>,
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let mut to_device = Group::default();
    let mut to_host = Group::default();
    for (index, work) in scene.own_work() {
        let WorkRow::Copy(row) = work.row else {
            continue;
        };
        let (copies, row) = (&scene.trace.copies, row as usize);
        let group = match copies.kind[row] {
            CopyKind::HOST_TO_DEVICE => &mut to_device,
            CopyKind::DEVICE_TO_HOST if copies.bytes[row] > SMALL_COPY_MAX_BYTES => &mut to_host,
            _ => continue,
        };
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
        if group.tops.last() != Some(&top) {
            group.tops.push(top);
            scene.remove(&mut group.edit, top);
        }
    }
    compute_on_host(scene, &mut to_host);
    let groups = [(true, to_device), (false, to_host)].into_iter();
    groups
        .filter(|(_, group)| group.copies > 0)
        .map(|(is_to_device, group)| candidate(scene, is_to_device, group))
        .collect()
}

/// Removes the operators that compute on the host what was copied there, and the copy of their result back.
fn compute_on_host(scene: &Scene<'_>, group: &mut Group) {
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
        let is_copy_back = |row: &WorkRow| match *row {
            WorkRow::Copy(copy) => {
                scene.trace.copies.kind[copy as usize] == CopyKind::HOST_TO_DEVICE
            }
            _ => false,
        };
        if work.iter().any(|work| !is_copy_back(&work.row)) {
            break;
        }
        let ends = !work.is_empty();
        // A runtime call outside operators computes nothing.
        let computes =
            scene.api(row).is_none() && scene.trace.hosts.duration[row] >= HOST_OPERATOR_MIN_NS;
        if ends || computes {
            rows.push(row);
        }
        if ends {
            break;
        }
    }
    rows
}

fn candidate(scene: &Scene<'_>, to_device: bool, group: Group) -> Candidate {
    let computed = group.computed.map(|(row, time)| {
        let name = scene.name(row).to_owned();
        (name, Nanos(scene.a_step(time)))
    });
    let place = group.tops.first().map(|&top| scene.place(top));
    Candidate {
        kind: CauseKind::HostCopies {
            to_device,
            bytes: Bytes(group.bytes / scene.steps.max(1)),
            is_pageable: 2 * group.pageable > group.copied,
            copied_ns: Nanos(scene.a_step(group.copied)),
            computed_on_host: computed,
        },
        place: place.unwrap_or_default(),
        count: group.copies,
        edit: group.edit,
        partial: Some(group.partial),
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::CopyKind;

    use crate::causes::sketch::Sketch;

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

    #[test]
    fn reading_a_token_is_none() {
        assert_eq!(with_copy(8, 2).diagnose().gain_of("host_copies"), None);
    }
}
