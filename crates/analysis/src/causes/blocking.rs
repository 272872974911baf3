//! Launches that return when their kernels have ended: `CUDA_LAUNCH_BLOCKING=1`.

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::{CallEffect, CallWait, Edit};

pub(super) fn find_blocking_launches(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut edit = Edit::default();
    let mut count = 0;
    for segment in scene.segments() {
        let row = scene.graph.row_of_segment(segment);
        let is_launch = row.is_some_and(|row| scene.api(row) == Some(CallEffect::Launch));
        if is_launch && scene.graph.wait_of(segment) == CallWait::Own {
            edit.drop_wait(segment);
            count += 1;
        }
    }
    if count == 0 {
        return Vec::new();
    }
    vec![CauseCandidate {
        kind: CauseKind::BlockingLaunches,
        place: CausePlace::default(),
        count,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    #[test]
    fn launches_that_run_ahead_do_not_block() {
        let mut sketch = Sketch::default();
        for _ in 0..20 {
            sketch.matrix_product(512, 2048, 2048, 100);
        }
        sketch.synchronize();
        assert_eq!(sketch.diagnose().gain_of("blocking_launches"), None);
    }

    #[test]
    fn launches_that_end_with_their_kernels_do() {
        let mut sketch = Sketch::default();
        sketch.is_blocking = true;
        for _ in 0..20 {
            sketch.matrix_product(512, 2048, 2048, 100);
            sketch.pause(50);
        }
        sketch.synchronize();
        let (saved, now) = sketch.diagnose().gain_of("blocking_launches").unwrap();
        assert!(saved > 0.3 * now, "{saved} of {now} ms");
    }
}
