//! Weights that are converted, scaled or copied in every pass before they are multiplied.

use llmprof_record::trace::CopyKind;
use llmprof_units::Nanos;
use rustc_hash::FxHashSet;

use super::cause::CauseKind;
use super::scene::shape_text;
use super::{Candidate, Scene};
use crate::replay::{Edit, WorkRow};

/// Smaller matrices than this in either dimension are not taken for weights.
const WEIGHT_DIM_MIN: i64 = 256;

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
        .filter_map(|gemm| {
            let after = scene.tops.partition_point(|&top| top <= gemm.row);
            scene.tops.get(after.checked_sub(1)?).copied()
        })
        .collect();
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
        if time == 0 || scene.api(top).is_some() || is_lookup || is_copied_from_host(scene, top) {
            continue;
        }
        let tensors = scene.tensors(top);
        let Some(&(dims, dtype)) = tensors.iter().max_by_key(|(dims, _)| elements(dims)) else {
            continue;
        };
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
    for gemm in &scene.gemms {
        shapes.remove(&vec![gemm.m, gemm.k]);
        shapes.remove(&vec![gemm.m, gemm.n]);
    }
    shapes
}

/// Weights that come from the host are copies (`host_copies`).
fn is_copied_from_host(scene: &Scene<'_>, row: usize) -> bool {
    let work = &scene.graph.work()[scene.work_of(row)];
    work.iter().any(|work| match work.row {
        WorkRow::Copy(copy) => scene.trace.copies.kind[copy as usize] == CopyKind::HOST_TO_DEVICE,
        _ => false,
    })
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
