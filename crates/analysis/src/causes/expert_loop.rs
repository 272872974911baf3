//! Experts that a loop of the host computes one after another.

use crate::thresholds::{EXPERT_GEMMS_MAX, EXPERT_OPERATORS_MAX, LOOP_EXPERTS_MIN};
use std::ops::Range;

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::model_work::Gemm;
use super::sync::SELECTS;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// Iterations that stay: grouped GEMMs for all experts take the operators of one, and sorting tokens by expert those of two more.
const KEPT_ITERATIONS: usize = 3;

/// One expert: places among the outermost operators.
struct LoopExpert {
    tops: Range<usize>,
    /// Columns and depth of its GEMMs, which all experts of a layer have in common.
    weights: Vec<(i64, i64)>,
}

pub(super) fn find_expert_loops(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let layers = expert_layers(scene);
    let Some(first) = layers.first() else {
        return Vec::new();
    };
    let mut edit = Edit::default();
    let (mut experts, mut time) = (0, 0);
    for layer in &layers {
        experts += layer.len() as u64;
        for (number, expert) in layer.iter().enumerate() {
            for &top in &scene.tops[expert.tops.clone()] {
                time += scene.trace.hosts.duration[top];
                if number < KEPT_ITERATIONS {
                    for segment in scene.graph.segments_of_row(top) {
                        edit.drop_wait(segment);
                    }
                } else {
                    remove_iteration(scene, &mut edit, top);
                }
            }
        }
    }
    vec![CauseCandidate {
        kind: CauseKind::ExpertLoop {
            experts: experts / layers.len() as u64,
            time_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(scene.tops[first[0].tops.start]),
        count: layers.len() as u64,
        edit,
        partial: None,
    }]
}

/// Removes an operator; GEMMs keep their device time, which goes for reading the weights of each expert.
fn remove_iteration(scene: &Scene<'_>, edit: &mut Edit, top: usize) {
    let rows = scene.rows_in(top);
    if !scene.gemms.iter().any(|gemm| rows.contains(&gemm.row)) {
        scene.remove(edit, top);
        return;
    }
    scene.remove_host(edit, top);
    let next = scene.graph.segments_of_row(top).end;
    if next < scene.graph.segment_count() && scene.is_code(next) {
        edit.limit_segment(next, 0);
    }
}

/// Places of the operators that begin an expert by selecting its tokens. Where the host knows them already, those that add its
/// results at its end.
fn expert_starts(scene: &Scene<'_>) -> Vec<usize> {
    let places = |holds: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let tops = scene.tops.iter().enumerate();
        tops.filter(|(_, top)| scene.rows_in(**top).any(|row| holds(scene.name(row))))
            .map(|(place, _)| place)
            .collect()
    };
    let selecting = places(&|name| SELECTS.contains(&name));
    if selecting.len() >= LOOP_EXPERTS_MIN {
        selecting
    } else {
        places(&|name| name == "aten::index_add_")
    }
}

fn expert_layers(scene: &Scene<'_>) -> Vec<Vec<LoopExpert>> {
    let anchors = expert_starts(scene);
    let mut layers: Vec<Vec<LoopExpert>> = vec![Vec::new()];
    for pair in anchors.windows(2) {
        let expert = expert_in(scene, pair[0]..pair[1]);
        let layer = layers.last_mut();
        match (expert, layer) {
            (Some(expert), Some(layer))
                if layer
                    .last()
                    .is_none_or(|last| last.weights == expert.weights) =>
            {
                layer.push(expert);
            }
            (expert, _) => layers.push(expert.into_iter().collect()),
        }
    }
    layers.retain(|layer| layer.len() >= LOOP_EXPERTS_MIN);
    layers
}

/// The expert that a range of operators computes; `None` if the range is more or less than one expert.
fn expert_in(scene: &Scene<'_>, tops: Range<usize>) -> Option<LoopExpert> {
    if tops.len() > EXPERT_OPERATORS_MAX {
        return None;
    }
    let rows = scene.tops[tops.start]..scene.rows_in(scene.tops[tops.end - 1]).end;
    let from = scene.gemms.partition_point(|gemm| gemm.row < rows.start);
    let inside = scene.gemms[from..]
        .iter()
        .take_while(|gemm| gemm.row < rows.end);
    let gemms: Vec<&Gemm> = inside.collect();
    let attends = rows
        .clone()
        .any(|row| scene.name(row).contains("attention") || scene.name(row).ends_with("softmax"));
    let is_one = (1..=EXPERT_GEMMS_MAX).contains(&gemms.len()) && !attends;
    is_one.then(|| LoopExpert {
        tops,
        weights: gemms.iter().map(|gemm| (gemm.n, gemm.k)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn expert(sketch: &mut Sketch, tokens: i64) {
        sketch.nested("aten::where", "aten::nonzero", &[], &[("select_kernel", 2)]);
        sketch.operator("aten::index", &[], &[("gather_kernel", 2)]);
        sketch.matrix_product(tokens, 1024, 2048, 4);
        sketch.operator("aten::silu", &[], &[("elementwise", 2)]);
        sketch.matrix_product(tokens, 1024, 1024, 4);
        sketch.operator("aten::index_add_", &[], &[("index_kernel", 2)]);
    }

    fn sketch_layers(experts: usize) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            for _ in 0..4 {
                sketch.matrix_product(8, 1024, 1024, 4);
            }
            sketch.operator("aten::softmax", &[(&[8, 64], "float")], &[("softmax", 2)]);
            for number in 0..experts {
                expert(&mut sketch, 1 + number as i64 % 3);
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn a_loop_over_experts_is_a_cause() {
        let diagnosed = sketch_layers(8).diagnose();
        let (saved, now) = diagnosed.gain_of("expert_loop").unwrap();
        assert!((0.4..0.75).contains(&(saved / now)), "{saved} of {now} ms");
    }

    #[test]
    fn one_selection_in_each_layer_is_none() {
        let diagnosed = sketch_layers(1).diagnose();
        assert_eq!(diagnosed.gain_of("expert_loop"), None);
    }
}
