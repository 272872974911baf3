//! GEMMs over many rows in every decode step, as in the prompt pass: an encoder that runs again, keys and values of
//! cross-attention that are not kept.

use crate::thresholds::{REPEATED_ROWS_MIN_RATIO, REPEATED_WORK_MIN_STEPS, WEIGHT_DIM_MIN};
use std::ops::Range;

use llmprof_record::run::RunPhase;
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use super::cause::CauseKind;
use super::model_work::Gemm;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

type Shape = (i64, i64, i64);

fn shape_of(gemm: &Gemm) -> Shape {
    (gemm.m, gemm.n, gemm.k)
}

pub(super) fn find_repeated_work(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    if scene.phase != RunPhase::Decode || scene.steps < 2 {
        return Vec::new();
    }
    let runs = repeated_runs(scene);
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let rows = first.iter().map(|gemm| gemm.m).max().unwrap_or(0);
    let place = scene.place(first[0].row);
    let mut edit = Edit::default();
    let (mut gemms, mut time) = (0, 0);
    for run in &runs {
        gemms += run.len() as u64;
        for &top in &scene.tops[tops_of(scene, run)] {
            time += scene.device_ns(top);
            scene.remove(&mut edit, top);
        }
    }
    vec![CauseCandidate {
        kind: CauseKind::RepeatedWork {
            rows: rows as u64,
            gemms: gemms / scene.steps,
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place,
        count: runs.len() as u64,
        edit,
        partial: None,
    }]
}

/// GEMMs with weights one after another, those over many rows apart from those over the new tokens.
fn weight_gemm_runs<'s>(scene: &'s Scene<'_>) -> Vec<(bool, Vec<&'s Gemm>)> {
    let is_weight =
        |gemm: &&Gemm| gemm.groups == 1 && gemm.n >= WEIGHT_DIM_MIN && gemm.k >= WEIGHT_DIM_MIN;
    let gemms = scene.gemms.iter().filter(is_weight);
    let new_rows = gemms.clone().map(|gemm| gemm.m).min().unwrap_or(1).max(1);
    let mut runs: Vec<(bool, Vec<&Gemm>)> = Vec::new();
    for gemm in gemms {
        let is_large = gemm.m >= REPEATED_ROWS_MIN_RATIO.saturating_mul(new_rows);
        match runs.last_mut() {
            Some((of_large, run)) if *of_large == is_large => run.push(gemm),
            _ => runs.push((is_large, vec![gemm])),
        }
    }
    runs
}

/// Runs over many rows that are the same in every step.
fn repeated_runs<'s>(scene: &'s Scene<'_>) -> Vec<Vec<&'s Gemm>> {
    let runs = weight_gemm_runs(scene);
    let weights =
        |run: &[&Gemm]| -> Vec<(i64, i64)> { run.iter().map(|gemm| (gemm.n, gemm.k)).collect() };
    let shapes = |run: &[&Gemm]| -> Vec<Shape> { run.iter().map(|gemm| shape_of(gemm)).collect() };
    let of_new_tokens: Vec<_> = runs
        .iter()
        .filter(|(is_large, _)| !is_large)
        .map(|(_, run)| weights(run))
        .collect();
    let mut counts: FxHashMap<Vec<Shape>, u64> = FxHashMap::default();
    for (_, run) in runs.iter().filter(|(is_large, _)| *is_large) {
        *counts.entry(shapes(run)).or_default() += 1;
    }
    let prompt = &scene.shapes.prompt_gemms;
    let is_repeated = |run: &[&Gemm]| {
        let is_in_prompt = run.iter().all(|gemm| prompt.contains(&shape_of(gemm)));
        let count = counts[&shapes(run)];
        // A step that begins with the lookup of its token ends with an encoder that belongs to the next: the last has none.
        let is_in_each = count.is_multiple_of(scene.steps)
            || (scene.steps >= REPEATED_WORK_MIN_STEPS && count + 1 == scene.steps);
        is_in_each
            && (is_in_prompt || (prompt.is_empty() && scene.steps >= REPEATED_WORK_MIN_STEPS))
            // The same weights as for the new tokens: prompts of other sequences.
            && !of_new_tokens.contains(&weights(run))
    };
    let large = runs.into_iter().filter(|(is_large, _)| *is_large);
    large
        .map(|(_, run)| run)
        .filter(|run| is_repeated(run))
        .collect()
}

/// Outermost operators of a run, with those before and after it that work on as many rows.
fn tops_of(scene: &Scene<'_>, run: &[&Gemm]) -> Range<usize> {
    let place = |row: usize| scene.tops.partition_point(|&top| top <= row).max(1) - 1;
    let rows = run[0].m;
    let is_of_rows = |top: usize| {
        scene.tensors(top).iter().any(|(dims, _)| {
            let elements: i64 = dims.iter().product();
            let width = dims.last().copied().unwrap_or(1).max(1);
            elements == rows || (dims.len() > 1 && elements / width == rows)
        })
    };
    let launches = |top: usize| !scene.work_of(top).is_empty();
    let (first, last) = (place(run[0].row), place(run[run.len() - 1].row));
    let (mut start, mut end) = (first, last + 1);
    for before in (0..first).rev() {
        if is_of_rows(scene.tops[before]) {
            start = before;
        } else if launches(scene.tops[before]) {
            break;
        }
    }
    for after in last + 1..scene.tops.len() {
        if is_of_rows(scene.tops[after]) {
            end = after + 1;
        } else if launches(scene.tops[after]) {
            break;
        }
    }
    start..end
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    /// Four steps of two layers over one token of eight sequences; before the last `encoded` as many products as `shapes` over 4096
    /// rows.
    fn sketch_steps(shapes: &[(i64, i64)], encoded: usize) -> Sketch {
        let mut sketch = Sketch::with_prompt(8, 512, 1024, 32_000);
        sketch.steps = 4;
        for step in 0..4 {
            for &(k, n) in shapes.iter().filter(|_| step + encoded >= 4) {
                sketch.matrix_product(4096, k, n, 100);
            }
            sketch.look_up(8, 1, 32_000, 1024);
            for _ in 0..2 {
                sketch.matrix_product(8, 1024, 3072, 10);
                sketch.matrix_product(8, 1024, 1024, 10);
            }
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn an_encoder_that_runs_in_every_step_is_a_cause() {
        // That of the first step may lie before its phase.
        for encoded in [4, 3] {
            let diagnosed = sketch_steps(&[(1024, 1024), (1024, 1024)], encoded).diagnose();
            let (saved, now) = diagnosed.gain_of("repeated_work").unwrap();
            assert!((0.5..0.85).contains(&(saved / now)), "{saved} of {now} ms");
        }
    }

    #[test]
    fn an_encoder_of_some_steps_is_none() {
        let diagnosed = sketch_steps(&[(1024, 1024), (1024, 1024)], 2).diagnose();
        assert_eq!(diagnosed.gain_of("repeated_work"), None);
    }

    #[test]
    fn prompts_of_other_sequences_and_no_encoder_are_none() {
        let prompts = [(1024, 3072), (1024, 1024), (1024, 3072), (1024, 1024)];
        for shapes in [prompts.as_slice(), &[]] {
            let diagnosed = sketch_steps(shapes, 4).diagnose();
            assert_eq!(diagnosed.gain_of("repeated_work"), None, "{shapes:?}");
        }
    }
}
