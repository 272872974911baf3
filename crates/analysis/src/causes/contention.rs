//! A thread that loses its CPU: pauses of milliseconds at places that have nothing in common.

use crate::thresholds::{CPU_PAUSE_PLACE_MAX_SHARE, CPU_PAUSE_PLACES_MIN, CPU_SLICE_MIN_NS};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use super::cause::{CauseKind, CausePlace};
use super::pauses::is_pause;
use super::stacks::read_samples;
use super::{CauseCandidate, Scene};
use crate::replay::{CallEffect, CallWait, Edit};

/// Long segments outside of operators, each with the name of what comes next or of the call it lies in.
fn pauses_between_operators<'s>(scene: &'s Scene<'_>) -> Vec<(usize, &'s str)> {
    let segments = scene.segments().filter(|&segment| {
        scene.graph.segment_duration(segment) >= CPU_SLICE_MIN_NS
            && scene.graph.wait_of(segment) == CallWait::No
    });
    segments
        .filter_map(|segment| {
            if is_pause(scene, segment) {
                let next = scene.top_after(segment);
                return Some((segment, next.map_or("", |row| scene.name(row))));
            }
            let row = scene.graph.row_of_segment(segment)?;
            let waits = match scene.api(row)? {
                CallEffect::Memory | CallEffect::Transfer => true,
                api => api.waits_by_itself(),
            };
            (!waits).then(|| (segment, scene.name(row)))
        })
        .collect()
}

/// Whether pauses lie at so many places that the scheduler must be behind them.
pub(super) fn is_contended(scene: &Scene<'_>) -> bool {
    let is_contended = &scene.is_contended;
    // Names of calls do not tell one place from another.
    *is_contended.get_or_init(|| scene.has_operators && are_pauses_unrelated(scene))
}

fn are_pauses_unrelated(scene: &Scene<'_>) -> bool {
    let mut places: FxHashMap<&str, i64> = FxHashMap::default();
    for (segment, name) in all_pauses(scene) {
        *places.entry(name).or_default() += scene.graph.segment_duration(segment);
    }
    let total: i64 = places.values().sum();
    let most = places.values().copied().max().unwrap_or(0);
    let are_unrelated = places.len() >= CPU_PAUSE_PLACES_MIN
        && (most as f64) < CPU_PAUSE_PLACE_MAX_SHARE * total as f64;
    are_unrelated && !is_python_waiting(scene)
}

/// Whether sampled stacks show what the pauses are: the garbage collector, or another thread that holds the GIL.
fn is_python_waiting(scene: &Scene<'_>) -> bool {
    let mut intervals: Vec<(i64, i64)> = all_pauses(scene)
        .into_iter()
        .map(|(segment, _)| {
            let start = scene.graph.segment_start(segment);
            (start, start + scene.graph.segment_duration(segment))
        })
        .collect();
    intervals.sort_unstable();
    let stacks = read_samples(scene, scene.graph.main_thread(), &intervals);
    stacks.gil_holder.is_some() || stacks.collecting_share.is_some_and(|share| share > 0.5)
}

/// Pauses in operators as well as between them. What is used for the first time is loaded or compiled then.
fn all_pauses<'s>(scene: &'s Scene<'_>) -> Vec<(usize, &'s str)> {
    let mut pauses = pauses_of_any_use(scene);
    if pauses.is_empty() {
        return pauses;
    }
    let mut first_uses: FxHashMap<&str, usize> = FxHashMap::default();
    for (index, work) in scene.graph.work().iter().enumerate() {
        first_uses.entry(scene.work_name(work)).or_insert(index);
    }
    pauses.retain(|&(segment, _)| {
        let top = scene.top_of(segment).or_else(|| scene.top_after(segment));
        let mut launched = top.map_or(0..0, |top| scene.work_of(top));
        !launched.any(|index| first_uses[scene.work_name(&scene.graph.work()[index])] == index)
    });
    pauses
}

fn pauses_of_any_use<'s>(scene: &'s Scene<'_>) -> Vec<(usize, &'s str)> {
    let mut pauses = pauses_between_operators(scene);
    let long = |segment: &usize| scene.graph.segment_duration(*segment) >= CPU_SLICE_MIN_NS;
    for segment in scene.segments().filter(long) {
        let row = scene.graph.row_of_segment(segment);
        let Some(row) = row.filter(|&row| scene.api(row).is_none()) else {
            continue;
        };
        let launches = scene
            .top_of(segment)
            .is_some_and(|top| !scene.work_of(top).is_empty());
        if launches {
            pauses.push((segment, scene.name(row)));
        }
    }
    pauses
}

pub(super) fn find_cpu_contention(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    if !is_contended(scene) {
        return Vec::new();
    }
    let pauses = all_pauses(scene);
    let mut edit = Edit::default();
    let mut time = 0;
    for &(segment, _) in &pauses {
        edit.limit_segment(segment, scene.usual_gap);
        time += scene.graph.segment_duration(segment);
    }
    vec![CauseCandidate {
        kind: CauseKind::CpuContention {
            time_ns: Nanos(scene.a_step(time)),
        },
        place: CausePlace::default(),
        count: pauses.len() as u64,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    /// Pauses of 4 ms before operators of as many kinds as `names`.
    fn sketch_pauses(names: &[&str]) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..3 {
            for name in names {
                for _ in 0..10 {
                    sketch.matrix_product(16, 1024, 1024, 5);
                }
                sketch.pause(4_000);
                sketch.operator(name, &[], &[("elementwise", 5)]);
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn pauses_at_unrelated_places_are_contention() {
        let diagnosed =
            sketch_pauses(&["aten::add", "aten::mul", "aten::cat", "aten::silu"]).diagnose();
        assert!(diagnosed.gain_of("cpu_contention").is_some());
        assert_eq!(diagnosed.gain_of("host_code"), None);
    }

    #[test]
    fn pauses_before_first_uses_are_no_contention() {
        let mut sketch = Sketch::default();
        for name in ["aten::add", "aten::mul", "aten::cat", "aten::silu"] {
            for _ in 0..10 {
                sketch.matrix_product(16, 1024, 1024, 5);
            }
            sketch.pause(4_000);
            sketch.operator(name, &[], &[(name, 5)]);
        }
        sketch.synchronize();
        assert_eq!(sketch.diagnose().gain_of("cpu_contention"), None);
    }

    /// Stacks say more than where pauses are.
    #[test]
    fn pauses_in_which_another_thread_holds_the_gil_are_no_contention() {
        let mut sketch = sketch_pauses(&["aten::add", "aten::mul", "aten::cat", "aten::silu"]);
        sketch.sample_gil_waits();
        let diagnosed = sketch.diagnose();
        assert_eq!(diagnosed.gain_of("cpu_contention"), None);
        assert!(diagnosed.gain_of("host_code").is_some());
    }

    #[test]
    fn pauses_at_one_place_are_code() {
        let diagnosed = sketch_pauses(&["aten::add"]).diagnose();
        assert_eq!(diagnosed.gain_of("cpu_contention"), None);
        assert!(diagnosed.gain_of("host_code").is_some());
    }
}
