//! Work beyond the model that no other cause explains: operators that move, order or gather tensors, and products of activations, by
//! operator, longest first. Whether the program needs their results is not in the trace, so gains are ranges from nothing. Operators that
//! add up what they gather compute.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::CopyKind;
use llmprof_units::Nanos;
use rustc_hash::{FxHashMap, FxHashSet};

use super::cause::CauseKind;
use super::scene::shape_text;
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceRow, DeviceWork, Edit};
use crate::thresholds::{BEYOND_MODEL_MIN_SHARE, TOKEN_PRODUCT_MIN_ROWS};

/// Device work of one operator of the program.
#[derive(Default)]
struct OperatorWork {
    calls: u64,
    device_ns: i64,
    works: Vec<usize>,
    /// The call that takes longest.
    longest: (i64, usize),
}

pub(super) fn find_work_beyond_model(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let products = products_of_tokens(scene);
    let mut groups: FxHashMap<(&str, bool), OperatorWork> = FxHashMap::default();
    let mut all = 0;
    for &top in scene.tops.iter().filter(|&&top| scene.is_operator(top)) {
        all += scene.device_ns(top);
        let is_product = products.contains(&top);
        if !is_product && is_sum(scene, top) {
            continue;
        }
        let moves = |index: &usize| is_product || moves_data(scene, &scene.graph.work()[*index]);
        let works: Vec<usize> = scene.work_of(top).filter(moves).collect();
        if works.is_empty() {
            continue;
        }
        let time = works
            .iter()
            .map(|&index| scene.graph.work()[index].duration);
        let time = time.sum();
        let group = groups.entry((scene.name(top), is_product)).or_default();
        group.calls += 1;
        group.device_ns += time;
        group.works.extend(works);
        group.longest = group.longest.max((time, top));
    }
    let least = BEYOND_MODEL_MIN_SHARE * all as f64;
    let mut large: Vec<((&str, bool), OperatorWork)> = groups
        .into_iter()
        .filter(|(_, group)| group.device_ns as f64 >= least)
        .collect();
    large.sort_by_key(|(_, group)| std::cmp::Reverse((group.device_ns, group.longest)));
    large
        .into_iter()
        .map(|((_, is_product), group)| make_candidate(scene, &group, is_product))
        .collect()
}

fn make_candidate(scene: &Scene<'_>, group: &OperatorWork, is_product: bool) -> CauseCandidate {
    let (_, top) = group.longest;
    let mut without = Edit::default();
    for &work in &group.works {
        without.drop_work(work);
    }
    let tensors = scene.tensors(top);
    let largest = tensors.iter().max_by_key(|(dims, _)| {
        dims.iter()
            .fold(1_i64, |all, &size| all.saturating_mul(size))
    });
    let shape = largest.map_or_else(String::new, |(dims, _)| shape_text(dims));
    let kernels_ns = Nanos(scene.a_step(group.device_ns));
    CauseCandidate {
        kind: if is_product {
            CauseKind::TokenProducts { shape, kernels_ns }
        } else {
            CauseKind::WorkBeyondModel { shape, kernels_ns }
        },
        place: scene.place(top),
        count: group.calls,
        edit: Edit::default(),
        partial: Some(vec![without]),
    }
}

/// Parts of names of operators that add up, or reduce, what they gather: arithmetic of graphs, experts and embeddings.
const SUMS: &[&str] = &[
    "scatter_sum",
    "scatter_add",
    "scatter_mean",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_reduce",
    "segment_",
    "index_add",
    "index_reduce",
];

fn is_sum(scene: &Scene<'_>, top: usize) -> bool {
    let is_named = |row: usize| SUMS.iter().any(|part| scene.name(row).contains(part));
    is_named(top) || scene.rows_in(top).any(is_named)
}

/// Whether device work moves, orders or gathers.
fn moves_data(scene: &Scene<'_>, work: &DeviceWork) -> bool {
    if let DeviceRow::Copy(row) = work.row {
        return scene.trace.copies.kind[row as usize] == CopyKind::DEVICE_TO_DEVICE;
    }
    matches!(
        scene.category(work),
        Category::Copy | Category::Cat | Category::Index | Category::Scan | Category::Sort
    )
}

