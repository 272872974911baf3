//! Python loops that launch the same few small kernels again and again: over tokens, sequences, heads.

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::{Candidate, Scene};
use crate::replay::{Api, Edit, WorkRow};

/// Operators of one iteration, at most: a layer of a model has more.
const BODY_MAX_OPERATORS: usize = 16;
const ITERATIONS_MIN: usize = 8;
/// Fewer operators in all are not worth a change.
const LOOP_MIN_OPERATORS: usize = 48;
/// Longer kernels have a tensor's worth of work of their own.
const KERNEL_MAX_NS: i64 = 8_000;

/// A loop: places among the outermost operators.
struct Loop {
    first: usize,
    body: usize,
    iterations: usize,
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let loops = loops(scene);
    let Some(longest) = loops.iter().max_by_key(|one| one.body * one.iterations) else {
        return Vec::new();
    };
    let mut edit = Edit::default();
    let mut time = 0;
    let mut iterations = 0;
    for one in &loops {
        iterations += one.iterations;
        // One iteration over whole tensors stays.
        for &top in &scene.tops[one.first + one.body..one.first + one.body * one.iterations] {
            scene.remove(&mut edit, top);
            time += scene.trace.hosts.duration[top];
        }
    }
    let launching = scene.tops[longest.first..longest.first + longest.body]
        .iter()
        .copied()
        .find(|&top| !scene.work_of(top).is_empty());
    let row = launching.unwrap_or(scene.tops[longest.first]);
    vec![Candidate {
        kind: CauseKind::OperatorLoop {
            iterations: iterations as u64 / scene.steps.max(1),
            operators: longest.body as u64,
            time_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(row),
        count: loops.len() as u64,
        edit,
        partial: None,
    }]
}

fn loops(scene: &Scene<'_>) -> Vec<Loop> {
    let names: Vec<_> = scene
        .tops
        .iter()
        .map(|&top| scene.trace.hosts.name[top])
        .collect();
    let mut found = Vec::new();
    let mut first = 0;
    while first < names.len() {
        let one = (1..=BODY_MAX_OPERATORS).find_map(|body| {
            let pairs = names[first..].iter().zip(names.get(first + body..)?);
            let alike = pairs.take_while(|(name, later)| name == later).count();
            let iterations = alike / body + 1;
            let is_long = iterations >= ITERATIONS_MIN && iterations * body >= LOOP_MIN_OPERATORS;
            is_long.then_some(Loop {
                first,
                body,
                iterations,
            })
        });
        match one {
            Some(one) => {
                first += one.body * one.iterations;
                if is_small(scene, &one) {
                    found.push(one);
                }
            }
            None => first += 1,
        }
    }
    found
}

/// Whether a loop launches kernels, all of them short, and no GEMM: layers repeat too. Copies and waits are causes of their own.
fn is_small(scene: &Scene<'_>, one: &Loop) -> bool {
    let tops = &scene.tops[one.first..one.first + one.body * one.iterations];
    let rows = tops[0]..scene.rows_in(tops[tops.len() - 1]).end;
    if scene.gemms.iter().any(|gemm| rows.contains(&gemm.row)) {
        return false;
    }
    let all = scene.graph.work();
    let mut work = tops
        .iter()
        .flat_map(|&top| &all[scene.work_of(top)])
        .peekable();
    let waits = tops.iter().flat_map(|&top| scene.rows_in(top));
    let mut waits = waits.filter_map(|row| scene.api(row));
    work.peek().is_some()
        && work.all(|work| !matches!(work.row, WorkRow::Copy(_)) && work.duration <= KERNEL_MAX_NS)
        && !waits.any(Api::waits_by_itself)
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
        let found = sketch_loop(100, 2).diagnose();
        let (saved, now) = found.gain_of("operator_loop").unwrap();
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
}
