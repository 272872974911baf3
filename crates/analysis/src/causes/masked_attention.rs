//! Attention that is given its causal mask as a tensor: fused kernels then compute the masked half too, and read the mask.

use crate::thresholds::MASKED_QUERIES_MIN;
use llmprof_record::run::RunPhase;
use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::estimate::{attention_ns, measured_efficiency};
use super::scene::shape_text;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

pub(super) fn find_masked_attention(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let Some(device) = scene.device.filter(|_| scene.phase == RunPhase::Prefill) else {
        return Vec::new();
    };
    let seen = measured_efficiency(scene, device, |gemm| gemm.groups == 1 && gemm.m >= 256);
    let (mut edit, mut slower, mut faster) = (Edit::default(), Edit::default(), Edit::default());
    let (mut count, mut time, mut first) = (0, 0, None);
    for &top in &scene.tops {
        for row in scene.rows_in(top) {
            let Some([sequences, heads, queries, width]) = shared_mask(scene, row) else {
                continue;
            };
            let work = scene.work_of(row);
            let longest = work.max_by_key(|&index| scene.graph.work()[index].duration);
            let fused = attention_ns(device, sequences * heads, queries, queries, width, seen);
            let (Some(index), Some(fused)) = (longest, fused) else {
                continue;
            };
            edit.set_duration(index, fused);
            slower.set_duration(index, fused + fused / 2);
            faster.set_duration(index, fused / 2);
            count += 1;
            time += scene.graph.work()[index].duration;
            first.get_or_insert((row, [queries, queries]));
        }
    }
    let Some((row, mask)) = first else {
        return Vec::new();
    };
    vec![CauseCandidate {
        kind: CauseKind::MaskedAttention {
            shape: shape_text(&mask),
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(row),
        count,
        edit,
        partial: Some(vec![slower, faster]),
    }]
}

/// Sequences, heads, queries and head width of fused attention over its own tokens with a mask that all sequences and heads share.
/// Such a mask hides no padding and holds no bias of a head; in a program that generates text it is the causal one.
fn shared_mask(scene: &Scene<'_>, row: usize) -> Option<[i64; 4]> {
    if scene.name(row) != "aten::scaled_dot_product_attention" {
        return None;
    }
    let inputs = &scene.trace.inputs;
    let mut arguments = inputs.arguments(scene.trace.hosts.inputs[row]);
    let query = arguments.next()?.tensors().next()?.dims;
    let keys = arguments.next()?.tensors().next()?.dims;
    let mask = arguments.nth(1)?.tensors().next()?.dims;
    let &[sequences, heads, queries, width] = query else {
        return None;
    };
    let is_own = keys.get(2) == Some(&queries) && queries >= MASKED_QUERIES_MIN;
    let (outer, inner) = mask.split_at(mask.len().checked_sub(2)?);
    let is_shared = inner == [queries, queries] && outer.iter().all(|&dim| dim == 1);
    let is_fused = !scene
        .rows_in(row)
        .any(|row| scene.name(row).ends_with("softmax"));
    (is_own && is_shared && is_fused).then_some([sequences, heads, queries, width])
}

#[cfg(test)]
mod tests {
    use llmprof_record::run::RunPhase;

    use crate::causes::sketch::Sketch;

    const HALF: &str = "c10::BFloat16";

    fn sketch_attention(mask: Option<&[i64]>) -> Sketch {
        let mut sketch = Sketch::of_phase(RunPhase::Prefill);
        for _ in 0..4 {
            sketch.matrix_product(16_384, 2048, 2048, 200);
            let heads: &[i64] = &[2, 16, 8192, 128];
            let mut tensors = vec![(heads, HALF); 3];
            tensors.extend(mask.map(|mask| (mask, HALF)));
            let kernel = [("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", 3_300)];
            sketch.operator("aten::scaled_dot_product_attention", &tensors, &kernel);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn a_causal_mask_as_a_tensor_is_a_cause() {
        let diagnosed = sketch_attention(Some(&[1, 1, 8192, 8192])).diagnose();
        let (saved, now) = diagnosed.gain_of("masked_attention").unwrap();
        assert!(saved > 0.5 * now, "{saved} of {now} ms");
    }

    #[test]
    fn no_mask_padding_and_a_bias_of_heads_are_none() {
        let masks: [Option<&[i64]>; 3] =
            [None, Some(&[2, 1, 8192, 8192]), Some(&[1, 16, 8192, 8192])];
        for mask in masks {
            let diagnosed = sketch_attention(mask).diagnose();
            assert_eq!(diagnosed.gain_of("masked_attention"), None, "{mask:?}");
        }
    }
}
