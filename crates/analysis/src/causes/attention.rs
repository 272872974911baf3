//! Attention as separate GEMMs, softmax and copies.

use crate::thresholds::ATTENTION_OPERATORS_BETWEEN_MAX;
use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::estimate::{attention_ns, measured_efficiency};
use super::gemm_format::is_wide_model;
use super::scene::shape_text;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// One attention in parts: its outermost operators, and its shape.
struct Unfused {
    first: usize,
    /// The operator that computes the scores; views and copies of keys and values may come before it.
    scored: usize,
    last: usize,
    /// Shape of the scores: `[batch, heads, queries, keys]`.
    scores: Vec<i64>,
    is_fallback: bool,
}

pub(super) fn find_unfused_attention(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let Some(device) = scene.device else {
        return Vec::new();
    };
    let mut attentions = unfused_attentions(scene);
    // Fused attention takes 16-bit inputs: in a model that is wide by mistake the fallback goes with the format.
    if is_wide_model(scene) {
        attentions.retain(|one| !one.is_fallback);
    }
    let Some(first) = attentions.first() else {
        return Vec::new();
    };
    let seen = measured_efficiency(scene, device, |gemm| gemm.groups == 1 && gemm.m >= 256);
    let (mut edit, mut slower, mut faster) = (Edit::default(), Edit::default(), Edit::default());
    let mut total = 0;
    for one in &attentions {
        let head_dim = head_dim(scene, one);
        let [.., queries, keys] = one.scores[..] else {
            continue;
        };
        let heads = one.scores[..one.scores.len() - 2].iter().product();
        let Some(fused) = attention_ns(device, heads, queries, keys, head_dim, seen) else {
            continue;
        };
        total += replace_by_fused(scene, &mut edit, one, fused);
        replace_by_fused(scene, &mut slower, one, 2 * fused);
        replace_by_fused(scene, &mut faster, one, fused / 2);
    }
    vec![CauseCandidate {
        kind: CauseKind::UnfusedAttention {
            shape: shape_text(&first.scores),
            is_fallback: first.is_fallback,
            kernels_ns: Nanos(scene.a_step(total)),
        },
        place: scene.place(scene.tops[first.scored]),
        count: attentions.len() as u64,
        edit,
        partial: Some(vec![slower, faster]),
    }]
}

fn is_product(scene: &Scene<'_>, row: usize) -> bool {
    let products = ["aten::matmul", "aten::bmm", "aten::baddbmm", "aten::einsum"];
    products.contains(&scene.name(row))
}

fn softmax_scores(scene: &Scene<'_>, row: usize) -> Option<Vec<i64>> {
    if !["aten::softmax", "aten::_softmax"].contains(&scene.name(row)) {
        return None;
    }
    let scores = scene.tensors(row).first()?.0.to_vec();
    (scores.len() >= 3).then_some(scores)
}

fn unfused_attentions(scene: &Scene<'_>) -> Vec<Unfused> {
    let mut attentions = Vec::new();
    for (place, &top) in scene.tops.iter().enumerate() {
        if scene.name(top) == "aten::scaled_dot_product_attention" {
            let mut rows = scene.rows_in(top);
            let scores = rows.find_map(|row| softmax_scores(scene, row));
            if let Some(scores) = scores.filter(|_| !has_bias(scene, top)) {
                attentions.push(Unfused {
                    first: place,
                    scored: place,
                    last: place,
                    scores,
                    is_fallback: true,
                });
            }
            continue;
        }
        let Some(scores) = softmax_scores(scene, top) else {
            continue;
        };
        let before = place.saturating_sub(ATTENTION_OPERATORS_BETWEEN_MAX)..place;
        let after = place + 1
            ..scene
                .tops
                .len()
                .min(place + ATTENTION_OPERATORS_BETWEEN_MAX);
        let product = |at: &usize| is_product(scene, scene.tops[*at]);
        let (Some(scored), Some(last)) =
            (before.rev().find(product), after.into_iter().find(product))
        else {
            continue;
        };
        attentions.push(Unfused {
            first: with_repeated_heads(scene, scored),
            scored,
            last,
            scores,
            is_fallback: false,
        });
    }
    attentions
}

/// Whether attention adds a bias of each head to its scores: flash kernels take none, and others not every layout of it.
fn has_bias(scene: &Scene<'_>, top: usize) -> bool {
    let inputs = &scene.trace.inputs;
    let mut arguments = inputs.arguments(scene.trace.hosts.inputs[top]);
    let bias = arguments
        .nth(3)
        .and_then(|mask| Some(mask.tensors().next()?.dims));
    matches!(bias, Some(&[_, heads, _, _]) if heads > 1)
}

/// Keys and values that are repeated for each group of heads, right before the first product.
fn with_repeated_heads(scene: &Scene<'_>, first: usize) -> usize {
    let is_repeat = |top: usize| {
        let has_five = scene.tensors(top).iter().any(|(dims, _)| dims.len() == 5);
        let names = [
            "aten::reshape",
            "aten::expand",
            "aten::clone",
            "aten::slice",
        ];
        let names = [names.as_slice(), &["aten::unsqueeze", "aten::contiguous"]].concat();
        has_five || names.contains(&scene.name(top)) || scene.name(top) == "aten::transpose"
    };
    let before = scene.tops[..first]
        .iter()
        .rev()
        .take(ATTENTION_OPERATORS_BETWEEN_MAX);
    first - before.take_while(|&&top| is_repeat(top)).count()
}

