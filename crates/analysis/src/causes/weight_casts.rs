//! Weights that are converted, scaled or copied in every pass before they are multiplied.

use llmprof_record::trace::CopyKind;
use llmprof_units::Nanos;
use rustc_hash::FxHashSet;

use super::cause::CauseKind;
use super::scene::shape_text;
use super::shapes::WEIGHT_DIM_MIN;
use super::{Candidate, Scene};
use crate::replay::{Edit, WorkRow};

#[derive(Default)]
struct Group {
    edit: Edit,
    count: u64,
    is_inside: bool,
    device_ns: i64,
    row: usize,
    shape: String,
    from: String,
    to: String,
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let weights = weight_shapes(scene);
    let with_gemm: FxHashSet<usize> = scene
        .gemms
        .iter()
        .filter(|gemm| gemm.k >= WEIGHT_DIM_MIN)
        .filter_map(|gemm| scene.top_around(gemm.row))
        .collect();
    let deltas = deltas(scene, &weights);
    let mut group = Group::default();
    let rows = scene.tops.iter().flat_map(|&top| {
        // Autocast converts inside of the operator that multiplies.
        let inside = with_gemm.contains(&top);
        let rows = if inside {
            scene.rows_in(top)
        } else {
            top..top + 1
        };
        rows.filter(move |&row| !inside || scene.name(row) == "aten::to")
    });
    for top in rows {
        let time = scene.device_ns(top);
        let is_lookup = ["aten::embedding", "aten::index_select"].contains(&scene.name(top));
        let is_other = is_lookup || is_convolution(scene, top);
        if time == 0 || scene.api(top).is_some() || is_other || is_copied_from_host(scene, top) {
            continue;
        }
        let tensors = scene.tensors(top);
        let Some(&(dims, dtype)) = tensors.iter().max_by_key(|(dims, _)| elements(dims)) else {
            continue;
        };
        if deltas.contains(&top) {
            // The product that is added to a weight goes with the sum.
            scene.remove(&mut group.edit, top);
            group.device_ns += time;
            continue;
        }
        if !weights.contains(dims) {
            continue;
        }
        scene.remove(&mut group.edit, top);
        group.count += 1;
        group.is_inside |= scene
            .graph
            .parent_row(top)
            .is_some_and(|row| scene.is_op_or_call(row));
        group.device_ns += time;
        if group.shape.is_empty() || is_converting(scene, top) {
            group.row = top;
            group.shape = shape_text(dims);
            let (from, to) = formats(scene, top, dtype);
            (group.from, group.to) = (from, to);
        }
    }
    if group.count == 0 {
        return Vec::new();
    }
    // Where weights are cast inside of the operator, so are biases and inputs.
    for &top in &with_gemm {
        for row in scene.rows_in(top) {
            let is_cast = scene.name(row) == "aten::to" && scene.device_ns(row) > 0;
            if is_cast && group.is_inside {
                scene.remove(&mut group.edit, row);
            }
        }
    }
    vec![Candidate {
        kind: CauseKind::WeightCasts {
            from: group.from,
            to: group.to,
            shape: group.shape,
            kernels_ns: Nanos(scene.a_step(group.device_ns)),
        },
        place: scene.place(group.row),
        count: group.count,
        edit: group.edit,
        partial: None,
    }]
}

/// Shapes of second factors, as stored or transposed, that no activation has.
fn weight_shapes(scene: &Scene<'_>) -> FxHashSet<Vec<i64>> {
    let mut shapes = FxHashSet::default();
    for gemm in &scene.gemms {
        if gemm.groups == 1 && gemm.n >= WEIGHT_DIM_MIN && gemm.k >= WEIGHT_DIM_MIN {
            shapes.insert(vec![gemm.n, gemm.k]);
            shapes.insert(vec![gemm.k, gemm.n]);
        }
    }
    let convolutions = scene.tops.iter().filter(|&&top| is_convolution(scene, top));
    let filters = convolutions.filter_map(|&top| match scene.tensors(top).as_slice() {
        [(input, _), (filters, _), ..] if input != filters => Some(filters.to_vec()),
        _ => None,
    });
    shapes.extend(filters.filter(|filters| elements(filters) >= WEIGHT_DIM_MIN * WEIGHT_DIM_MIN));
    // Products of two thin factors (LoRA) have the shape of a weight and are none of an activation.
    for gemm in scene.gemms.iter().filter(|gemm| gemm.k >= WEIGHT_DIM_MIN) {
        shapes.remove(&vec![gemm.m, gemm.k]);
        shapes.remove(&vec![gemm.m, gemm.n]);
    }
    shapes
}

