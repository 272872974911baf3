//! Weights of experts that are gathered for each token before they are multiplied: written and read once more than needed.

use crate::thresholds::WEIGHT_DIM_MIN;
use llmprof_units::Nanos;
use rustc_hash::FxHashSet;

use super::cause::CauseKind;
use super::scene::shape_text;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

const GATHERS: [&str; 2] = ["aten::index", "aten::index_select"];

pub(super) fn find_gathered_weights(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let is_weight = |size: i64| size >= WEIGHT_DIM_MIN;
    let multiplied: FxHashSet<(i64, i64)> = scene
        .gemms
        .iter()
        .filter(|gemm| gemm.groups > 1 && is_weight(gemm.n) && is_weight(gemm.k))
        .flat_map(|gemm| [(gemm.n, gemm.k), (gemm.k, gemm.n)])
        .collect();
    let mut edit = Edit::default();
    let mut gathers: Vec<(usize, &[i64])> = Vec::new();
    let mut time = 0;
    for &top in &scene.tops {
        let tensors = scene.tensors(top);
        if let Some(&(dims @ &[_, rows, columns], _)) = tensors.first()
            && GATHERS.contains(&scene.name(top))
            && multiplied.contains(&(rows, columns))
        {
            scene.remove(&mut edit, top);
            time += scene.device_ns(top);
            gathers.push((top, dims));
        }
    }
    let Some(&(first, dims)) = gathers.first() else {
        return Vec::new();
    };
    vec![CauseCandidate {
        kind: CauseKind::GatheredWeights {
            shape: shape_text(dims),
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(first),
        count: gathers.len() as u64,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::{Sketch, Tensors};

    const BF16: &str = "c10::BFloat16";

    /// Layers of `experts` whose tokens choose eight each, with an index of a tensor of these dimensions before each product.
    fn sketch_layers(experts: i64, hidden: i64, wide: i64, indexed: &[i64]) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..6 {
            let index: Tensors<'_> = &[(indexed, BF16), (&[8], "long int")];
            sketch.operator("aten::index", index, &[("index_elementwise_kernel", 40)]);
            let factors: Tensors<'_> = &[(&[8, 1, hidden], BF16), (&[8, hidden, wide], BF16)];
            sketch.operator("aten::bmm", factors, &[("gemvx::kernel", 25)]);
            sketch.matrix_product(1, hidden, experts, 5);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn weights_gathered_for_each_token_are_a_cause() {
        for (experts, hidden, wide) in [(64, 2048, 1024), (8, 4096, 14_336), (128, 768, 768)] {
            let indexed = [experts, wide, hidden];
            let diagnosed = sketch_layers(experts, hidden, wide, &indexed).diagnose();
            let (saved, now) = diagnosed.gain_of("gathered_weights").unwrap();
            assert!((0.2..0.3).contains(&saved), "{saved} of {now} ms");
        }
    }

    #[test]
    fn gathered_activations_are_none() {
        for indexed in [&[16, 12, 128][..], &[512, 2048], &[64, 2048, 128]] {
            let diagnosed = sketch_layers(64, 2048, 1024, indexed).diagnose();
            assert!(diagnosed.cause("gathered_weights").is_none());
        }
    }
}
