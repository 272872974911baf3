//! Python loops that launch the same few small kernels again and again: over tokens, sequences, heads, adapters.

use crate::thresholds::{
    LOOP_BODY_OPERATORS_MAX, LOOP_ITERATIONS_MIN, LOOP_KERNEL_MAX_NS, LOOP_OPERATORS_MIN,
    SMALL_COPY_MAX_BYTES, WEIGHT_DIM_MIN,
};
use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::model_work::Gemm;
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceRow, DeviceWork, Edit};

/// Operators that take one piece of a tensor.
pub(super) const PICKS: &[&str] = &["aten::select", "aten::slice", "aten::narrow"];

/// A loop: places among the outermost operators.
struct OperatorLoop {
    first: usize,
    body: usize,
    iterations: usize,
}

pub(super) fn find_operator_loops(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let loops = read_loops(scene);
    let Some(longest) = loops.iter().max_by_key(|one| one.body * one.iterations) else {
        return Vec::new();
    };
    let (mut edit, mut most) = (Edit::default(), Edit::default());
    let mut time = 0;
    let mut iterations = 0;
    let mut has_gemms = false;
    for one in &loops {
        iterations += one.iterations;
        has_gemms |= loop_gemms(scene, one).next().is_some();
        // One iteration over whole tensors stays.
        for &top in &scene.tops[one.first + one.body..one.first + one.body * one.iterations] {
            scene.remove(&mut most, top);
            // Batched GEMMs read as many weights.
            if has_gemm(scene, top) {
                scene.remove_host(&mut edit, top);
            } else {
                scene.remove(&mut edit, top);
            }
            time += scene.trace.hosts.duration[top];
        }
    }
    let launching = scene.tops[longest.first..longest.first + longest.body]
        .iter()
        .copied()
        .find(|&top| !scene.work_of(top).is_empty());
    let row = launching.unwrap_or(scene.tops[longest.first]);
    vec![CauseCandidate {
        kind: CauseKind::OperatorLoop {
            iterations: iterations as u64 / scene.steps.max(1),
            operators: longest.body as u64,
            time_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(row),
        count: loops.len() as u64,
        edit,
        partial: has_gemms.then(|| vec![most]),
    }]
}

fn read_loops(scene: &Scene<'_>) -> Vec<OperatorLoop> {
    let names: Vec<_> = scene
        .tops
        .iter()
        .map(|&top| scene.trace.hosts.name[top])
        .collect();
    let mut loops = Vec::new();
    let mut first = 0;
    while first < names.len() {
        let one = (1..=LOOP_BODY_OPERATORS_MAX).find_map(|body| {
            let pairs = names[first..].iter().zip(names.get(first + body..)?);
            let alike = pairs.take_while(|(name, later)| name == later).count();
            let iterations = alike / body + 1;
            let is_long =
                iterations >= LOOP_ITERATIONS_MIN && iterations * body >= LOOP_OPERATORS_MIN;
            is_long.then_some(OperatorLoop {
                first,
                body,
                iterations,
            })
        });
        match one {
            Some(one) => {
                first += one.body * one.iterations;
                // Names of calls do not tell what is launched.
                let mut body = scene.tops[one.first..one.first + one.body].iter();
                if body.any(|&top| scene.is_operator(top)) && is_small(scene, &one) {
                    loops.push(one);
                }
            }
            None => first += 1,
        }
    }
    loops
}

fn loop_gemms<'s>(
    scene: &'s Scene<'_>,
    one: &OperatorLoop,
) -> impl Iterator<Item = &'s Gemm> + use<'s> {
    let tops = &scene.tops[one.first..one.first + one.body * one.iterations];
    let rows = tops[0]..scene.rows_in(tops[tops.len() - 1]).end;
    let from = scene.gemms.partition_point(|gemm| gemm.row < rows.start);
    let gemms = scene.gemms[from..].iter();
    gemms.take_while(move |gemm| gemm.row < rows.end)
}

fn has_gemm(scene: &Scene<'_>, top: usize) -> bool {
    let next = scene.gemms.partition_point(|gemm| gemm.row < top);
    let gemm = scene.gemms.get(next);
    gemm.is_some_and(|gemm| scene.rows_in(top).contains(&gemm.row))
}