/// Outermost operators that multiply tensors of which each has a row for every token: neither is a weight.
fn products_of_tokens(scene: &Scene<'_>) -> FxHashSet<usize> {
    let mut counts: FxHashMap<i64, u64> = FxHashMap::default();
    for gemm in scene.gemms.iter().filter(|gemm| gemm.groups == 1) {
        *counts.entry(gemm.m).or_default() += 1;
    }
    let usual = counts
        .into_iter()
        .max_by_key(|&(rows, count)| (count, rows));
    let tokens = usual.map_or(0, |(rows, _)| rows);
    if tokens < TOKEN_PRODUCT_MIN_ROWS {
        return FxHashSet::default();
    }
    let of_tokens = |top: &usize| {
        let tensors = scene.tensors(*top);
        let has_rows = |dims: &[i64]| dims.len() >= 2 && dims[0] == tokens;
        tensors.len() >= 2 && tensors.iter().all(|(dims, _)| has_rows(dims))
    };
    let tops = scene
        .gemms
        .iter()
        .filter_map(|gemm| scene.top_around(gemm.row));
    tops.filter(of_tokens).collect()
}

#[cfg(test)]
mod tests {
    use llmprof_record::run::RunPhase;

    use crate::causes::sketch::{Sketch, Tensors};

    const BF16: &str = "c10::BFloat16";

    /// Layers of two GEMMs with an operator that launches this kernel for so long, µs.
    fn sketch_layers(operator: &str, tensors: Tensors<'_>, kernel: (&str, i64)) -> Sketch {
        let mut sketch = Sketch::of_phase(RunPhase::Prefill);
        for _ in 0..6 {
            sketch.matrix_product(4096, 2048, 6144, 150);
            sketch.operator(operator, tensors, &[kernel]);
            sketch.matrix_product(4096, 6144, 2048, 150);
        }
        sketch.synchronize();
        sketch
    }

    fn most_saved(sketch: Sketch, code: &str) -> Option<(String, f64, f64)> {
        let diagnosed = sketch.diagnose();
        let cause = diagnosed.cause(code)?;
        let gain = cause.gains.first()?;
        let operator = cause.place.operator.clone()?;
        Some((operator, gain.saved_ns.0 as f64, gain.most_share()))
    }

    #[test]
    fn a_scan_that_takes_longer_than_the_layer_is_named_with_an_upper_bound() {
        let counts: Tensors<'_> = &[(&[8192, 16], "long int")];
        let sketch = sketch_layers(
            "aten::cumsum",
            counts,
            ("tensor_kernel_scan_outer_dim", 900),
        );
        let (operator, saved, most) = most_saved(sketch, "work_beyond_model").unwrap();
        assert_eq!((operator.as_str(), saved), ("aten::cumsum", 0.0));
        assert!((0.7..0.8).contains(&most), "{most}");
    }

    /// Message passing of a graph network gathers rows and adds them up.
    #[test]
    fn scattered_sums_are_arithmetic() {
        let rows: Tensors<'_> = &[(&[1_500_000, 256], "float")];
        for name in ["torch_scatter::scatter_sum", "aten::index_add_"] {
            let sketch = sketch_layers(name, rows, ("index_add_large_kernel", 900));
            assert_eq!(most_saved(sketch, "work_beyond_model"), None, "{name}");
        }
        let sketch = sketch_layers("aten::index_select", rows, ("indexSelectLargeIndex", 900));
        assert!(most_saved(sketch, "work_beyond_model").is_some());
    }

    #[test]
    fn products_of_two_activations_are_named_and_those_with_weights_are_not() {
        let kernel = ("nvjet_gemm_kernel", 400);
        let masks: Tensors<'_> = &[(&[4096, 10_240], BF16), (&[4096, 2048], BF16)];
        let sketch = || sketch_layers("aten::mm", masks, kernel);
        let saved = most_saved(sketch(), "token_products");
        assert_eq!(saved.unwrap().0, "aten::mm");
        assert!(most_saved(sketch(), "work_beyond_model").is_none());
        let weight: Tensors<'_> = &[(&[4096, 2048], BF16), (&[2048, 6144], BF16)];
        let sketch = sketch_layers("aten::mm", weight, kernel);
        assert!(most_saved(sketch, "token_products").is_none());
    }

    #[test]
    fn short_gathers_and_elementwise_work_are_not_named() {
        let gathered: Tensors<'_> = &[(&[4096, 2048], BF16)];
        let short = ("vectorized_gather_kernel", 20);
        let index = sketch_layers("aten::index", gathered, short);
        assert!(most_saved(index, "work_beyond_model").is_none());
        let sum = ("vectorized_elementwise_kernel", 200);
        let add = sketch_layers("aten::add", gathered, sum);
        assert!(most_saved(add, "work_beyond_model").is_none());
    }
}
