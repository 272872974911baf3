//! The operators of a model, in order, laid along the kernels of one step, in order.
//!
//! Both lists are known to run in order, so the pairing is the one of all that keep the order which pairs most: attention and
//! GEMMs count more than what may be fused away, and of two kernels that could be an operator the longer is. One GEMM may be
//! several linear operators that read the same input, as engines merge query, key and value; experts and attention may be
//! several kernels.
//!
//! A pairing is believed only as a whole: each layer must have all of its GEMMs, experts and attention, and no GEMM may be left over
//! in every layer. Otherwise other operators ran than those of the model, or only a part of them, and no kernel has a name.

use llmprof_record::kernel_name::Category;
use llmprof_theory::{Kind, Shape};
use llmprof_theory::{Model, Workload};
use rustc_hash::FxHashSet;

/// Maximum number of linear operators that one GEMM does: query, key and value.
const MERGED_OPERATORS_MAX: usize = 3;

/// Steps of the best pairing: leave out the kernel; leave out the operator; the kernel is a part of the operator, of which more follow.
/// Smaller numbers count the operators that the kernel does.
const LEAVE_OUT_KERNEL: u8 = 255;
const LEAVE_OUT_OPERATOR: u8 = 254;
const PART_OF_OPERATOR: u8 = 253;

/// The operators of one step, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelOperators {
    all: Vec<ModelOperator>,
    rows: Option<StepRows>,
}

/// Rows of the GEMMs of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepRows {
    /// New tokens: rows of the GEMMs of a layer.
    pub(crate) tokens: u64,
    /// Sequences, of each of which the last position has logits.
    pub(crate) sequences: u64,
}

#[derive(Clone, Debug)]
struct ModelOperator {
    kind: Kind,
    path: String,
    layer: Option<u32>,
    shape: Shape,
}

impl ModelOperator {
    /// Whether each layer must show it.
    fn is_needed(&self) -> bool {
        let is_kernel = matches!(
            self.kind,
            Kind::Linear | Kind::Experts | Kind::Attention | Kind::DeltaRule
        );
        self.layer.is_some() && is_kernel
    }
}

/// A kernel of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepKernel {
    pub(super) category: Category,
    /// Whether its name says that it multiplies by the weights of experts.
    pub(super) of_experts: bool,
    pub(super) time: i64,
}

/// Whether a kernel multiplies by the weights of experts, by its name: it is neither a router nor a linear operator.
pub(crate) fn is_of_experts(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = [
        "moe_gemm",
        "moegemm",
        "fused_moe",
        "fmoe",
        "matmul_ogs",
        "marlin_moe",
        "grouped_gemm",
        "groupedgemm",
        "grouped_mm",
    ];
    words.iter().any(|word| name.contains(word))
}

/// The operators that one kernel of a graph does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MatchedOperators {
    pub(super) module: String,
    pub(super) operator: String,
    pub(super) shape: Option<String>,
}

impl ModelOperators {
    /// `rows` are those of the step, where they are known.
    pub(crate) fn from_model(model: &Model, workload: &Workload, rows: Option<StepRows>) -> Self {
        let mut all = Vec::new();
        let step = model.decode_step(workload);
        model.lower_in_order(workload, &step, &mut |operator| {
            all.push(ModelOperator {
                kind: operator.kind,
                path: operator.path.to_string(),
                layer: operator.path.layer,
                shape: operator.shape,
            });
        });
        Self { all, rows }
    }

    /// Whether one GEMM of a layer may be `n` × `k`: that of one linear operator, or of several that read one input.
    pub(crate) fn has_in_layers(&self, n: u64, k: u64) -> bool {
        let layers = (0..self.all.len()).filter(|&first| self.all[first].layer.is_some());
        self.has_any_gemm(layers, |shape| shape == (n, k))
    }

