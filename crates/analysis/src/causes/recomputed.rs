//! Tokens that a pass computes though an earlier one has: decoding without a KV cache.

use llmprof_record::run::RunPhase;

use super::cause::CauseKind;
use super::estimate::{KERNEL_MIN_NS, efficiency, gemm_ns};
use super::model_work::Forward;
use super::model_work::Gemm;
use super::{Candidate, Scene};
use crate::replay::Edit;

/// Passes of fewer tokens that do not grow check guesses of a smaller model.
const PADDED_MIN_TOKENS: i64 = 32;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let forwards = &scene.forwards;
    let prompt = scene.shapes.tokens - scene.steps as i64;
    // Each pass is one token longer than the one before, or as long as a padded prompt: all but one token were there.
    let repeats = |pair: &[Forward]| match pair[1].tokens - pair[0].tokens {
        0 => prompt >= PADDED_MIN_TOKENS && pair[0].tokens >= prompt,
        growth => growth == 1 && pair[0].tokens > 1,
    };
    let grows = forwards.windows(2).filter(|pair| repeats(pair)).count();
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

    /// Passes of `tokens` after a prompt of 512.
    fn sketch_padded(tokens: i64) -> Sketch {
        let mut sketch = Sketch::with_prompt(4, 512, 2048, 32_000);
        sketch.steps = 6;
        for _ in 0..6 {
            sketch.look_up(4, tokens, 32_000, 2048);
            for _ in 0..8 {
                sketch.matrix_product(4 * tokens, 2048, 8192, 110);
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn passes_as_long_as_the_padded_prompt_are_a_cause_and_checked_guesses_are_none() {
        let found = sketch_padded(640).diagnose();
        assert!(found.gain_of("recomputed_tokens").is_some());
        let found = sketch_padded(8).diagnose();
        assert_eq!(found.gain_of("recomputed_tokens"), None);
    }

    #[test]
    fn passes_of_one_token_are_none() {
        assert_eq!(
            sketch_steps(false).diagnose().gain_of("recomputed_tokens"),
            None
        );
    }
}
