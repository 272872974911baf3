//! Exchange between devices that nothing hides.

use llmprof_record::kernel_name::Category;
use llmprof_units::Nanos;

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

pub(super) fn find_communication(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut edit = Edit::default();
    let (mut count, mut time) = (0, 0);
    let mut longest: Option<(i64, &str)> = None;
    for (index, work) in scene.own_work() {
        if scene.category(work) != Category::Communication {
            continue;
        }
        edit.set_duration(index, 0);
        count += 1;
        time += work.duration;
        if longest.is_none_or(|(most, _)| work.duration > most) {
            longest = Some((work.duration, scene.work_name(work)));
        }
    }
    let Some((_, longest)) = longest else {
        return Vec::new();
    };
    vec![CauseCandidate {
        kind: CauseKind::Communication {
            kernels_ns: Nanos(scene.a_step(time)),
            longest: longest.to_owned(),
        },
        place: CausePlace::default(),
        count,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_exchange(name: &str) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.matrix_product(512, 2048, 2048, 100);
            sketch.operator("c10d::allreduce_", &[], &[(name, 80)]);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn exposed_collectives_are_a_cause() {
        let diagnosed = sketch_exchange("ncclDevKernel_AllReduce_Sum_bf16_RING_LL").diagnose();
        let (saved, now) = diagnosed.gain_of("communication").unwrap();
        assert!((0.31..0.33).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn other_kernels_are_none() {
        assert_eq!(
            sketch_exchange("elementwise_kernel")
                .diagnose()
                .gain_of("communication"),
            None
        );
    }
}
