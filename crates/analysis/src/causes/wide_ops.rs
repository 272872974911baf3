//! Elementwise operators and reductions in FP64.

use crate::thresholds::WIDE_TENSOR_MIN_ELEMENTS;
use llmprof_units::{DType, Nanos};

use super::cause::CauseKind;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

pub(super) fn find_wide_operators(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut edit = Edit::default();
    let (mut count, mut time, mut longest) = (0, 0, None);
    for &top in &scene.tops {
        let rows = scene.rows_in(top);
        let is_wide = |row: usize| {
            let tensors = scene.tensors(row);
            tensors.iter().any(|(dims, dtype)| {
                *dtype == "double" && dims.iter().product::<i64>() >= WIDE_TENSOR_MIN_ELEMENTS
            })
        };
        let on_device = scene.device_ns(top);
        if on_device == 0 || !rows.into_iter().any(is_wide) {
            continue;
        }
        // Half the bytes, and arithmetic at twice the rate or more.
        for index in scene.work_of(top) {
            edit.set_duration(index, scene.graph.work()[index].duration / 2);
        }
        count += 1;
        time += on_device;
        if longest.is_none_or(|(most, _)| on_device > most) {
            longest = Some((on_device, top));
        }
    }
    let Some((_, row)) = longest else {
        return Vec::new();
    };
    vec![CauseCandidate {
        kind: CauseKind::WideOperators {
            dtype: DType::F64,
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(row),
        count,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_norms(dtype: &str) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.matrix_product(4096, 2048, 2048, 80);
            sketch.operator(
                "aten::pow",
                &[(&[4096, 2048], dtype)],
                &[("elementwise", 120)],
            );
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn operators_in_fp64_are_a_cause() {
        let (saved, now) = sketch_norms("double")
            .diagnose()
            .gain_of("wide_operators")
            .unwrap();
        assert!((0.23..0.25).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn operators_in_fp32_are_none() {
        assert_eq!(
            sketch_norms("float").diagnose().gain_of("wide_operators"),
            None
        );
    }
}
