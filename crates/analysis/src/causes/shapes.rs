//! What all phases of a trace together show of the model: kernels of a graph have no shapes of their own.

use crate::thresholds::WEIGHT_DIM_MIN;
use llmprof_record::run::RunPhase;

use super::gemm_format::wide_gemms;
use super::model_work::{FixedCache, ModelShapes};
use super::scene::Scene;

/// Operators that write new tokens into a KV cache of fixed size; their first tensor is the cache.
const CACHE_WRITES: &[&str] = &["aten::index_put_", "aten::index_copy_", "aten::scatter_"];

pub(super) fn read_shapes(scenes: &[Scene<'_>]) -> ModelShapes {
    let mut shapes = ModelShapes::default();
    let gemms = scenes.iter().flat_map(|scene| &scene.gemms);
    for gemm in gemms.filter(|gemm| gemm.groups == 1) {
        shapes.widest = shapes.widest.max(gemm.n);
        if gemm.n >= WEIGHT_DIM_MIN && gemm.k >= WEIGHT_DIM_MIN {
            shapes.weights.push((gemm.n, gemm.k));
        }
    }
    shapes.weights.sort_unstable();
    shapes.weights.dedup();
    let grouped = scenes.iter().flat_map(|scene| &scene.gemms);
    let grouped = grouped
        .filter(|gemm| gemm.groups > 1 && gemm.n >= WEIGHT_DIM_MIN && gemm.k >= WEIGHT_DIM_MIN);
    shapes.grouped_weights = grouped.map(|gemm| (gemm.groups, gemm.n, gemm.k)).collect();
    shapes.wide_gemms = wide_gemms(scenes);
    let prompts = scenes
        .iter()
        .filter(|scene| scene.phase == RunPhase::Prefill);
    let prompt_gemms = prompts.flat_map(|scene| &scene.gemms);
    shapes.prompt_gemms = prompt_gemms.map(|gemm| (gemm.m, gemm.n, gemm.k)).collect();
    for forward in scenes.iter().flat_map(|scene| &scene.forwards) {
        shapes.sequences = shapes.sequences.max(forward.sequences);
        shapes.hidden = shapes.hidden.max(forward.hidden);
    }
    shapes.tokens = context_tokens(scenes, shapes.sequences);
    shapes.cache = scenes
        .iter()
        .find_map(|scene| fixed_cache(scene, shapes.tokens));
    shapes
}

/// Tokens of a prompt and of the steps after it. GEMMs show tokens that no embedding lookup does (images).
fn context_tokens(scenes: &[Scene<'_>], sequences: i64) -> i64 {
    let prompts = scenes
        .iter()
        .filter(|scene| scene.phase == RunPhase::Prefill);
    let prompt = prompts
        .map(|scene| {
            let looked_up: i64 = scene.forwards.iter().map(|forward| forward.tokens).sum();
            let multiplied = scene.gemms.iter().filter(|gemm| gemm.groups == 1);
            let rows = multiplied.map(|gemm| gemm.m).max().unwrap_or(0);
            looked_up.max(rows / sequences.max(1))
        })
        .max()
        .unwrap_or(0);
    let steps: u64 = scenes
        .iter()
        .filter(|scene| scene.phase == RunPhase::Decode)
        .map(|scene| scene.all_steps)
        .sum();
    if prompt == 0 {
        0
    } else {
        prompt + steps as i64
    }
}

fn fixed_cache(scene: &Scene<'_>, tokens: i64) -> Option<FixedCache> {
    let rows = scene.tops.iter().flat_map(|&top| scene.rows_in(top));
    rows.filter(|&row| CACHE_WRITES.contains(&scene.name(row)))
        .find_map(|row| {
            // [sequences, positions, heads, width] or [sequences, heads, positions, width].
            let &(&[sequences, first, second, width], _) = scene.tensors(row).first()? else {
                return None;
            };
            let (positions, heads) = (first.max(second), first.min(second));
            (tokens > 0 && positions >= tokens).then_some(FixedCache {
                sequences,
                positions,
                width: heads * width,
            })
        })
}
