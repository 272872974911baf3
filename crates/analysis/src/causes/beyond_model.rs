//! Work beyond the model: operators on tensors that are larger than anything the model multiplies, whatever they are for.

use llmprof_units::Nanos;
use rustc_hash::{FxHashMap, FxHashSet};

use super::cause::CauseKind;
use super::gemms::Gemm;
use super::scene::shape_text;
use super::{Candidate, Scene};
use crate::replay::Edit;

/// Tensors this many times larger than the largest activation belong to no operator of the model.
const BEYOND_RATIO: i64 = 2;

/// Operators of the model whose inputs or results may be larger: tables, attention, convolutions.
const OF_MODEL: &[&str] = &[
    "embedding",
    "attention",
    "conv",
    "matmul",
    "linear",
    "mm",
    "einsum",
];

/// What is left beside `explained`, the edits of causes with rules of their own, whether they save much or little.
pub(super) fn find(scene: &Scene<'_>, explained: &Edit) -> Option<Candidate> {
    let device = scene.device?;
    let activation = |gemm: &Gemm| gemm.m * gemm.n.max(gemm.k);
    let products = scene.gemms.iter().filter(|gemm| gemm.groups == 1);
    let largest = products.map(activation).max()?;
    let explained: FxHashSet<usize> = explained.changed_work().collect();
    let mut edit = Edit::default();
    let mut groups: FxHashMap<(&str, Vec<i64>), (u64, i64, usize)> = FxHashMap::default();
    for &top in &scene.tops {
        let name = scene.name(top);
        let work = scene.work_of(top);
        let is_of_model = OF_MODEL.iter().any(|part| name.contains(part));
        if work.is_empty() || is_of_model || work.clone().any(|index| explained.contains(&index)) {
            continue;
        }
        let tensors = scene.tensors(top);
        let elements = |dims: &[i64]| dims.iter().product::<i64>();
        let Some(dims) = tensors
            .iter()
            .map(|(dims, _)| *dims)
            .max_by_key(|dims| elements(dims))
        else {
            continue;
        };
        // A write into a large tensor takes less than touching all of it once, in 16 bits.
        let time = scene.device_ns(top);
        let touched = 2.0 * elements(dims) as f64 / device.bandwidth().0 * 1e9;
        if elements(dims) <= BEYOND_RATIO * largest || (time as f64) < touched {
            continue;
        }
        scene.remove(&mut edit, top);
        let group = groups.entry((name, dims.to_vec())).or_insert((0, 0, top));
        group.0 += 1;
        group.1 += time;
    }
    let ((_, dims), (count, _, row)) = groups
        .iter()
        .max_by_key(|(key, (_, time, _))| (*time, std::cmp::Reverse(*key)))?;
    let time: i64 = groups.values().map(|(_, time, _)| time).sum();
    Some(Candidate {
        kind: CauseKind::BeyondModel {
            shape: shape_text(dims),
            largest_activation: largest as u64,
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(*row),
        count: *count,
        edit,
        partial: None,
    })
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_operator(dims: &[i64], us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.matrix_product(64, 2048, 8192, 20);
            sketch.operator("aten::one_hot", &[(dims, "long int")], &[("scatter", us)]);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn an_operator_on_a_tensor_that_no_gemm_needs_is_a_cause() {
        let found = sketch_operator(&[64, 512, 8192], 500).diagnose();
        let (saved, now) = found.gain_of("beyond_model").unwrap();
        assert!(saved > 0.8 * now, "{saved} of {now} ms");
        assert_eq!(
            found
                .cause("beyond_model")
                .unwrap()
                .place
                .operator
                .as_deref(),
            Some("aten::one_hot")
        );
    }

    #[test]
    fn activations_and_writes_into_large_tensors_are_none() {
        assert_eq!(
            sketch_operator(&[64, 8192], 20)
                .diagnose()
                .gain_of("beyond_model"),
            None
        );
        assert_eq!(
            sketch_operator(&[64, 512, 8192], 5)
                .diagnose()
                .gain_of("beyond_model"),
            None
        );
    }
}
