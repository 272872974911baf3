//! Forward passes one after another that one pass could replace: sequences one by one, the same pass twice, or guesses of a draft model
//! verified one by one.

use llmprof_record::run::RunPhase;

use super::cause::CauseKind;
use super::model_work::Forward;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// Passes that one pass could replace.
struct Repeated {
    /// Passes over the same positions.
    passes: usize,
    /// Each such group: numbers of its forward passes.
    groups: Vec<std::ops::Range<usize>>,
}

pub(super) fn find_repeated_passes(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let Some(repeated) = read_repeated(scene) else {
        return Vec::new();
    };
    // A decode step reads the weights once for all sequences: one pass takes about as long as any. Where a prompt fills the device
    // its work stays.
    let drops_work = scene.phase == RunPhase::Decode;
    let (mut edit, mut kept) = (Edit::default(), Edit::default());
    for group in &repeated.groups {
        for number in group.start + 1..group.end {
            for &top in pass_operators(scene, number) {
                let segments = scene.graph.segments_of_row(top);
                let next = segments.end;
                if drops_work {
                    scene.remove(&mut edit, top);
                } else {
                    scene.remove_host(&mut edit, top);
                }
                scene.remove_host(&mut kept, top);
                if next < scene.graph.segment_count() && scene.is_code(next) {
                    edit.limit_segment(next, 0);
                    kept.limit_segment(next, 0);
                }
            }
        }
    }
    let first = scene.forwards[repeated.groups[0].start];
    vec![CauseCandidate {
        kind: CauseKind::RepeatedPasses {
            passes: repeated.passes as u64,
            sequences: first.sequences as u64,
            tokens: first.tokens as u64,
        },
        place: scene.place(first.row),
        count: repeated.groups.len() as u64,
        edit,
        partial: drops_work.then(|| vec![kept]),
    }]
}

/// Outermost operators of a pass: up to the next one's lookup.
fn pass_operators<'s>(scene: &'s Scene<'_>, number: usize) -> &'s [usize] {
    let begin = scene.forwards[number].row;
    let end = scene
        .forwards
        .get(number + 1)
        .map_or(usize::MAX, |next| next.row);
    let from = scene.tops.partition_point(|&top| top < begin);
    let to = scene.tops.partition_point(|&top| top < end);
    // The last pass of a phase ends with its last GEMM: what follows is sampling.
    let to = if end == usize::MAX {
        let last = scene.gemms.last().map_or(to, |gemm| {
            scene.tops.partition_point(|&top| top <= gemm.row)
        });
        last.clamp(from, to)
    } else {
        to
    };
    &scene.tops[from..to]
}

/// Whether the passes of a prompt are of separate sequences rather than chunks of one prompt.
pub(super) fn are_separate_prompts(scene: &Scene<'_>) -> bool {
    scene.phase == RunPhase::Prefill && read_repeated(scene).is_some()
}

/// Runs of passes of one token by the larger of two models, each after about as many of the smaller one: its guesses are known, so
/// that one pass could verify them.
fn verified_one_by_one(scene: &Scene<'_>) -> Option<Repeated> {
    let forwards = &scene.forwards;
    let target = forwards.iter().map(|forward| forward.hidden).max()?;
    let is_decode = scene.phase == RunPhase::Decode;
    if !is_decode || forwards.iter().any(|forward| forward.tokens != 1) {
        return None;
    }
    let runs: Vec<&[Forward]> = forwards.chunk_by(|a, b| a.hidden == b.hidden).collect();
    let mut start = 0;
    let mut groups = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        if run[0].hidden == target {
            let guesses = place.checked_sub(1).map_or(0, |before| runs[before].len());
            if run.len() < 2 || guesses < 2 || guesses.abs_diff(run.len()) > 1 {
                return None;
            }
            groups.push(start..start + run.len());
        }
        start += run.len();
    }
    let passes = groups.iter().map(std::ops::Range::len).min()?;
    (groups.len() > 1).then_some(Repeated { passes, groups })
}

fn read_repeated(scene: &Scene<'_>) -> Option<Repeated> {
    verified_one_by_one(scene).or_else(|| repeated_positions(scene))
}

