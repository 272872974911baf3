//! Weights that are converted, scaled or copied in every pass before they are multiplied.

use crate::thresholds::WEIGHT_DIM_MIN;
use std::ops::Range;

use llmprof_record::trace::CopyKind;
use llmprof_units::Nanos;
use rustc_hash::FxHashSet;

use super::cause::CauseKind;
use super::scene::shape_text;
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceRow, Edit};

/// The type that a recording gives to a list of tensors, whatever these hold.
const TENSOR_LIST: &str = "TensorList";

#[derive(Default)]
struct CastGroup {
    edit: Edit,
    count: u64,
    is_inside: bool,
    device_ns: i64,
    row: usize,
    shape: String,
    from: String,
    to: String,
}

/// A new tensor into which an operator copies all its weights before it multiplies.
struct Rebuilt {
    fill: usize,
    /// From the fill to the last copy.
    rows: Range<usize>,
    elements: i64,
}

impl CastGroup {
    fn add_rebuilt(&mut self, scene: &Scene<'_>, rebuilt: &Rebuilt) {
        let first = scene.graph.segments_of_row(rebuilt.rows.start).start;
        let last = scene.graph.segments_of_row(rebuilt.rows.end - 1).end;
        for segment in first..last {
            self.edit.limit_segment(segment, 0);
        }
        for work in scene.graph.launched_by(first..last) {
            self.edit.drop_work(work);
            self.device_ns += scene.graph.work()[work].duration;
        }
        self.count += 1;
        if self.shape.is_empty() {
            self.row = rebuilt.fill;
            self.shape = shape_text(&[rebuilt.elements]);
            let dtype = scene.tensors(rebuilt.fill).first().map(|(_, dtype)| *dtype);
            dtype.unwrap_or_default().clone_into(&mut self.from);
            self.to.clone_from(&self.from);
        }
    }
}

/// The fill of a large tensor inside of an operator, and the copies into parts of it that follow: the weights of an RNN that are not one
/// block of memory.
fn rebuilt_block(scene: &Scene<'_>, top: usize) -> Option<Rebuilt> {
    let size = |row: usize| {
        scene
            .tensors(row)
            .first()
            .map_or(0, |(dims, _)| element_count(dims))
    };
    let rows = scene.rows_in(top);
    let fill = rows.clone().find(|&row| {
        scene.name(row) == "aten::zero_" && size(row) >= WEIGHT_DIM_MIN * WEIGHT_DIM_MIN
    })?;
    let (mut copied, mut end) = (0, fill);
    let mut row = scene.rows_in(fill).end;
    while row < rows.end {
        if scene.name(row) == "aten::copy_" {
            copied += size(row);
            end = scene.rows_in(row).end;
            row = end;
        } else if copied > 0 && !scene.work_of(row).is_empty() {
            break;
        } else {
            row += 1;
        }
    }
    (copied > 0 && 2 * copied >= size(fill)).then_some(Rebuilt {
        fill,
        rows: fill..end,
        elements: size(fill),
    })
}

