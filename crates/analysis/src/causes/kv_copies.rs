//! The KV cache copied in every step: concatenated with the new token, cloned, gathered, repeated for groups of heads.

use crate::thresholds::{CACHED_TOKENS_MIN, KERNEL_MIN_NS};
use llmprof_record::run::RunPhase;
use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::scene::shape_text;
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceRow, Edit};

/// Operators that copy whole tensors.
const COPIES: &[&str] = &[
    "aten::clone",
    "aten::contiguous",
    "aten::copy_",
    "aten::reshape",
    "aten::repeat_interleave",
    "aten::repeat",
    "aten::index_select",
    "aten::index",
    "aten::gather",
    "aten::roll",
];

#[derive(Default)]
struct KvCopyGroup {
    edit: Edit,
    count: u64,
    device_ns: i64,
    longest: Option<(i64, usize)>,
    operators: Vec<String>,
    shape: String,
}

impl KvCopyGroup {
    fn add_operator(&mut self, scene: &Scene<'_>, top: usize, dims: &[i64]) {
        let time = scene.device_ns(top);
        self.count += 1;
        self.device_ns += time;
        let name = scene.name(top).to_owned();
        if !self.operators.contains(&name) {
            self.operators.push(name);
        }
        if self.longest.is_none_or(|(most, _)| time > most) {
            self.longest = Some((time, top));
            self.shape = shape_text(dims);
        }
    }
}

pub(super) fn find_kv_copies(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    // In a prompt pass the activations have as many tokens as the cache.
    if scene.phase != RunPhase::Decode || scene.forwards.iter().any(|forward| forward.tokens > 4) {
        return Vec::new();
    }
    let (mut appended, mut copied) = (KvCopyGroup::default(), KvCopyGroup::default());
    for &top in &scene.tops {
        let name = scene.name(top);
        if scene.device_ns(top) == 0 {
            continue;
        }
        let tensors = scene.tensors(top);
        let Some((dims, _)) = tensors.first() else {
            continue;
        };
        if name == "aten::cat" && is_append(&tensors) {
            // A cache of fixed size is written in place by one small kernel.
            for index in scene.work_of(top) {
                appended.edit.set_duration(index, KERNEL_MIN_NS);
            }
            appended.add_operator(scene, top, dims);
        } else if (COPIES.contains(&name)
            || (name == "aten::to" && is_conversion(scene, top, dims)))
            && is_cache(dims)
            && is_copied_whole(&tensors)
        {
            scene.remove(&mut copied.edit, top);
            copied.add_operator(scene, top, dims);
        }
    }
    let groups = [appended, copied].into_iter();
    groups
        .filter_map(|group| make_candidate(scene, group))
        .collect()
}

fn make_candidate(scene: &Scene<'_>, group: KvCopyGroup) -> Option<CauseCandidate> {
    let (_, row) = group.longest?;
    Some(CauseCandidate {
        kind: CauseKind::KvCopies {
            operator: group.operators.join(", "),
            shape: group.shape,
            kernels_ns: Nanos(scene.a_step(group.device_ns)),
        },
        place: scene.place(row),
        count: group.count,
        edit: group.edit,
        partial: None,
    })
}

/// `[batch, heads, tokens, head_dim]` of which the second tensor is a few tokens, whichever dimension they are in.
fn is_append(tensors: &[(&[i64], &str)]) -> bool {
    let [(cache, _), (new, _)] = tensors else {
        return false;
    };
    if cache.len() != new.len() || cache.len() < 3 {
        return false;
    }
    let mut different = (0..cache.len()).filter(|&dim| cache[dim] != new[dim]);
    let Some(dim) = different.next() else {
        return false;
    };
    different.next().is_none() && cache[dim] >= CACHED_TOKENS_MIN && new[dim] * 4 <= cache[dim]
}

/// A tensor of at least four dimensions with two large inner ones: tokens and the width of a head, in any order of heads.
pub(super) fn is_cache(dims: &[i64]) -> bool {
    let large = dims.iter().filter(|&&dim| dim >= CACHED_TOKENS_MIN).count();
    dims.len() >= 4 && large >= 2
}

/// Whether kernels convert it, and it is no tensor of scores, `[batch, heads, 1, tokens]`: those are converted around a softmax.
fn is_conversion(scene: &Scene<'_>, top: usize, dims: &[i64]) -> bool {
    let mut work = scene.graph.work()[scene.work_of(top)].iter();
    work.all(|work| matches!(work.row, DeviceRow::Kernel(_)))
        && dims.get(1..).is_some_and(|inner| !inner.contains(&1))
}

/// Writing one token into the cache names the cache too, beside a smaller source.
fn is_copied_whole(tensors: &[(&[i64], &str)]) -> bool {
    let elements = |dims: &[i64]| dims.iter().product::<i64>();
    let Some((first, _)) = tensors.first() else {
        return false;
    };
    let others = tensors[1..]
        .iter()
        .filter(|(dims, dtype)| dims.len() >= 4 && *dtype != "long int");
    others
        .into_iter()
        .all(|(dims, _)| 2 * elements(dims) >= elements(first))
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    const HALF: &str = "c10::BFloat16";

    fn sketch_append(new_tokens: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            let cache: &[i64] = &[32, 8, 2048, 128];
            let new: &[i64] = &[32, 8, new_tokens, 128];
            sketch.operator(
                "aten::cat",
                &[(cache, HALF), (new, HALF)],
                &[("CatArrayBatchedCopy", 80)],
            );
            sketch.matrix_product(32, 4096, 4096, 20);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn a_cache_concatenated_with_a_token_is_a_cause() {
        let (saved, now) = sketch_append(1).diagnose().gain_of("kv_copies").unwrap();
        assert!((0.28..0.33).contains(&saved), "{saved} of {now} ms");
    }

    /// A cache of 32 sequences, or scores over it, converted in each layer.
    fn sketch_conversion(dims: &[i64]) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.operator("aten::to", &[(dims, "float")], &[("elementwise", 80)]);
            sketch.matrix_product(32, 4096, 4096, 20);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn a_cache_that_is_converted_is_a_cause_and_scores_are_none() {
        let diagnosed = sketch_conversion(&[32, 8, 2048, 128]).diagnose();
        assert!(diagnosed.gain_of("kv_copies").is_some());
        let diagnosed = sketch_conversion(&[32, 32, 1, 2048]).diagnose();
        assert_eq!(diagnosed.gain_of("kv_copies"), None);
    }

    #[test]
    fn tensors_of_one_size_are_none() {
        assert_eq!(sketch_append(2048).diagnose().gain_of("kv_copies"), None);
    }
}
