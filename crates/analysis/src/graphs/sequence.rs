//! The operators of a model, in order, laid along the kernels of a graph, in order.
//!
//! Both lists are known to run in order, so the pairing is the one of all that keep the order which pairs most: attention and
//! GEMMs count more than what may be fused away, and of two kernels that could be an operator the longer is. One GEMM may be
//! several linear operators that read the same input, as engines merge query, key and value.

use llmprof_record::kernel_name::Category;
use llmprof_theory::{Kind, Shape};
use llmprof_theory::{Model, Workload};

/// The most linear operators that one GEMM does.
const MOST_MERGED: usize = 3;

/// The operators of one decode step, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelOperators(Vec<ModelOperator>);

#[derive(Clone, Debug)]
struct ModelOperator {
    kind: Kind,
    path: String,
    shape: Shape,
}

/// What a kernel of a graph was found to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) module: String,
    pub(super) operator: String,
    pub(super) shape: Option<String>,
}

impl ModelOperators {
    pub(crate) fn of(model: &Model, workload: &Workload) -> Self {
        let mut all = Vec::new();
        let step = model.decode_step(workload);
        model.lower_in_order(workload, &step, &mut |operator| {
            all.push(ModelOperator {
                kind: operator.kind,
                path: operator.path.to_string(),
                shape: operator.shape,
            });
        });
        Self(all)
    }
}

/// How much a pairing of a kernel with an operator is worth; nothing where the kernel cannot be it.
fn worth(kernel: Category, operator: Kind) -> Option<f64> {
    match (kernel, operator) {
        (Category::Attention, Kind::Attention) => Some(5.0),
        (Category::Gemm | Category::Gemv, Kind::Linear | Kind::Experts) => Some(3.0),
        (Category::Gemm | Category::Gemv | Category::Moe, Kind::Route)
        | (Category::Moe, Kind::Experts)
        | (Category::Norm, Kind::Norm)
        | (Category::Rope, Kind::Rope)
        | (Category::Embedding | Category::Index, Kind::Embedding) => Some(2.0),
        (Category::Elementwise, Kind::Activation | Kind::Add | Kind::Scale) => Some(1.0),
        _ => None,
    }
}

/// How many linear operators from `first` on read one input, at most [`MOST_MERGED`].
fn merged(operators: &[ModelOperator], first: usize) -> usize {
    let one = &operators[first];
    let parent = |path: &str| path.rsplit_once('.').map(|(parent, _)| parent.to_owned());
    let follows = operators[first..]
        .iter()
        .take(MOST_MERGED)
        .take_while(|other| {
            other.kind == Kind::Linear
                && (other.shape.m, other.shape.k) == (one.shape.m, one.shape.k)
                && parent(&other.path) == parent(&one.path)
        });
    follows.count().max(1)
}

/// For each kernel the operators that it does.
pub(super) fn aligned(kernels: &[(Category, i64)], model: &ModelOperators) -> Vec<Option<Found>> {
    let operators = &model.0;
    let (rows, columns) = (kernels.len(), operators.len());
    let longest = kernels
        .iter()
        .map(|(_, time)| *time)
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    let runs: Vec<usize> = (0..columns).map(|first| merged(operators, first)).collect();
    // best[i][j]: the most that kernels from i on and operators from j on can be worth.
    let width = columns + 1;
    let mut best = vec![0.0_f64; (rows + 1) * width];
    let mut taken = vec![0_u8; (rows + 1) * width];
    for i in (0..rows).rev() {
        let (kernel, time) = kernels[i];
        let longer = 0.01 * time as f64 / longest;
        for j in (0..columns).rev() {
            let at = i * width + j;
            let (without_kernel, without_operator) = (best[at + width], best[at + 1]);
            // 254: leave out the kernel, 255: leave out the operator, else how many operators it does.
            (best[at], taken[at]) = if without_kernel >= without_operator {
                (without_kernel, 254)
            } else {
                (without_operator, 255)
            };
            let Some(worth) = worth(kernel, operators[j].kind) else {
                continue;
            };
            for count in 1..=runs[j] {
                // Each operator counts; one kernel each is a little better than one for all.
                let merged = worth * count as f64 - 0.1 * (count - 1) as f64;
                let value = merged + longer + best[at + width + count];
                if value > best[at] {
                    (best[at], taken[at]) = (value, count as u8);
                }
            }
        }
    }
    let mut found = vec![None; rows];
    let (mut i, mut j) = (0, 0);
    while i < rows && j < columns {
        match taken[i * width + j] {
            254 => i += 1,
            255 => j += 1,
            count => {
                found[i] = Some(found_of(&operators[j..j + usize::from(count)]));
                i += 1;
                j += usize::from(count);
            }
        }
    }
    found
}