/// Whether each iteration picks its own of as many pieces of a tensor: a loop over pieces rather than layers.
fn picks_pieces(scene: &Scene<'_>, one: &OperatorLoop) -> bool {
    let mut body = scene.tops[one.first..one.first + one.body].iter();
    body.any(|&top| {
        let tensors = scene.tensors(top);
        let picked = tensors.first().filter(|_| PICKS.contains(&scene.name(top)));
        picked.is_some_and(|(dims, _)| dims.contains(&(one.iterations as i64)))
    })
}

/// Whether a loop launches kernels and copies, all of them short. Layers repeat too: GEMMs are narrow and of pieces. A loop that
/// only waits is a cause of its own.
fn is_small(scene: &Scene<'_>, one: &OperatorLoop) -> bool {
    let tops = &scene.tops[one.first..one.first + one.body * one.iterations];
    let is_wide = |gemm: &Gemm| gemm.n.min(gemm.k) >= WEIGHT_DIM_MIN;
    let mut inside = loop_gemms(scene, one).peekable();
    if inside.peek().is_some() && (inside.any(is_wide) || !picks_pieces(scene, one)) {
        return false;
    }
    let all = scene.graph.work();
    let work = || tops.iter().flat_map(|&top| &all[scene.work_of(top)]);
    let is_short = |work: &DeviceWork| {
        let is_small = match work.row {
            DeviceRow::Copy(row) => scene.trace.copies.bytes[row as usize] <= SMALL_COPY_MAX_BYTES,
            _ => true,
        };
        is_small && work.duration <= LOOP_KERNEL_MAX_NS
    };
    let kernels = work().filter(|work| matches!(work.row, DeviceRow::Kernel(_)));
    kernels.count() >= one.iterations && work().all(is_short)
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_loop(iterations: usize, kernel_us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..10 {
            sketch.matrix_product(16, 2048, 2048, 20);
        }
        for _ in 0..iterations {
            for name in ["aten::gt", "aten::div", "aten::mul", "aten::where"] {
                sketch.operator(name, &[(&[1], "float")], &[("elementwise", kernel_us)]);
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn a_loop_over_values_is_a_cause() {
        let diagnosed = sketch_loop(100, 2).diagnose();
        let (saved, now) = diagnosed.gain_of("operator_loop").unwrap();
        assert!(saved > 0.9 * now, "{saved} of {now} ms");
    }

    #[test]
    fn a_few_operators_or_long_kernels_are_none() {
        assert_eq!(sketch_loop(5, 2).diagnose().gain_of("operator_loop"), None);
        assert_eq!(
            sketch_loop(100, 50).diagnose().gain_of("operator_loop"),
            None
        );
    }

    /// Projections, each with a low-rank product for every piece of `pieces`.
    fn sketch_adapters(pieces: i64, rank: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..6 {
            sketch.matrix_product(12, 2048, 2048, 20);
            for _ in 0..12 {
                sketch.operator(
                    "aten::select",
                    &[(&[pieces, 1, 2048], "c10::BFloat16")],
                    &[],
                );
                sketch.matrix_product(1, 2048, rank, 4);
                sketch.matrix_product(1, rank, 2048, 2);
                sketch.operator("aten::add_", &[(&[2048], "c10::BFloat16")], &[("add", 2)]);
            }
            sketch.operator("aten::layer_norm", &[], &[("norm", 3)]);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn small_products_for_each_piece_are_a_cause() {
        let diagnosed = sketch_adapters(12, 16).diagnose();
        let (saved, now) = diagnosed.gain_of("operator_loop").unwrap();
        assert!((0.4..0.95).contains(&(saved / now)), "{saved} of {now} ms");
    }

    #[test]
    fn layers_and_what_is_not_picked_from_as_many_are_none() {
        for sketch in [sketch_adapters(12, 1024), sketch_adapters(64, 16)] {
            assert_eq!(sketch.diagnose().gain_of("operator_loop"), None);
        }
    }
}
