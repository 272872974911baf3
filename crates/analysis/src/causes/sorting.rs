//! Sorting or ranking of a whole vocabulary for each token.

use crate::thresholds::{SORT_OPERATORS_AFTER_MAX, SORT_OPERATORS_BEFORE_MAX};
use llmprof_units::Nanos;
use rustc_hash::FxHashSet;

use super::cause::CauseKind;
use super::scene::shape_text;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

const SORTS: &[&str] = &["aten::sort", "aten::argsort", "aten::msort", "aten::topk"];

pub(super) fn find_vocabulary_sorts(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    // Tokens that a graph computes are not looked up by an operator: the widest GEMM of the trace is that of the logits.
    let forward = scene.forwards.first();
    let vocabulary = forward.map_or(scene.shapes.widest, |forward| forward.vocabulary);
    let is_wide = |top: usize| {
        let tensors = scene.tensors(top);
        tensors
            .iter()
            .any(|(dims, _)| dims.last() == Some(&vocabulary))
    };
    let mut edit = Edit::default();
    let (mut count, mut total, mut last) = (0, 0, None);
    let mut removed = FxHashSet::default();
    let mut place = 0;
    while place < scene.tops.len() {
        let top = scene.tops[place];
        let is_sort = SORTS.contains(&scene.name(top));
        place += 1;
        if !is_sort || !is_wide(top) || scene.work_of(top).is_empty() {
            continue;
        }
        count += 1;
        last = Some(top);
        total += scene.device_ns(top);
        scene.remove(&mut edit, top);
        // Probabilities that are computed to be ranked.
        let before = scene.tops[..place - 1]
            .iter()
            .rev()
            .take(SORT_OPERATORS_BEFORE_MAX);
        for &before in before.take_while(|&&before| is_wide(before)) {
            let is_softmax = ["aten::log_softmax", "aten::softmax"].contains(&scene.name(before));
            if is_softmax && !removed.contains(&before) {
                removed.insert(before);
                total += scene.device_ns(before);
                scene.remove(&mut edit, before);
            }
        }
        let following = scene.tops[place..].iter().take(SORT_OPERATORS_AFTER_MAX);
        for &next in following {
            let samples = ["aten::multinomial", "aten::argmax", "aten::exponential_"];
            if samples.contains(&scene.name(next)) {
                break;
            }
            if is_wide(next) {
                removed.insert(next);
                total += scene.device_ns(next);
                scene.remove(&mut edit, next);
            }
            place += 1;
        }
    }
    let Some(last) = last else {
        return Vec::new();
    };
    let shape = scene
        .tensors(last)
        .first()
        .map(|(dims, _)| shape_text(dims));
    vec![CauseCandidate {
        kind: CauseKind::VocabularySort {
            shape: shape.unwrap_or_default(),
            kernels_ns: Nanos(scene.a_step(total)),
        },
        place: scene.place(last),
        count,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_sampling(width: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.look_up(64, 1, 100_000, 2048);
            sketch.matrix_product(64, 2048, 100_000, 100);
            sketch.operator(
                "aten::sort",
                &[(&[64, width], "float")],
                &[("radix_sort", 300)],
            );
            sketch.operator("aten::cumsum", &[(&[64, width], "float")], &[("scan", 30)]);
            sketch.operator(
                "aten::multinomial",
                &[(&[64, width], "float")],
                &[("sample", 10)],
            );
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn sorting_the_vocabulary_is_a_cause() {
        let (saved, now) = sketch_sampling(100_000)
            .diagnose()
            .gain_of("vocabulary_sort")
            .unwrap();
        assert!((1.2..1.4).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn sorting_the_top_values_is_none() {
        assert_eq!(
            sketch_sampling(50).diagnose().gain_of("vocabulary_sort"),
            None
        );
    }
}
