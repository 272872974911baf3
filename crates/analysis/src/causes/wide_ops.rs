//! Elementwise operators and reductions in FP64.

use llmprof_units::{DType, Nanos};

use super::cause::CauseKind;
use super::{Candidate, Scene};
use crate::replay::Edit;

/// Scalars in FP64 cost nothing.
const TENSOR_MIN_ELEMENTS: i64 = 1024;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let mut edit = Edit::default();
    let (mut count, mut time, mut longest) = (0, 0, None);
    for &top in &scene.tops {
        let rows = scene.rows_in(top);
        let is_wide = |row: usize| {
            let tensors = scene.tensors(row);
            tensors.iter().any(|(dims, dtype)| {
                *dtype == "double" && dims.iter().product::<i64>() >= TENSOR_MIN_ELEMENTS
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
    vec![Candidate {
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
