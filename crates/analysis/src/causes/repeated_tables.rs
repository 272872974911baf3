//! Tables that depend on positions alone (rotary embedding, masks), computed again in each layer of a pass.

use crate::thresholds::{TABLE_AFTER_CHOICE_MAX_OPERATORS, TABLE_LAUNCHES_MIN, TABLE_RUNS_MIN};
use llmprof_record::trace::StrId;
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// Such a run begins with numbers that depend on nothing.
const BEGINS: &str = "aten::arange";

/// Operators whose result depends on what tokens contain…
const CHOICES: [&str; 3] = ["aten::topk", "aten::sort", "aten::argmax"];

/// A run: places among the outermost operators.
type Run = std::ops::Range<usize>;

pub(super) fn find_repeated_tables(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut edit = Edit::default();
    let (mut count, mut time) = (0, 0);
    let mut first = None;
    for runs in equal_runs(scene) {
        first.get_or_insert(runs[0].clone());
        // The first of a pass stays.
        for run in &runs[1..] {
            count += 1;
            for &top in &scene.tops[run.clone()] {
                time += scene.trace.hosts.duration[top];
                scene.remove(&mut edit, top);
            }
        }
    }
    let Some(first) = first else {
        return Vec::new();
    };
    vec![CauseCandidate {
        kind: CauseKind::RepeatedTables {
            operators: first.len() as u64,
            last: scene.name(scene.tops[first.end - 1]).to_owned(),
            time_ns: Nanos(scene.a_step(time)),
        },
        place: CausePlace::default(),
        count,
        edit,
        partial: None,
    }]
}

/// For each pass the runs of the same operators on the same shapes.
fn equal_runs(scene: &Scene<'_>) -> Vec<Vec<Run>> {
    type Key<'s> = (usize, Vec<(StrId, Vec<&'s [i64]>)>);
    let mut by_kind: FxHashMap<Key<'_>, Vec<Run>> = FxHashMap::default();
    let names = &scene.trace.hosts.name;
    let mut at = 0;
    while at < scene.tops.len() {
        if scene.name(scene.tops[at]) != BEGINS || follows_choice(scene, at) {
            at += 1;
            continue;
        }
        let end = end_of_run(scene, at);
        let row = scene.tops[at];
        let pass = scene.forwards.partition_point(|forward| forward.row <= row);
        let kind = scene.tops[at..end].iter().map(|&top| {
            let dims = scene.tensors(top).into_iter().map(|(dims, _)| dims);
            (names[top], dims.collect())
        });
        by_kind
            .entry((pass, kind.collect()))
            .or_default()
            .push(at..end);
        at = end;
    }
    let is_worth = |runs: &Vec<Run>| {
        let tops = &scene.tops[runs[0].clone()];
        let launching = tops.iter().filter(|&&top| !scene.work_of(top).is_empty());
        runs.len() >= TABLE_RUNS_MIN && launching.count() >= TABLE_LAUNCHES_MIN
    };
    let mut repeated: Vec<Vec<Run>> = by_kind.into_values().filter(is_worth).collect();
    repeated.sort_by_key(|runs| runs[0].start);
    repeated
}

/// Whether tokens have just chosen experts: what follows compares numbers of experts with what was chosen.
fn follows_choice(scene: &Scene<'_>, start: usize) -> bool {
    let mut before = scene.tops[..start]
        .iter()
        .rev()
        .take(TABLE_AFTER_CHOICE_MAX_OPERATORS);
    before.any(|&top| CHOICES.contains(&scene.name(top)))
}

/// The end of a run: the first operator with a tensor as large as the residual stream of its pass, or that begins another run.
fn end_of_run(scene: &Scene<'_>, start: usize) -> usize {
    let row = scene.tops[start];
    let pass = scene.forwards.partition_point(|forward| forward.row <= row);
    let Some(forward) = pass.checked_sub(1).map(|pass| scene.forwards[pass]) else {
        return start + 1;
    };
    let residual = forward
        .sequences
        .saturating_mul(forward.tokens)
        .saturating_mul(forward.hidden);
    let is_other = |top: usize| {
        let tensors = scene.tensors(top);
        let elements = |dims: &[i64]| dims.iter().fold(1_i64, |all, dim| all.saturating_mul(*dim));
        scene.name(top) == BEGINS || tensors.iter().any(|(dims, _)| elements(dims) >= residual)
    };
    let rest = scene.tops[start + 1..].iter();
    start + 1 + rest.take_while(|&&top| !is_other(top)).count()
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn with_tables(layers: usize) -> Sketch {
        let mut sketch = Sketch::default();
        let table: [(&[i64], &str); 1] = [(&[1, 1, 128], "float")];
        let hidden: [(&[i64], &str); 1] = [(&[8, 1, 2048], "c10::BFloat16")];
        for _ in 0..3 {
            sketch.look_up(8, 1, 32_000, 2048);
            for layer in 0..12 {
                if layer < layers {
                    for name in ["aten::arange", "aten::pow", "aten::cos", "aten::sin"] {
                        sketch.operator(name, &table, &[("table", 2)]);
                    }
                }
                sketch.operator("aten::rms_norm", &hidden, &[("norm", 3)]);
                sketch.matrix_product(8, 2048, 2048, 5);
            }
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn tables_in_each_layer_are_a_cause() {
        let (saved, now) = with_tables(12)
            .diagnose()
            .gain_of("repeated_tables")
            .unwrap();
        assert!(saved > 0.3 * now, "{saved} of {now} ms");
    }

    #[test]
    fn numbers_of_chosen_experts_are_no_tables() {
        let mut sketch = Sketch::default();
        let chosen: [(&[i64], &str); 1] = [(&[16, 1], "long int")];
        let hidden: [(&[i64], &str); 1] = [(&[8, 1, 2048], "c10::BFloat16")];
        for _ in 0..3 {
            sketch.look_up(8, 1, 32_000, 2048);
            for _ in 0..12 {
                for name in ["aten::topk", "aten::view", "aten::arange"] {
                    sketch.operator(name, &chosen, &[("choice", 2)]);
                }
                for name in ["aten::eq", "aten::cumsum", "aten::sum"] {
                    sketch.operator(name, &chosen, &[("table", 2)]);
                }
                sketch.operator("aten::rms_norm", &hidden, &[("norm", 3)]);
                sketch.matrix_product(8, 2048, 2048, 5);
            }
            sketch.synchronize();
        }
        assert_eq!(sketch.diagnose().gain_of("repeated_tables"), None);
    }

    #[test]
    fn tables_once_in_a_pass_are_none() {
        assert_eq!(with_tables(1).diagnose().gain_of("repeated_tables"), None);
    }
}