/// Outermost operators that multiply two thin factors to the shape of a weight.
fn deltas(scene: &Scene<'_>, weights: &FxHashSet<Vec<i64>>) -> FxHashSet<usize> {
    let thin = scene.gemms.iter().filter(|gemm| {
        gemm.groups == 1 && gemm.k < WEIGHT_DIM_MIN && weights.contains(&vec![gemm.m, gemm.n])
    });
    thin.filter_map(|gemm| scene.top_around(gemm.row)).collect()
}

/// Weights that come from the host are copies (`host_copies`).
fn is_copied_from_host(scene: &Scene<'_>, row: usize) -> bool {
    let work = &scene.graph.work()[scene.work_of(row)];
    work.iter().any(|work| match work.row {
        WorkRow::Copy(copy) => scene.trace.copies.kind[copy as usize] == CopyKind::HOST_TO_DEVICE,
        _ => false,
    })
}

fn is_convolution(scene: &Scene<'_>, row: usize) -> bool {
    scene.name(row).starts_with("aten::conv")
}

fn elements(dims: &[i64]) -> i64 {
    dims.iter().product()
}

fn is_converting(scene: &Scene<'_>, top: usize) -> bool {
    let (from, to) = formats(scene, top, "");
    from != to
}

/// Source and target of the copy inside of an operator.
fn formats(scene: &Scene<'_>, top: usize, dtype: &str) -> (String, String) {
    let copy = scene
        .rows_in(top)
        .find(|&row| scene.name(row) == "aten::copy_");
    let tensors = copy.map(|row| scene.tensors(row)).unwrap_or_default();
    match tensors.as_slice() {
        [(_, to), (_, from), ..] => ((*from).to_owned(), (*to).to_owned()),
        _ => (dtype.to_owned(), dtype.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_casts(rows: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.operator(
                "aten::to",
                &[(&[rows, 2048], "float")],
                &[("elementwise_kernel", 40)],
            );
            sketch.matrix_product(16, 2048, 8192, 15);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn converting_a_weight_in_every_step_is_a_cause() {
        let (saved, now) = sketch_casts(8192)
            .diagnose()
            .gain_of("weight_casts")
            .unwrap();
        assert!((0.14..0.18).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn adding_a_product_to_a_weight_in_every_step_is_a_cause() {
        let mut sketch = Sketch::default();
        let weight: &[i64] = &[8192, 2048];
        for _ in 0..4 {
            sketch.matrix_product(8192, 16, 2048, 20);
            sketch.operator(
                "aten::mul",
                &[(weight, "c10::BFloat16")],
                &[("elementwise_kernel", 20)],
            );
            sketch.operator(
                "aten::add",
                &[(weight, "c10::BFloat16")],
                &[("elementwise_kernel", 25)],
            );
            sketch.matrix_product(16, 2048, 8192, 15);
        }
        sketch.synchronize();
        let (saved, now) = sketch.diagnose().gain_of("weight_casts").unwrap();
        assert!((0.2..0.28).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn normalizing_the_filters_of_a_convolution_in_every_step_is_a_cause() {
        let filters: &[i64] = &[512, 512, 7];
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.operator(
                "aten::_weight_norm",
                &[(filters, "c10::BFloat16"), (&[512, 1, 1], "c10::BFloat16")],
                &[("weight_norm_fwd_kernel", 40)],
            );
            sketch.operator(
                "aten::conv1d",
                &[
                    (&[1, 512, 400], "c10::BFloat16"),
                    (filters, "c10::BFloat16"),
                ],
                &[("conv_kernel", 60)],
            );
        }
        sketch.synchronize();
        let (saved, now) = sketch.diagnose().gain_of("weight_casts").unwrap();
        assert!((0.14..0.2).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn converting_activations_is_none() {
        assert_eq!(sketch_casts(16).diagnose().gain_of("weight_casts"), None);
    }
}
