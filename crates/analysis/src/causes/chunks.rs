//! A prompt that is computed in many passes.

use crate::thresholds::CHUNK_MAX_TOKENS;
use llmprof_record::run::RunPhase;
use rustc_hash::FxHashSet;

use super::cause::CauseKind;
use super::estimate::{gemm_ns, measured_efficiency};
use super::model_work::Gemm;
use super::repeated_passes::are_separate_prompts;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// Whether all passes multiply by the same weights, but for logits, which the last chunk alone may have: a draft model reads the prompt
/// too.
fn are_of_one_model(scene: &Scene<'_>) -> bool {
    let ends = scene.forwards.iter().skip(1).map(|next| next.row);
    let ends = ends.chain([usize::MAX]);
    let passes = scene.forwards.iter().zip(ends).map(|(forward, end)| {
        let own = |gemm: &&Gemm| (forward.row..end).contains(&gemm.row);
        let weights = scene.gemms.iter().filter(own);
        weights
            .map(|gemm| (gemm.n, gemm.k))
            .collect::<FxHashSet<_>>()
    });
    let passes: Vec<_> = passes.collect();
    let are_alike = |a: &FxHashSet<_>, b: &FxHashSet<_>| a.is_subset(b) || b.is_subset(a);
    passes.windows(2).all(|pair| are_alike(&pair[0], &pair[1]))
}

pub(super) fn find_small_chunks(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let passes = scene.forwards.len() as u64;
    let windows = scene.windows.len() as u64;
    let (Some(device), Some(first)) = (scene.device, scene.forwards.first()) else {
        return Vec::new();
    };
    let tokens = first.tokens * first.sequences;
    let are_alike = scene
        .forwards
        .iter()
        .all(|forward| forward.sequences == first.sequences && forward.tokens > 1);
    if scene.phase != RunPhase::Prefill
        || passes < 2 * windows
        || tokens > CHUNK_MAX_TOKENS
        || !are_alike
        || !are_of_one_model(scene)
        || are_separate_prompts(scene)
    {
        return Vec::new();
    }
    let merged = (passes / windows) as i64;
    let mut edit = Edit::default();
    // The host runs one pass; the device does the work of all.
    for (number, forward) in scene.forwards.iter().enumerate() {
        if (number as u64).is_multiple_of(passes / windows) {
            continue;
        }
        let from = scene.tops.partition_point(|&top| top < forward.row);
        let next = scene
            .forwards
            .get(number + 1)
            .map_or(usize::MAX, |next| next.row);
        let to = scene.tops.partition_point(|&top| top < next);
        for &top in &scene.tops[from..to] {
            let segments = scene.graph.segments_of_row(top);
            scene.remove_host(&mut edit, top);
            if segments.end < scene.graph.segment_count() && scene.is_code(segments.end) {
                edit.limit_segment(segments.end, 0);
            }
        }
    }
    let seen = measured_efficiency(scene, device, |gemm| gemm.groups == 1).max(0.5);
    for gemm in scene.gemms.iter().filter(|gemm| gemm.groups == 1) {
        let larger = Gemm {
            m: gemm.m * merged,
            ..gemm.clone()
        };
        if let Some(after) = gemm_ns(device, &larger, gemm.dtype, seen) {
            for index in gemm.work.clone() {
                edit.set_duration(index, after / merged);
            }
        }
    }
    vec![CauseCandidate {
        kind: CauseKind::SmallChunks {
            passes: passes / windows,
            tokens: first.tokens as u64,
        },
        place: scene.place(first.row),
        count: passes,
        edit,
        partial: None,
    }]
}
