//! Dropout in a program that generates text: the model is in training mode.

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// In evaluation mode `aten::dropout` launches nothing.
const DROPOUTS: &[&str] = &[
    "aten::dropout",
    "aten::native_dropout",
    "aten::feature_dropout",
    "aten::alpha_dropout",
];

pub(super) fn find_dropout(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let tops = scene.tops.iter().copied();
    let drops = tops.filter(|&top| DROPOUTS.contains(&scene.name(top)) && scene.device_ns(top) > 0);
    let mut edit = Edit::default();
    let (mut count, mut time, mut longest) = (0, 0, None);
    for top in drops {
        scene.remove(&mut edit, top);
        count += 1;
        let on_device = scene.device_ns(top);
        time += on_device;
        if longest.is_none_or(|(most, _)| on_device > most) {
            longest = Some((on_device, top));
        }
    }
    let Some((_, longest)) = longest else {
        return Vec::new();
    };
    vec![CauseCandidate {
        kind: CauseKind::Dropout {
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(longest),
        count,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn with_dropout(kernel_us: Option<i64>) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.matrix_product(4096, 1024, 1024, 100);
            let kernels: Vec<_> = kernel_us
                .into_iter()
                .map(|us| ("fused_dropout_kernel_vec", us))
                .collect();
            sketch.operator(
                "aten::dropout",
                &[(&[4096, 1024], "c10::BFloat16")],
                &kernels,
            );
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn dropout_that_runs_is_a_cause() {
        let (saved, now) = with_dropout(Some(30))
            .diagnose()
            .gain_of("dropout")
            .unwrap();
        assert!((0.10..0.14).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn dropout_that_launches_nothing_is_none() {
        assert_eq!(with_dropout(None).diagnose().gain_of("dropout"), None);
    }
}
