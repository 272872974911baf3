//! A device that waits for launches: what capturing them in a graph would give.

use llmprof_units::Nanos;

use super::cause::{CauseKind, Place};
use super::pauses::is_pause;
use super::{Candidate, Scene};
use crate::replay::{Api, Edit, Wait};

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let mut edit = Edit::default();
    let mut launches = 0_u64;
    let a_step = (scene.own_work().count() as u64 / scene.steps.max(1)).max(1);
    for segment in scene.segments() {
        let row = scene.graph.row_of_segment(segment);
        let api = row.and_then(|row| scene.api(row));
        if scene.graph.wait_of(segment) != Wait::No || is_pause(scene, segment) {
            continue;
        }
        match api {
            // One launch a step stays: that of the graph.
            Some(Api::Launch) if launches.is_multiple_of(a_step) => {
                launches += 1;
            }
            Some(Api::Launch) => {
                launches += 1;
                edit.limit_segment(segment, 0);
            }
            Some(Api::Memory | Api::Transfer) => {}
            _ if is_slow(scene, segment) => {}
            _ => edit.limit_segment(segment, 0),
        }
    }
    let busy: i64 = scene.own_work().map(|(_, work)| work.duration).sum();
    // Most kernels come out of graphs already.
    if launches == 0 || 2 * launches < scene.own_work().count() as u64 {
        return Vec::new();
    }
    vec![Candidate {
        kind: CauseKind::LaunchBound {
            launches: launches / scene.steps.max(1),
            busy_ns: Nanos(scene.a_step(busy)),
        },
        place: Place::default(),
        count: launches,
        edit,
        partial: None,
    }]
}

/// Work of the host that no graph captures: operators on the CPU and calls far longer than launching.
fn is_slow(scene: &Scene<'_>, segment: usize) -> bool {
    const LAUNCHING_MAX_NS: i64 = 200_000;
    scene.graph.segment_duration(segment) > LAUNCHING_MAX_NS
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_kernels(us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..100 {
            sketch.matrix_product(16, 1024, 1024, us);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn short_kernels_wait_for_launches() {
        let (saved, now) = sketch_kernels(2)
            .diagnose()
            .gain_of("launch_bound")
            .unwrap();
        assert!(saved > 0.4 * now, "{saved} of {now} ms");
    }

    #[test]
    fn long_kernels_do_not() {
        assert_eq!(sketch_kernels(100).diagnose().gain_of("launch_bound"), None);
    }
}