    /// Whether any GEMM of the model may be `n` × `k`. Engines round the rows of the logits up to a multiple of 64 (vLLM,
    /// `DEFAULT_VOCAB_PADDING_SIZE`).
    pub(crate) fn has_gemm(&self, n: u64, k: u64) -> bool {
        self.has_in_layers(n, k)
            || self.has_any_gemm(0..self.all.len(), |(rows, width)| {
                width == k && (rows == n || rows.next_multiple_of(64) == n)
            })
    }

    fn has_any_gemm(
        &self,
        mut firsts: impl Iterator<Item = usize>,
        is_it: impl Fn((u64, u64)) -> bool,
    ) -> bool {
        firsts.any(|first| {
            let one = &self.all[first];
            match one.kind {
                Kind::Linear => (1..=count_mergeable(&self.all, first)).any(|count| {
                    let run = &self.all[first..first + count];
                    is_it((run.iter().map(|one| one.shape.n).sum(), one.shape.k))
                }),
                Kind::Route => is_it((one.shape.n, one.shape.k)),
                // Gate, up or both of one expert, and down.
                Kind::Experts => {
                    let (n, k) = (one.shape.n, one.shape.k);
                    [(n, k), (2 * n, k), (k, n)].into_iter().any(&is_it)
                }
                _ => false,
            }
        })
    }

    /// Whether the model has linear operators at all.
    pub(crate) fn has_gemms(&self) -> bool {
        self.all.iter().any(|one| one.kind == Kind::Linear)
    }

    pub(crate) fn has_experts(&self) -> bool {
        self.all.iter().any(|one| one.kind == Kind::Experts)
    }

    fn count_layers(&self) -> usize {
        let layers: FxHashSet<u32> = self.all.iter().filter_map(|one| one.layer).collect();
        layers.len()
    }
}