fn head_dim(scene: &Scene<'_>, one: &Unfused) -> i64 {
    let rows = scene.tops[one.first..=one.last].iter();
    let mut rows = rows.flat_map(|&top| scene.rows_in(top));
    let keys = one.scores.last().copied().unwrap_or(0);
    let queries = one.scores.iter().rev().nth(1).copied().unwrap_or(0);
    // The first factor of the score GEMM is [heads, queries, head_dim].
    let dim = rows.find_map(|row| {
        let tensors = scene.tensors(row);
        let is_bmm = ["aten::bmm", "aten::baddbmm"].contains(&scene.name(row));
        let (left, right) = (tensors.first()?.0, tensors.get(1)?.0);
        match (left, right) {
            (&[_, m, k], &[_, _, n]) if is_bmm && m == queries && n == keys => Some(k),
            _ => None,
        }
    });
    dim.unwrap_or(128)
}

/// Removes all parts of an attention but one kernel, which then takes `fused` ns. Returns the device time of the parts.
fn replace_by_fused(scene: &Scene<'_>, edit: &mut Edit, one: &Unfused, fused: i64) -> i64 {
    let tops = &scene.tops[one.first..=one.last];
    let total = tops.iter().map(|&top| scene.device_ns(top)).sum();
    let last = scene.tops[one.last];
    for &top in &tops[..tops.len() - 1] {
        scene.remove(edit, top);
    }
    let work = scene.work_of(last);
    for index in work.clone() {
        if index + 1 == work.end {
            edit.set_duration(index, fused);
        } else {
            edit.drop_work(index);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    const SCORES: &[i64] = &[4, 16, 2048, 2048];
    const HALF: &str = "c10::BFloat16";

    fn sketch_attention(is_fused: bool) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.matrix_product(8192, 2048, 2048, 150);
            let heads: &[i64] = &[64, 2048, 128];
            let keys: &[i64] = &[64, 128, 2048];
            if is_fused {
                sketch.operator(
                    "aten::scaled_dot_product_attention",
                    &[(&[4, 16, 2048, 128], HALF)],
                    &[("flash_fwd_kernel", 200)],
                );
            } else {
                sketch.operator(
                    "aten::bmm",
                    &[(heads, HALF), (keys, HALF)],
                    &[("gemm", 400)],
                );
                sketch.operator("aten::softmax", &[(SCORES, HALF)], &[("softmax", 600)]);
                sketch.operator(
                    "aten::bmm",
                    &[(&[64, 2048, 2048], HALF), (heads, HALF)],
                    &[("gemm", 400)],
                );
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn scores_and_softmax_as_tensors_are_a_cause() {
        let (saved, now) = sketch_attention(false)
            .diagnose()
            .gain_of("unfused_attention")
            .unwrap();
        assert!(saved > 0.6 * now, "{saved} of {now} ms");
    }

    /// How long fused attention would take is estimated: a little better is as likely as a little worse.
    #[test]
    fn the_stated_gain_is_not_the_end_of_its_range() {
        let found = sketch_attention(false).diagnose();
        let gain = &found.cause("unfused_attention").unwrap().gains[0];
        assert!(
            gain.low_ns < gain.saved_ns && gain.saved_ns < gain.high_ns,
            "{gain:?}"
        );
    }

    fn sketch_fallback(mask: &[i64]) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.matrix_product(8192, 2048, 2048, 150);
            let heads: &[i64] = &[4, 16, 2048, 128];
            let tensors = [(heads, HALF), (heads, HALF), (heads, HALF), (mask, HALF)];
            sketch.attention_in_parts(&tensors, SCORES, 1_400);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn a_fallback_is_a_cause_unless_heads_have_a_bias() {
        let diagnosed = sketch_fallback(&[4, 1, 2048, 2048]).diagnose();
        assert!(diagnosed.gain_of("unfused_attention").is_some());
        let diagnosed = sketch_fallback(&[1, 16, 2048, 2048]).diagnose();
        assert_eq!(diagnosed.gain_of("unfused_attention"), None);
    }

    /// Keys and values are repeated for each group of heads before the scores.
    #[test]
    fn the_place_is_where_scores_are_computed() {
        let mut sketch = Sketch::default();
        let (heads, keys): (&[i64], &[i64]) = (&[64, 2048, 128], &[64, 128, 2048]);
        let grouped: &[i64] = &[4, 4, 1, 2048, 128];
        sketch.matrix_product(8192, 2048, 2048, 150);
        sketch.operator("aten::unsqueeze", &[(grouped, HALF)], &[]);
        sketch.operator("aten::expand", &[(grouped, HALF)], &[]);
        sketch.operator("aten::clone", &[(grouped, HALF)], &[("copy", 50)]);
        sketch.operator(
            "aten::bmm",
            &[(heads, HALF), (keys, HALF)],
            &[("gemm", 400)],
        );
        sketch.operator("aten::softmax", &[(SCORES, HALF)], &[("softmax", 600)]);
        let scores: &[i64] = &[64, 2048, 2048];
        sketch.operator(
            "aten::bmm",
            &[(scores, HALF), (heads, HALF)],
            &[("gemm", 400)],
        );
        sketch.synchronize();
        let found = sketch.diagnose();
        let place = &found.cause("unfused_attention").unwrap().place;
        assert_eq!(place.operator.as_deref(), Some("aten::bmm"));
    }

    #[test]
    fn fused_attention_is_none() {
        assert_eq!(
            sketch_attention(true)
                .diagnose()
                .gain_of("unfused_attention"),
            None
        );
    }
}
