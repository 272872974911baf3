//! The KV cache copied in every step: concatenated with the new token, cloned, repeated for groups of heads.

use std::collections::BTreeMap;

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::estimate::KERNEL_MIN_NS;
use super::scene::shape_text;
use super::{Candidate, Scene};
use crate::replay::Edit;

/// Operators that copy whole tensors.
const COPIES: &[&str] = &[
    "aten::clone",
    "aten::contiguous",
    "aten::copy_",
    "aten::reshape",
    "aten::repeat_interleave",
    "aten::repeat",
    "aten::to",
    "aten::index_select",
    "aten::roll",
];

#[derive(Default)]
struct Group {
    edit: Edit,
    count: u64,
    device_ns: i64,
    row: usize,
    shape: String,
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let caches = cache_shapes(scene);
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for &top in &scene.tops {
        let time = scene.device_ns(top);
        let name = scene.name(top);
        let is_cat = name == "aten::cat";
        if time == 0 || !(is_cat || COPIES.contains(&name)) {
            continue;
        }
        let tensors = scene.tensors(top);
        let Some((dims, _)) = tensors.first() else {
            continue;
        };
        let is_cache = if is_cat {
            appended(&tensors).is_some()
        } else {
            caches.iter().any(|cache| is_like(cache, dims))
        };
        if !is_cache {
            continue;
        }
        let group = groups.entry(name).or_default();
        if is_cat {
            // A cache of fixed size is written in place by one small kernel.
            for index in scene.work_of(top) {
                group.edit.set_duration(index, KERNEL_MIN_NS);
            }
        } else {
            scene.remove(&mut group.edit, top);
        }
        group.count += 1;
        group.device_ns += time;
        group.row = top;
        group.shape = shape_text(dims);
    }
    let operators = groups.into_iter();
    operators
        .map(|(operator, group)| Candidate {
            kind: CauseKind::KvCopies {
                operator: operator.to_owned(),
                shape: group.shape,
                kernels_ns: Nanos(scene.a_step(group.device_ns)),
            },
            place: scene.place(group.row),
            count: group.count,
            edit: group.edit,
            partial: None,
        })
        .collect()
}

/// The place of the sequence in `[batch, heads, tokens, head_dim]` tensors of which the second is a few tokens.
fn appended(tensors: &[(&[i64], &str)]) -> Option<usize> {
    let [(cache, _), (new, _)] = tensors else {
        return None;
    };
    if cache.len() != 4 || new.len() != 4 {
        return None;
    }
    let mut different = (0..4).filter(|&dim| cache[dim] != new[dim]);
    let dim = different.next()?;
    let is_sequence = (1..=2).contains(&dim) && different.next().is_none();
    (is_sequence && cache[dim] >= 16 && new[dim] * 4 <= cache[dim]).then_some(dim)
}

/// Shapes of caches after tokens were appended.
fn cache_shapes(scene: &Scene<'_>) -> Vec<Vec<i64>> {
    let mut shapes: Vec<Vec<i64>> = Vec::new();
    for &top in &scene.tops {
        if scene.name(top) != "aten::cat" {
            continue;
        }
        let tensors = scene.tensors(top);
        if let Some(dim) = appended(&tensors) {
            let mut shape = tensors[0].0.to_vec();
            shape[dim] += tensors[1].0[dim];
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
    }
    shapes
}

/// The cache itself, before or after the new token, or with its heads repeated in a dimension of their own.
fn is_like(cache: &[i64], dims: &[i64]) -> bool {
    match dims.len() {
        4 => {
            let near = |(a, b): (&i64, &i64)| a == b || (*a - *b).abs() <= 1 && *a >= 16;
            cache.iter().zip(dims).all(near)
        }
        5 => {
            let [batch, heads, _, tokens, head_dim] = *dims else {
                return false;
            };
            cache == [batch, heads, tokens, head_dim]
        }
        _ => false,
    }
}
