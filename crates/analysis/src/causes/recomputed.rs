//! Tokens that a pass computes though an earlier one has: decoding without a KV cache.

use llmprof_record::run::RunPhase;

use super::cause::CauseKind;
use super::estimate::{KERNEL_MIN_NS, efficiency, gemm_ns};
use super::gemms::Gemm;
use super::{Candidate, Scene};
use crate::replay::Edit;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let forwards = &scene.forwards;
    // Each pass is one token longer than the one before: all but the last token were there.
    let grows = forwards
        .windows(2)
        .filter(|pair| pair[0].tokens > 1 && pair[1].tokens == pair[0].tokens + 1)
        .count();
    let Some(device) = scene.device else {
        return Vec::new();
    };
    if scene.phase == RunPhase::Prefill || grows == 0 || 2 * grows < forwards.len() - 1 {
        return Vec::new();
    }
    let tokens: i64 = forwards
        .iter()
        .map(|forward| forward.tokens * forward.sequences)
        .sum();
    let needed: i64 = forwards.iter().map(|forward| forward.sequences).sum();
    let mut edit = Edit::default();
    let seen = efficiency(scene, device, |gemm| gemm.groups == 1);
    let mut in_gemms = vec![false; scene.graph.work_count()];
    for gemm in scene.gemms.iter().filter(|gemm| gemm.groups == 1) {
        let one = Gemm {
            m: gemm.m * needed / tokens.max(1),
            ..gemm.clone()
        };
        let after = gemm_ns(device, &one, gemm.dtype, seen);
        for index in gemm.work.clone() {
            in_gemms[index] = true;
            edit.set_duration(index, after.unwrap_or(KERNEL_MIN_NS));
        }
    }
    let share = needed as f64 / tokens.max(1) as f64;
    for (index, work) in scene.own_work() {
        if !in_gemms[index] {
            let after = (work.duration as f64 * share) as i64;
            edit.set_duration(index, after.max(KERNEL_MIN_NS));
        }
    }
    let passes = forwards.len() as i64;
    vec![Candidate {
        kind: CauseKind::Recomputed {
            tokens: (tokens / passes) as u64,
            new_tokens: (needed / passes) as u64,
        },
        place: scene.place(forwards[0].row),
        count: forwards.len() as u64,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_steps(grows: bool) -> Sketch {
        let mut sketch = Sketch::default();
        for step in 0..6 {
            let tokens = if grows { 512 + step } else { 1 };
            sketch.look_up(4, tokens, 32_000, 2048);
            for _ in 0..8 {
                sketch.matrix_product(4 * tokens, 2048, 8192, if grows { 110 } else { 12 });
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn passes_that_grow_by_a_token_are_a_cause() {
        let (saved, now) = sketch_steps(true)
            .diagnose()
            .gain_of("recomputed_tokens")
            .unwrap();
        assert!(saved > 0.6 * now, "{saved} of {now} ms");
    }

    #[test]
    fn passes_of_one_token_are_none() {
        assert_eq!(
            sketch_steps(false).diagnose().gain_of("recomputed_tokens"),
            None
        );
    }
}
