//! Experts that compute tokens which were not routed to them. What it takes to send tokens to their experts is not in the trace: a
//! loop over experts may take longer than computing all, so the gain is a range from nothing.

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

pub(super) fn find_all_experts(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let Some(tokens) = scene.forwards.iter().map(|f| f.tokens * f.sequences).max() else {
        return Vec::new();
    };
    let mut ideal = Edit::default();
    let (mut count, mut time, mut last) = (0, 0, None);
    for gemm in &scene.gemms {
        // A batched GEMM with one group per expert and every token in each.
        let Some(chosen) = chosen_experts(scene, gemm.groups) else {
            continue;
        };
        if gemm.m < tokens || chosen >= gemm.groups {
            continue;
        }
        for index in gemm.work.clone() {
            let duration = scene.graph.work()[index].duration;
            let routed = duration * chosen / gemm.groups;
            ideal.set_duration(index, routed);
        }
        count += 1;
        time += gemm.device_ns;
        last = Some((gemm.row, gemm.groups, chosen));
    }
    let Some((row, experts, chosen)) = last else {
        return Vec::new();
    };
    let share = chosen as f64 / experts as f64;
    shorten_between(scene, &mut ideal, experts, tokens, share);
    vec![CauseCandidate {
        kind: CauseKind::AllExperts {
            experts: experts as u64,
            chosen: chosen as u64,
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(row),
        count,
        edit: Edit::default(),
        partial: Some(vec![ideal]),
    }]
}

/// Experts per token as the router chooses them: `topk` over as many columns as there are experts.
fn chosen_experts(scene: &Scene<'_>, experts: i64) -> Option<i64> {
    if experts < 4 {
        return None;
    }
    scene.tops.iter().find_map(|&top| {
        if scene.name(top) != "aten::topk" {
            return None;
        }
        let inputs = &scene.trace.inputs;
        let mut arguments = inputs.arguments(scene.trace.hosts.inputs[top]);
        let routed = arguments.next()?.tensors().next()?;
        let chosen = arguments.next()?.value();
        let is_router = routed.dims.last() == Some(&experts);
        is_router.then(|| scene.trace.text(chosen).parse().ok())?
    })
}

/// Elementwise work on the tokens of all experts shrinks with them.
fn shorten_between(scene: &Scene<'_>, edit: &mut Edit, experts: i64, tokens: i64, share: f64) {
    for &top in &scene.tops {
        let tensors = scene.tensors(top);
        let is_of_all =
            |dims: &[i64]| dims.len() >= 3 && dims.first() == Some(&experts) && dims[1] >= tokens;
        if !tensors.iter().any(|(dims, _)| is_of_all(dims)) {
            continue;
        }
        for index in scene.work_of(top) {
            let duration = scene.graph.work()[index].duration;
            edit.set_duration(index, (duration as f64 * share) as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_experts(tokens_of_each: i64) -> Sketch {
        let mut sketch = Sketch::default();
        sketch.look_up(4, 256, 32_000, 2048);
        for _ in 0..4 {
            sketch.values = Some("[\"\", \"4\"]");
            sketch.operator(
                "aten::topk",
                &[(&[1024, 32], "float"), (&[], "Scalar")],
                &[("topk", 5)],
            );
            sketch.values = None;
            let tokens: &[i64] = &[32, tokens_of_each, 2048];
            let weights: &[i64] = &[32, 2048, 768];
            let tensors = [(tokens, "c10::BFloat16"), (weights, "c10::BFloat16")];
            sketch.operator("aten::bmm", &tensors, &[("gemm", 300)]);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn all_tokens_for_all_experts_are_a_cause_of_unknown_gain() {
        let diagnosed = sketch_experts(1024).diagnose();
        let gain = &diagnosed.cause("all_experts").unwrap().gains[0];
        assert_eq!((gain.saved_ns.0, gain.low_ns.0), (0, 0));
        assert!(gain.most_share() > 0.6, "{gain:?}");
    }

    #[test]
    fn routed_tokens_are_none() {
        assert_eq!(sketch_experts(128).diagnose().gain_of("all_experts"), None);
    }
}