fn found_of(operators: &[ModelOperator]) -> Found {
    let first = &operators[0];
    let names: Vec<&str> = operators[1..]
        .iter()
        .map(|operator| operator.path.rsplit('.').next().unwrap_or(&operator.path))
        .collect();
    let module = std::iter::once(first.path.as_str())
        .chain(names)
        .collect::<Vec<_>>()
        .join(" + ");
    let n: u64 = operators.iter().map(|operator| operator.shape.n).sum();
    let Shape { m, k, .. } = first.shape;
    Found {
        module,
        operator: first.kind.name().to_owned(),
        shape: (k > 0 && first.kind == Kind::Linear).then(|| format!("m={m} n={n} k={k}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operators(layers: u32) -> ModelOperators {
        let mut all = Vec::new();
        let mut push = |kind, path: String, n, k| {
            all.push(ModelOperator {
                kind,
                path,
                shape: Shape::matmul(4, n, k),
            });
        };
        for layer in 0..layers {
            let at = |name: &str| format!("model.layers.{layer}.{name}");
            push(Kind::Norm, at("input_layernorm"), 64, 0);
            push(Kind::Linear, at("self_attn.q_proj"), 64, 64);
            push(Kind::Linear, at("self_attn.k_proj"), 16, 64);
            push(Kind::Linear, at("self_attn.v_proj"), 16, 64);
            push(Kind::Rope, at("self_attn.rotary"), 64, 0);
            push(Kind::Attention, at("self_attn"), 64, 16);
            push(Kind::Linear, at("self_attn.o_proj"), 64, 64);
            push(Kind::Norm, at("post_attention_layernorm"), 64, 0);
            push(Kind::Linear, at("mlp.gate_proj"), 128, 64);
            push(Kind::Linear, at("mlp.up_proj"), 128, 64);
            push(Kind::Activation, at("mlp.act_fn"), 128, 0);
            push(Kind::Linear, at("mlp.down_proj"), 64, 128);
        }
        ModelOperators(all)
    }

    #[test]
    fn merged_linears_and_kernels_that_are_no_operator() {
        use Category::{Attention, Cache, Elementwise, Gemm, Norm, Reduce, Rope};
        // An engine that merges query, key and value, and gate and up, writes the cache apart and reduces after a split.
        let layer = [
            (Norm, 3),
            (Gemm, 30),
            (Rope, 2),
            (Cache, 1),
            (Attention, 20),
            (Gemm, 25),
            (Reduce, 2),
            (Norm, 3),
            (Gemm, 50),
            (Elementwise, 4),
            (Gemm, 40),
        ];
        let kernels: Vec<(Category, i64)> = layer
            .iter()
            .cycle()
            .take(layer.len() * 3)
            .copied()
            .collect();
        let found = aligned(&kernels, &operators(3));
        for (number, found) in found.chunks(layer.len()).enumerate() {
            let at = |place: usize| found[place].as_ref().map(|found| found.module.as_str());
            let path = |name: &str| format!("model.layers.{number}.{name}");
            assert_eq!(
                at(1),
                Some(path("self_attn.q_proj + k_proj + v_proj").as_str())
            );
            assert_eq!(
                found[1].as_ref().and_then(|found| found.shape.as_deref()),
                Some("m=4 n=96 k=64")
            );
            assert_eq!(at(3), None);
            assert_eq!(at(4), Some(path("self_attn").as_str()));
            assert_eq!(at(5), Some(path("self_attn.o_proj").as_str()));
            assert_eq!(at(6), None);
            assert_eq!(at(8), Some(path("mlp.gate_proj + up_proj").as_str()));
            assert_eq!(at(10), Some(path("mlp.down_proj").as_str()));
        }
    }

    #[test]
    fn nothing_fits_nothing() {
        assert!(aligned(&[], &operators(1)).is_empty());
        assert_eq!(
            aligned(&[(Category::Gemm, 1)], &ModelOperators::default()),
            [None]
        );
        assert_eq!(aligned(&[(Category::Sort, 1)], &operators(1)), [None]);
    }
}
