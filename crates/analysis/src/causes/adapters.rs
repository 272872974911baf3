//! Low-rank adapters that are computed beside the projections they belong to.

use crate::thresholds::{
    ADAPTER_NARROWER_MIN_RATIO, ADAPTER_OPERATORS_AFTER_MAX, ADAPTER_PAIRS_MIN,
};
use llmprof_units::Nanos;
use rustc_hash::FxHashSet;

use super::cause::CauseKind;
use super::model_work::Gemm;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// Operators around the two GEMMs that exist for the adapter: casts and dropout before, scale, sum and cast after.
const BEFORE: &[&str] = &["aten::to", "aten::dropout", "aten::contiguous"];
const AFTER: &[&str] = &["aten::mul", "aten::add", "aten::add_", "aten::to"];

pub(super) fn find_unmerged_adapters(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut tops: FxHashSet<usize> = FxHashSet::default();
    let (mut pairs, mut rank) = (0, 0);
    for three in scene.gemms.windows(3) {
        let [base, down, up] = three else { continue };
        if is_adapter(base, down, up)
            && let Some(own) = adapter_operators(scene, down, up)
        {
            pairs += 1;
            rank = down.n;
            tops.extend(own);
        }
    }
    // A projection may be followed by the adapter of the one before: such pairs have no base right before them.
    if pairs < ADAPTER_PAIRS_MIN {
        return Vec::new();
    }
    let mut edit = Edit::default();
    let mut time = 0;
    for &top in &scene.tops {
        if tops.contains(&top) {
            time += scene.device_ns(top);
            scene.remove(&mut edit, top);
        }
    }
    vec![CauseCandidate {
        kind: CauseKind::UnmergedAdapters {
            rank: rank as u64,
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: super::CausePlace::default(),
        count: pairs as u64,
        edit,
        partial: None,
    }]
}

/// Whether two GEMMs lead from the input of a projection to its output through few columns.
fn is_adapter(base: &Gemm, down: &Gemm, up: &Gemm) -> bool {
    let is_of_base = (base.m, base.k, base.n) == (down.m, down.k, up.n) && up.m == base.m;
    let widths = down.k.min(up.n);
    is_of_base && down.n == up.k && down.n.saturating_mul(ADAPTER_NARROWER_MIN_RATIO) <= widths
}

/// The outermost operators of an adapter; `None` unless a sum of two tensors of the output's size ends it.
fn adapter_operators(scene: &Scene<'_>, down: &Gemm, up: &Gemm) -> Option<Vec<usize>> {
    let place = |gemm: &Gemm| {
        let after = scene.tops.partition_point(|&top| top <= gemm.row);
        after.checked_sub(1)
    };
    let (first, last) = (place(down)?, place(up)?);
    let is_named = |top: &&usize, names: &[&str]| names.contains(&scene.name(**top));
    let before = scene.tops[..first].iter().rev();
    let before = before.take_while(|top| is_named(top, BEFORE));
    let after = scene.tops[last + 1..]
        .iter()
        .take(ADAPTER_OPERATORS_AFTER_MAX);
    let after: Vec<usize> = after
        .take_while(|top| is_named(top, AFTER))
        .copied()
        .collect();
    let is_sum = |&top: &usize| {
        let tensors = scene.tensors(top);
        let full = |dims: &[i64]| dims.iter().product::<i64>() == up.m.saturating_mul(up.n);
        let are_full = tensors.iter().filter(|(dims, _)| full(dims)).count() == 2;
        scene.name(top).starts_with("aten::add") && are_full
    };
    let sum = after.iter().position(is_sum)?;
    // A cast of the sum belongs to it.
    let is_cast = after
        .get(sum + 1)
        .is_some_and(|&top| scene.name(top) == "aten::to");
    let end = sum + 1 + usize::from(is_cast);
    let own = before
        .copied()
        .chain(scene.tops[first..=last].iter().copied());
    Some(own.chain(after[..end].iter().copied()).collect())
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn with_adapters(sum: &[i64]) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..6 {
            sketch.matrix_product(512, 2048, 2048, 20);
            sketch.matrix_product(512, 2048, 16, 8);
            sketch.matrix_product(512, 16, 2048, 8);
            let tensors: [(&[i64], &str); 2] =
                [(&[512, 2048], "c10::BFloat16"), (sum, "c10::BFloat16")];
            sketch.operator("aten::add", &tensors, &[("add", 4)]);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn adapters_beside_projections_are_a_cause() {
        let (saved, now) = with_adapters(&[512, 2048])
            .diagnose()
            .gain_of("unmerged_adapters")
            .unwrap();
        assert!((0.1..0.2).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn low_rank_layers_of_a_model_are_none() {
        let diagnosed = with_adapters(&[2048]).diagnose();
        assert_eq!(diagnosed.gain_of("unmerged_adapters"), None);
    }
}
