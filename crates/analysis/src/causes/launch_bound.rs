//! A device that waits for launches: what capturing them in a graph would give.

use crate::thresholds::LAUNCHING_SEGMENT_MAX_NS;
use llmprof_units::Nanos;

use super::cause::{CauseKind, CausePlace};
use super::pauses::is_pause;
use super::{CauseCandidate, Scene};
use crate::replay::{CallEffect, CallWait, Edit};
use crate::thresholds::CODE_MIN_USUAL_GAPS;

pub(super) fn find_launch_bound_phase(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut edit = Edit::default();
    let mut launches = 0_u64;
    let mut code = 0;
    let a_step = (scene.own_work().count() as u64 / scene.steps.max(1)).max(1);
    for segment in scene.segments() {
        let row = scene.graph.row_of_segment(segment);
        let api = row.and_then(|row| scene.api(row));
        if scene.graph.wait_of(segment) != CallWait::No || is_pause(scene, segment) {
            continue;
        }
        match api {
            // One launch a step stays: that of the graph.
            Some(CallEffect::Launch) if launches.is_multiple_of(a_step) => {
                launches += 1;
            }
            Some(CallEffect::Launch) => {
                launches += 1;
                edit.limit_segment(segment, 0);
            }
            Some(CallEffect::Memory | CallEffect::Transfer) => {}
            _ if is_slow(scene, segment) => {}
            _ => {
                edit.limit_segment(segment, 0);
                let time = scene.graph.segment_duration(segment);
                if scene.is_code(segment) && time > CODE_MIN_USUAL_GAPS * scene.usual_gap {
                    code += time;
                }
            }
        }
    }
    let busy: i64 = scene.own_work().map(|(_, work)| work.duration).sum();
    // Most kernels come out of graphs already.
    if launches == 0 || 2 * launches < scene.own_work().count() as u64 {
        return Vec::new();
    }
    vec![CauseCandidate {
        kind: CauseKind::LaunchBound {
            launches: launches / scene.steps.max(1),
            busy_ns: Nanos(scene.a_step(busy)),
            code_ns: Nanos(scene.a_step(code)),
        },
        place: CausePlace::default(),
        count: launches,
        edit,
        partial: None,
    }]
}

/// Work of the host that no graph captures: operators on the CPU and calls far longer than launching.
fn is_slow(scene: &Scene<'_>, segment: usize) -> bool {
    scene.graph.segment_duration(segment) > LAUNCHING_SEGMENT_MAX_NS
}

#[cfg(test)]
mod tests {
    use crate::causes::CauseKind;
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
        // The kernels stay.
        let diagnosed = sketch_kernels(2).diagnose();
        let gain = &diagnosed.cause("launch_bound").unwrap().gains[0];
        assert!(gain.high_ns.0 <= gain.now_ns.0 - 200_000, "{gain:?}");
    }

    /// 120 µs of code after every fifth product are no launches.
    #[test]
    fn host_code_is_told_from_launches() {
        let mut sketch = Sketch::default();
        for product in 0..100 {
            sketch.matrix_product(16, 1024, 1024, 2);
            if product % 5 == 4 {
                sketch.pause(120);
            }
        }
        sketch.synchronize();
        let CauseKind::LaunchBound { code_ns, .. } =
            sketch.diagnose().cause("launch_bound").unwrap().kind
        else {
            panic!("launch-bound");
        };
        assert!((2_300_000..2_500_000).contains(&code_ns.0), "{code_ns}");
    }

    #[test]
    fn long_kernels_do_not() {
        assert_eq!(sketch_kernels(100).diagnose().gain_of("launch_bound"), None);
    }
}
