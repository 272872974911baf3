//! Positions that a pass computes though an earlier one has: decoding without a KV cache, an encoder over all audio so far.

use crate::thresholds::{
    GROWN_MIN_PASSES, GROWN_MIN_RATIO, KERNEL_MIN_NS, PADDED_PROMPT_MIN_TOKENS,
};
use std::collections::BTreeMap;

use llmprof_record::run::RunPhase;

use super::cause::CauseKind;
use super::estimate::{gemm_ns, measured_efficiency};
use super::model_work::Forward;
use super::model_work::Gemm;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// What passes compute, and what of it no earlier pass has computed.
struct Computed {
    positions: i64,
    new: i64,
    passes: i64,
    /// Host row that begins the first pass.
    row: usize,
}

pub(super) fn find_recomputed_tokens(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let computed = decode_without_cache(scene).or_else(|| growing_inputs(scene));
    let (Some(device), Some(computed)) = (scene.device, computed) else {
        return Vec::new();
    };
    let Computed {
        positions: tokens,
        new: needed,
        passes,
        row,
    } = computed;
    let mut edit = Edit::default();
    let seen = measured_efficiency(scene, device, |gemm| gemm.groups == 1);
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
    vec![CauseCandidate {
        kind: CauseKind::Recomputed {
            tokens: (tokens / passes) as u64,
            new_tokens: (needed / passes) as u64,
        },
        place: scene.place(row),
        count: passes as u64,
        edit,
        partial: None,
    }]
}

/// Decode passes of which each is one token longer than the one before, or as long as a padded prompt: all but one token were there.
fn decode_without_cache(scene: &Scene<'_>) -> Option<Computed> {
    let forwards = &scene.forwards;
    let prompt = scene.shapes.tokens - scene.all_steps as i64;
    let repeats = |pair: &[Forward]| match pair[1].tokens - pair[0].tokens {
        0 => prompt >= PADDED_PROMPT_MIN_TOKENS && pair[0].tokens >= prompt,
        growth => growth == 1 && pair[0].tokens > 1,
    };
    let grows = forwards.windows(2).filter(|pair| repeats(pair)).count();
    let is_again = scene.phase != RunPhase::Prefill && grows > 0 && 2 * grows >= forwards.len() - 1;
    let tokens = forwards
        .iter()
        .map(|forward| forward.tokens * forward.sequences);
    is_again.then(|| Computed {
        positions: tokens.sum(),
        new: forwards.iter().map(|forward| forward.sequences).sum(),
        passes: forwards.len() as i64,
        row: forwards[0].row,
    })
}

/// Passes whose GEMMs have more rows each time, by the same number: the input of each begins with that of the one before. Batches of
/// other inputs differ by anything.
fn growing_inputs(scene: &Scene<'_>) -> Option<Computed> {
    if scene.phase == RunPhase::Prefill {
        return None;
    }
    let mut times: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for gemm in scene.gemms.iter().filter(|gemm| gemm.groups == 1) {
        *times.entry((gemm.n, gemm.k)).or_default() += gemm.device_ns;
    }
    let (weight, _) = times.into_iter().max_by_key(|(_, time)| *time)?;
    let gemms = scene.gemms.iter();
    let mut gemms: Vec<&Gemm> = gemms
        .filter(|gemm| gemm.groups == 1 && (gemm.n, gemm.k) == weight)
        .collect();
    gemms.dedup_by_key(|gemm| gemm.m);
    let growth = gemms.get(1)?.m.saturating_sub(gemms[0].m);
    let is_constant = gemms
        .windows(2)
        .all(|pair| pair[1].m.saturating_sub(pair[0].m) == growth);
    let is_small = growth > 0 && gemms[0].m >= growth.saturating_mul(GROWN_MIN_RATIO);
    (gemms.len() >= GROWN_MIN_PASSES && is_constant && is_small).then(|| Computed {
        positions: gemms.iter().map(|gemm| gemm.m).sum(),
        new: growth * gemms.len() as i64,
        passes: gemms.len() as i64,
        row: gemms[0].row,
    })
}

#[cfg(test)]
mod tests {
    use llmprof_record::run::RunPhase;

    use crate::causes::ProgramPurpose;
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
        let diagnosed = sketch_padded(640).diagnose();
        assert!(diagnosed.gain_of("recomputed_tokens").is_some());
        let diagnosed = sketch_padded(8).diagnose();
        assert_eq!(diagnosed.gain_of("recomputed_tokens"), None);
    }

    #[test]
    fn passes_of_one_token_are_none() {
        assert_eq!(
            sketch_steps(false).diagnose().gain_of("recomputed_tokens"),
            None
        );
    }

    /// Passes of an encoder over these numbers of rows, without lookups.
    fn sketch_rows(rows: &[i64]) -> Sketch {
        let mut sketch = Sketch::of_phase(RunPhase::Other);
        sketch.purpose = ProgramPurpose::RunsModel;
        for &rows in rows {
            for _ in 0..4 {
                sketch.matrix_product(rows, 1024, 4096, 200);
                sketch.matrix_product(rows, 4096, 1024, 200);
            }
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn inputs_that_grow_by_the_same_rows_are_computed_again() {
        let diagnosed = sketch_rows(&[8000, 8800, 9600]).diagnose();
        let (saved, now) = diagnosed.gain_of("recomputed_tokens").unwrap();
        assert!((0.8..0.95).contains(&(saved / now)), "{saved} of {now} ms");
    }

    #[test]
    fn batches_of_other_sizes_are_none() {
        let others: [&[i64]; 4] = [
            &[8000, 8800, 9500],
            &[8000, 8800],
            &[1000, 1800, 2600],
            &[9600, 8800, 8000],
        ];
        for rows in others {
            let diagnosed = sketch_rows(rows).diagnose();
            assert_eq!(diagnosed.gain_of("recomputed_tokens"), None, "{rows:?}");
        }
    }
}