/// The weight of a pairing of a kernel with an operator; `None` if the kernel cannot do it.
fn pairing_worth(kernel: StepKernel, operator: Kind) -> Option<f64> {
    if kernel.of_experts {
        return (operator == Kind::Experts).then_some(3.0);
    }
    match (kernel.category, operator) {
        (Category::Attention, Kind::Attention) | (Category::Recurrence, Kind::DeltaRule) => {
            Some(5.0)
        }
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

/// Whether a kernel may be one of several that do an operator: gate, up and down of experts; attention and the sum over its splits.
fn is_part(kernel: StepKernel, operator: Kind) -> bool {
    match operator {
        Kind::Experts => {
            kernel.of_experts || matches!(kernel.category, Category::Gemm | Category::Gemv)
        }
        Kind::Attention => kernel.category == Category::Attention,
        Kind::DeltaRule => kernel.category == Category::Recurrence,
        _ => false,
    }
}

/// How many linear operators from `first` on read one input, at most [`MERGED_OPERATORS_MAX`].
fn count_mergeable(operators: &[ModelOperator], first: usize) -> usize {
    let one = &operators[first];
    let parent = |path: &str| path.rsplit_once('.').map(|(parent, _)| parent.to_owned());
    let follows = operators[first..]
        .iter()
        .take(MERGED_OPERATORS_MAX)
        .take_while(|other| {
            other.kind == Kind::Linear
                && (other.shape.m, other.shape.k) == (one.shape.m, one.shape.k)
                && parent(&other.path) == parent(&one.path)
        });
    follows.count().max(1)
}

/// The operators that each kernel does; `None` if the kernels are not those of the model.
pub(super) fn align_kernels(
    kernels: &[StepKernel],
    model: &ModelOperators,
) -> Option<Vec<Option<MatchedOperators>>> {
    let operators = &model.all;
    let taken = best_pairing(kernels, operators);
    let width = operators.len() + 1;
    let mut aligned = vec![None; kernels.len()];
    let mut is_done = vec![false; operators.len()];
    let (mut i, mut j) = (0, 0);
    while i < kernels.len() && j < operators.len() {
        match taken[i * width + j] {
            LEAVE_OUT_KERNEL => i += 1,
            LEAVE_OUT_OPERATOR => j += 1,
            PART_OF_OPERATOR => {
                aligned[i] = Some(model.matched_operators(j..j + 1));
                i += 1;
            }
            count => {
                let done = j..j + usize::from(count);
                is_done[done.clone()].fill(true);
                j = done.end;
                aligned[i] = Some(model.matched_operators(done));
                i += 1;
            }
        }
    }
    let mut needed = operators.iter().zip(&is_done);
    let is_complete = needed.all(|(operator, done)| *done || !operator.is_needed());
    let is_gemm = |kernel: &StepKernel| matches!(kernel.category, Category::Gemm | Category::Gemv);
    let left = kernels.iter().zip(&aligned);
    let left = left.filter(|(kernel, operators)| is_gemm(kernel) && operators.is_none());
    let layers = model.count_layers();
    (is_complete && layers > 0 && left.count() < layers).then_some(aligned)
}

/// For kernels from `i` on and operators from `j` on what to do with the first of them, at `i × (operators + 1) + j`.
fn best_pairing(kernels: &[StepKernel], operators: &[ModelOperator]) -> Vec<u8> {
    let (rows, columns) = (kernels.len(), operators.len());
    let longest = kernels.iter().map(|kernel| kernel.time).max();
    let longest = longest.unwrap_or(0).max(1) as f64;
    let runs: Vec<usize> = (0..columns)
        .map(|first| count_mergeable(operators, first))
        .collect();
    // best[i][j]: the most that kernels from i on and operators from j on can be worth.
    let width = columns + 1;
    let mut best = vec![0.0_f64; (rows + 1) * width];
    let mut taken = vec![0_u8; (rows + 1) * width];
    for i in (0..rows).rev() {
        let kernel = kernels[i];
        let longer = 0.01 * kernel.time as f64 / longest;
        for j in (0..columns).rev() {
            let at = i * width + j;
            let (without_kernel, without_operator) = (best[at + width], best[at + 1]);
            (best[at], taken[at]) = if without_kernel >= without_operator {
                (without_kernel, LEAVE_OUT_KERNEL)
            } else {
                (without_operator, LEAVE_OUT_OPERATOR)
            };
            if is_part(kernel, operators[j].kind) {
                let value = 0.5 + longer + best[at + width];
                if value > best[at] {
                    (best[at], taken[at]) = (value, PART_OF_OPERATOR);
                }
            }
            let Some(worth) = pairing_worth(kernel, operators[j].kind) else {
                continue;
            };
            // Logits may be computed outside of a graph: of two places that are worth the same, that in a layer is the kernel's.
            let worth = worth + if operators[j].is_needed() { 0.05 } else { 0.0 };
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
    taken
}

impl ModelOperators {
    fn matched_operators(&self, range: std::ops::Range<usize>) -> MatchedOperators {
        let operators = &self.all[range];
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
        let k = first.shape.k;
        let rows = self.rows.map(|rows| match first.layer {
            Some(_) => rows.tokens,
            None => rows.sequences,
        });
        let rows = rows.map(|m| format!("m={m} ")).unwrap_or_default();
        MatchedOperators {
            module,
            operator: first.kind.name().to_owned(),
            shape: (k > 0 && first.kind == Kind::Linear).then(|| format!("{rows}n={n} k={k}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operators(layers: u32) -> ModelOperators {
        let mut all = Vec::new();
        let mut push = |kind, path: String, n, k| {
            let layer = path.split('.').nth(2).and_then(|layer| layer.parse().ok());
            all.push(ModelOperator {
                kind,
                path,
                layer,
                shape: Shape::gemm(4, n, k),
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
        ModelOperators {
            all,
            rows: Some(StepRows {
                tokens: 4,
                sequences: 4,
            }),
        }
    }

    fn kernels(of: impl IntoIterator<Item = (Category, i64)>) -> Vec<StepKernel> {
        of.into_iter()
            .map(|(category, time)| StepKernel {
                category,
                of_experts: false,
                time,
            })
            .collect()
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
        let step = kernels(layer.iter().cycle().take(layer.len() * 3).copied());
        let aligned = align_kernels(&step, &operators(3)).unwrap();
        for (number, layer) in aligned.chunks(layer.len()).enumerate() {
            let at = |place: usize| layer[place].as_ref().map(|matched| matched.module.as_str());
            let path = |name: &str| format!("model.layers.{number}.{name}");
            assert_eq!(
                at(1),
                Some(path("self_attn.q_proj + k_proj + v_proj").as_str())
            );
            assert_eq!(
                layer[1]
                    .as_ref()
                    .and_then(|matched| matched.shape.as_deref()),
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

    /// A piece of a graph, a model of more or of fewer layers: a name for some kernels would be a wrong one.
    #[test]
    fn a_part_of_the_operators_is_no_pairing() {
        use Category::{Attention, Gemm, Norm, Sort};
        let layer = [
            (Norm, 3),
            (Gemm, 30),
            (Attention, 20),
            (Gemm, 25),
            (Norm, 3),
            (Gemm, 50),
            (Gemm, 40),
        ];
        let step =
            |layers: usize| kernels(layer.iter().cycle().take(layer.len() * layers).copied());
        assert!(align_kernels(&step(3), &operators(3)).is_some());
        for layers in [1, 2, 4, 6] {
            assert_eq!(
                align_kernels(&step(layers), &operators(3)),
                None,
                "{layers}"
            );
        }
        assert_eq!(align_kernels(&step(3)[2..10], &operators(3)), None);
        assert_eq!(align_kernels(&[], &operators(1)), None);
        assert_eq!(align_kernels(&step(1), &ModelOperators::default()), None);
        assert_eq!(align_kernels(&kernels([(Sort, 1)]), &operators(1)), None);
    }

    /// Router, gate and up, down: the long ones have names of experts, and the short GEMM before them is the router.
    #[test]
    fn gemms_of_experts_are_not_the_router() {
        use Category::{Attention, Gemm, Moe};
        let mut model = operators(2);
        model.all.retain(|one| !one.path.contains("mlp"));
        let mut all = Vec::new();
        for one in model.all {
            let is_last = one.path.contains("post_attention");
            let layer = one.layer;
            all.push(one);
            for (kind, name) in [(Kind::Route, "mlp.gate"), (Kind::Experts, "mlp.experts")] {
                if is_last {
                    all.push(ModelOperator {
                        kind,
                        path: format!("model.layers.{}.{name}", layer.unwrap()),
                        layer,
                        shape: Shape::gemm(4, 16, 64),
                    });
                }
            }
        }
        model.all = all;
        let expert = |name: &str, time: i64| StepKernel {
            category: Gemm,
            of_experts: is_of_experts(name),
            time,
        };
        let mut step = Vec::new();
        for _ in 0..2 {
            step.extend(kernels([
                (Gemm, 30),
                (Attention, 20),
                (Attention, 5),
                (Gemm, 25),
            ]));
            step.extend(kernels([(Gemm, 7), (Moe, 3)]));
            step.push(expert("void ck::kernel_moe_gemm<GridwiseMoeGemm>", 90));
            step.push(expert("_p_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x64x1", 60));
        }
        let aligned = align_kernels(&step, &model).unwrap();
        let at = |place: usize| {
            aligned[place]
                .as_ref()
                .map(|matched| matched.module.as_str())
        };
        for (number, first) in [(0, 0), (1, 8)] {
            let path = |name: &str| Some(format!("model.layers.{number}.{name}"));
            assert_eq!(at(first + 1), path("self_attn").as_deref());
            assert_eq!(at(first + 2), path("self_attn").as_deref());
            assert_eq!(at(first + 4), path("mlp.gate").as_deref());
            assert_eq!(at(first + 6), path("mlp.experts").as_deref());
            assert_eq!(at(first + 7), path("mlp.experts").as_deref());
        }
        // A model without experts did not run these.
        assert_eq!(align_kernels(&step, &operators(2)), None);
    }
}