pub(super) fn find_weight_casts(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let weights = weight_shapes(scene);
    let with_gemm: FxHashSet<usize> = scene
        .gemms
        .iter()
        .filter(|gemm| gemm.k >= WEIGHT_DIM_MIN)
        .filter_map(|gemm| scene.top_around(gemm.row))
        .collect();
    let counts = element_counts(scene);
    let deltas = low_rank_products(scene, &weights);
    let mut group = CastGroup::default();
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
        let Some(&(dims, dtype)) = tensors.iter().max_by_key(|(dims, _)| element_count(dims))
        else {
            continue;
        };
        if deltas.contains(&top) {
            // The product that is added to a weight goes with the sum.
            scene.remove(&mut group.edit, top);
            group.device_ns += time;
            continue;
        }
        let pieces = match dtype {
            TENSOR_LIST => tensors.iter().filter(|tensor| tensor.0 == dims).count(),
            _ => 1,
        };
        if !weights.contains(dims) && !is_reshaped(dims, dtype, pieces, &counts) {
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
            let (from, to) = copy_formats(scene, top, dtype);
            (group.from, group.to) = (from, to);
        }
    }
    for &top in &scene.tops {
        if let Some(rebuilt) = rebuilt_block(scene, top) {
            group.add_rebuilt(scene, &rebuilt);
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
    vec![CauseCandidate {
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
    shapes.extend(
        filters.filter(|filters| element_count(filters) >= WEIGHT_DIM_MIN * WEIGHT_DIM_MIN),
    );
    // Products of two thin factors (LoRA) have the shape of a weight and are none of an activation.
    for gemm in scene.gemms.iter().filter(|gemm| gemm.k >= WEIGHT_DIM_MIN) {
        shapes.remove(&vec![gemm.m, gemm.k]);
        shapes.remove(&vec![gemm.m, gemm.n]);
    }
    shapes
}

/// Rows and elements of weights that no activation has as many rows as.
fn element_counts(scene: &Scene<'_>) -> FxHashSet<(i64, i64)> {
    let rows: FxHashSet<i64> = scene.gemms.iter().map(|gemm| gemm.m).collect();
    let weights = scene.gemms.iter().filter(|gemm| {
        let is_matrix = gemm.groups == 1 && gemm.n >= WEIGHT_DIM_MIN && gemm.k >= WEIGHT_DIM_MIN;
        is_matrix && !rows.contains(&gemm.n)
    });
    weights
        .map(|gemm| (gemm.n, gemm.n.saturating_mul(gemm.k)))
        .collect()
}

/// Whether tensors of these dimensions have together the rows and elements of a weight in more dimensions, as groups of one scale have; of
/// 8-bit numbers each may hold two or four.
fn is_reshaped(dims: &[i64], dtype: &str, pieces: usize, counts: &FxHashSet<(i64, i64)>) -> bool {
    let Some((&rows, rest)) = dims.split_first() else {
        return false;
    };
    let all = rest
        .iter()
        .fold(rows.saturating_mul(pieces as i64), |all, &size| {
            all.saturating_mul(size)
        });
    let is_packed = dtype.ends_with("char") || pieces > 1;
    let packed: &[i64] = if is_packed { &[1, 2, 4] } else { &[1] };
    let mut numbers = packed.iter().map(|number| all.saturating_mul(*number));
    rest.len() + usize::from(is_packed) >= 2 && numbers.any(|count| counts.contains(&(rows, count)))
}

/// Outermost operators that multiply two thin factors to the shape of a weight.
fn low_rank_products(scene: &Scene<'_>, weights: &FxHashSet<Vec<i64>>) -> FxHashSet<usize> {
    let thin = scene.gemms.iter().filter(|gemm| {
        gemm.groups == 1 && gemm.k < WEIGHT_DIM_MIN && weights.contains(&vec![gemm.m, gemm.n])
    });
    thin.filter_map(|gemm| scene.top_around(gemm.row)).collect()
}

/// Weights that come from the host are copies (`host_copies`).
fn is_copied_from_host(scene: &Scene<'_>, row: usize) -> bool {
    let work = &scene.graph.work()[scene.work_of(row)];
    work.iter().any(|work| match work.row {
        DeviceRow::Copy(copy) => scene.trace.copies.kind[copy as usize] == CopyKind::HOST_TO_DEVICE,
        _ => false,
    })
}

fn is_convolution(scene: &Scene<'_>, row: usize) -> bool {
    scene.name(row).starts_with("aten::conv")
}

fn element_count(dims: &[i64]) -> i64 {
    dims.iter().product()
}

fn is_converting(scene: &Scene<'_>, top: usize) -> bool {
    let (from, to) = copy_formats(scene, top, "");
    from != to
}

/// Source and target of the copy inside of an operator.
fn copy_formats(scene: &Scene<'_>, top: usize, dtype: &str) -> (String, String) {
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
    use super::TENSOR_LIST;
    use crate::causes::sketch::{Sketch, Tensors};

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

    /// Products with weights of 4 bits that are unpacked for each, so many rows of them.
    fn sketch_unpacked(rows: i64) -> Sketch {
        let packed: &[i64] = &[rows, 1024];
        let grouped: &[i64] = &[rows, 16, 128];
        let unpacking: [(&str, Tensors<'_>); 5] = [
            ("aten::__and__", &[(packed, "unsigned char")]),
            ("aten::__rshift__", &[(packed, "unsigned char")]),
            (
                "aten::stack",
                &[(packed, TENSOR_LIST), (packed, TENSOR_LIST)],
            ),
            ("aten::to", &[(grouped, "unsigned char")]),
            ("aten::mul", &[(grouped, "c10::BFloat16")]),
        ];
        let mut sketch = Sketch::default();
        for _ in 0..8 {
            for (name, tensors) in unpacking {
                sketch.operator(name, tensors, &[("elementwise_kernel", 20)]);
            }
            sketch.matrix_product(512, 2048, 8192, 100);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn unpacking_weights_in_groups_for_each_product_is_a_cause() {
        let diagnosed = sketch_unpacked(8192).diagnose();
        let (saved, now) = diagnosed.gain_of("weight_casts").unwrap();
        assert!((0.45..0.52).contains(&(saved / now)), "{saved} of {now} ms");
        assert_eq!(
            sketch_unpacked(512).diagnose().gain_of("weight_casts"),
            None
        );
    }

    /// An RNN whose weights are filled into a block of memory in every call.
    #[test]
    fn weights_copied_into_one_block_in_every_call_are_a_cause() {
        let mut sketch = Sketch::default();
        for _ in 0..6 {
            sketch.recurrent_layer(4 * 1280 * 1280, 60);
            sketch.matrix_product(32, 1280, 1024, 10);
        }
        sketch.synchronize();
        let diagnosed = sketch.diagnose();
        let (saved, now) = diagnosed.gain_of("weight_casts").unwrap();
        assert!((0.4..0.9).contains(&(saved / now)), "{saved} of {now} ms");
    }

    #[test]
    fn converting_activations_is_none() {
        assert_eq!(sketch_casts(16).diagnose().gain_of("weight_casts"), None);
    }
}
