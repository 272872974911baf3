//! Kernels that run beside the program: those of other threads on streams of their own.

use llmprof_record::trace::StrId;
use llmprof_units::{Nanos, stats::upper_median};
use rustc_hash::{FxHashMap, FxHashSet};

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceWork, Edit};

pub(super) fn find_other_work(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let work = scene.graph.work();
    let foreign: Vec<usize> = (0..work.len())
        .filter(|&index| !work[index].is_own)
        .collect();
    let in_phase: Vec<&DeviceWork> = foreign
        .iter()
        .map(|&index| &work[index])
        .filter(|work| {
            let mut windows = scene.windows.iter();
            windows.any(|window| work.start < window.end && window.start < work.end())
        })
        .collect();
    let Some(longest) = in_phase.iter().max_by_key(|work| work.duration) else {
        return Vec::new();
    };
    let mut edit = Edit::default();
    edit.run_alone();
    for &index in &foreign {
        edit.drop_work(index);
    }
    let mut intervals: Vec<(i64, i64)> = foreign
        .iter()
        .map(|&index| (work[index].start, work[index].end()))
        .collect();
    intervals.sort_unstable();
    // How much slower kernels are beside others is known from those alone, if at all.
    let as_recorded = edit.clone();
    restore_durations(scene, &mut edit, &intervals);
    let streams: FxHashSet<u32> = in_phase.iter().map(|work| work.stream).collect();
    let time: i64 = in_phase.iter().map(|work| work.duration).sum();
    vec![CauseCandidate {
        kind: CauseKind::OtherWork {
            streams: streams.len() as u64,
            kernels_ns: Nanos(scene.a_step(time)),
            longest: Some(scene.work_name(longest).to_owned()),
        },
        place: CausePlace::default(),
        count: in_phase.len() as u64,
        edit,
        partial: Some(vec![as_recorded]),
    }]
}

/// Gives work that ran beside other work the duration of the same kernel alone.
fn restore_durations(scene: &Scene<'_>, edit: &mut Edit, others: &[(i64, i64)]) {
    let beside = |work: &DeviceWork| {
        let after = others.partition_point(|other| other.0 < work.end());
        others[..after]
            .iter()
            .rev()
            .take(8)
            .any(|other| other.1 > work.start)
    };
    let mut alone: FxHashMap<(StrId, [u32; 3]), Vec<i64>> = FxHashMap::default();
    let mut all: FxHashMap<(StrId, [u32; 3]), i64> = FxHashMap::default();
    for (_, work) in scene.own_work() {
        let Some(key) = scene.kernel_key(work) else {
            continue;
        };
        let least = all.entry(key).or_insert(work.duration);
        *least = (*least).min(work.duration);
        if !beside(work) {
            alone.entry(key).or_default().push(work.duration);
        }
    }
    let alone: FxHashMap<_, i64> = alone
        .into_iter()
        .filter_map(|(key, mut times)| Some((key, upper_median(&mut times)?)))
        .collect();
    for (index, work) in scene.own_work() {
        let Some(key) = scene.kernel_key(work).filter(|_| beside(work)) else {
            continue;
        };
        edit.set_duration(index, *alone.get(&key).unwrap_or(&all[&key]));
    }
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    #[test]
    fn kernels_of_another_thread_are_a_cause_and_those_of_the_program_none() {
        let draw = |is_disturbed: bool| {
            let mut sketch = Sketch::default();
            for _ in 0..6 {
                sketch.matrix_product(512, 2048, 2048, 50);
                if is_disturbed {
                    sketch.disturb(200);
                }
            }
            sketch.synchronize();
            sketch.diagnose().gain_of("other_work")
        };
        let (saved, now) = draw(true).unwrap();
        assert!(saved > 0.4 * now, "{saved} of {now} ms");
        assert_eq!(draw(false), None);
    }
}