fn repeated_positions(scene: &Scene<'_>) -> Option<Repeated> {
    let keys: Vec<(Forward, i64)> = (0..scene.forwards.len())
        .map(|number| Some((scene.forwards[number], attended_positions(scene, number)?)))
        .collect::<Option<_>>()?;
    // Passes of two windows may be of requests that came one after another.
    let window = |forward: &Forward| {
        let start = scene.trace.hosts.start[forward.row];
        scene
            .windows
            .partition_point(|window| window.start <= start)
    };
    let is_alike = |a: &(Forward, i64), b: &(Forward, i64)| {
        let shape = |one: &Forward| (one.sequences, one.tokens, one.hidden);
        shape(&a.0) == shape(&b.0) && a.1 == b.1 && window(&a.0) == window(&b.0)
    };
    let mut groups = Vec::new();
    let mut start = 0;
    for number in 1..=keys.len() {
        if number == keys.len() || !is_alike(&keys[number], &keys[start]) {
            groups.push(start..number);
            start = number;
        }
    }
    let is_prompt = scene.phase != RunPhase::Decode;
    // A prompt in chunks attends to more with each; in a cache of fixed size all steps of decode look alike.
    let is_new = |key: &(Forward, i64)| key.0.tokens == key.1;
    let passes = groups.iter().map(std::ops::Range::len).min()?;
    let has_proof = if is_prompt {
        // Batches that follow each other are what a program scores; sequences one by one could be a batch.
        keys.iter().all(|key| is_new(key) && key.0.sequences == 1)
    } else {
        groups.len() > 1 && groups.iter().all(|group| group.len() == passes)
    };
    (passes > 1 && has_proof).then_some(Repeated { passes, groups })
}

/// Positions that the first attention of a pass attends to.
fn attended_positions(scene: &Scene<'_>, number: usize) -> Option<i64> {
    pass_operators(scene, number)
        .iter()
        .flat_map(|&top| scene.rows_in(top))
        .find_map(|row| {
            let is_attention = scene.name(row) == "aten::scaled_dot_product_attention";
            let tensors = scene.tensors(row);
            let &(keys, _) = tensors.get(1).filter(|_| is_attention)?;
            keys.len().checked_sub(2).map(|at| keys[at])
        })
}

#[cfg(test)]
mod tests {
    use llmprof_record::run::RunPhase;

    use crate::causes::sketch::Sketch;

    fn pass(sketch: &mut Sketch, tokens: i64, keys: i64) {
        sketch.look_up(1, tokens, 32_000, 2048);
        for _ in 0..4 {
            sketch.matrix_product(tokens, 2048, 2048, 10);
            let query: &[i64] = &[1, 16, tokens, 128];
            let key: &[i64] = &[1, 16, keys, 128];
            let tensors = [
                (query, "c10::BFloat16"),
                (key, "c10::BFloat16"),
                (key, "c10::BFloat16"),
            ];
            sketch.operator(
                "aten::scaled_dot_product_attention",
                &tensors,
                &[("flash_fwd_kernel", 10)],
            );
            sketch.matrix_product(tokens, 2048, 2048, 10);
        }
        sketch.synchronize();
    }

    #[test]
    fn two_passes_at_each_position_are_a_cause() {
        let mut sketch = Sketch::default();
        for keys in 100..106 {
            pass(&mut sketch, 1, keys);
            pass(&mut sketch, 1, keys);
        }
        let (saved, now) = sketch.diagnose().gain_of("repeated_passes").unwrap();
        assert!((0.4..0.55).contains(&(saved / now)), "{saved} of {now} ms");
    }

    /// Rounds of three guesses of a model of this width, and of so many passes of one of 2048.
    fn sketch_rounds(draft: i64, verified: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for round in 0..3 {
            for guess in 0..3 {
                sketch.look_up(1, 1, 32_000, draft);
                sketch.matrix_product(1, draft, draft, 5);
                sketch.matrix_product(1, draft, 32_000, 5 + guess);
            }
            for keys in 0..verified {
                pass(&mut sketch, 1, 100 + 3 * round + keys);
            }
        }
        sketch
    }

    #[test]
    fn guesses_verified_one_by_one_are_a_cause() {
        let diagnosed = sketch_rounds(512, 3).diagnose();
        let (saved, now) = diagnosed.gain_of("repeated_passes").unwrap();
        assert!((0.4..0.65).contains(&(saved / now)), "{saved} of {now} ms");
        for other in [sketch_rounds(512, 1), sketch_rounds(2048, 3)] {
            assert_eq!(other.diagnose().gain_of("repeated_passes"), None);
        }
    }

    #[test]
    fn one_pass_at_each_position_is_none() {
        let mut sketch = Sketch::default();
        for keys in 100..112 {
            pass(&mut sketch, 1, keys);
        }
        assert_eq!(sketch.diagnose().gain_of("repeated_passes"), None);
    }

    #[test]
    fn prompts_one_by_one_are_no_chunks() {
        let mut sketch = Sketch::of_phase(RunPhase::Prefill);
        for _ in 0..6 {
            pass(&mut sketch, 256, 256);
        }
        let diagnosed = sketch.diagnose();
        assert!(diagnosed.gain_of("repeated_passes").is_some());
        assert_eq!(diagnosed.gain_of("small_chunks"), None);
    }

    #[test]
    fn a_prompt_in_chunks_is_not_one_by_one() {
        let mut sketch = Sketch::of_phase(RunPhase::Prefill);
        for chunk in 1..=6 {
            pass(&mut sketch, 128, 128 * chunk);
        }
        let diagnosed = sketch.diagnose();
        assert_eq!(diagnosed.gain_of("repeated_passes"), None);
        assert!(diagnosed.gain_of("small_chunks").is_some());
    }
}
