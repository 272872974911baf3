//! Elementwise kernels that follow each other and could be one. A GELU in eight operators and a rotation in ten are two things to
//! change, so runs of the same kernels are looked at together, and those that take most time are stated.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{CopyKind, StrId};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use super::cause::{CauseKind, Place};
use super::{Candidate, Scene};
use crate::replay::{Edit, Work, WorkRow};

/// A run of fewer kernels has nothing to fuse.
const RUN_MIN_KERNELS: usize = 2;
/// Runs are alike that have this part of their kernels' names in common: the first layer lacks the sum of the one before.
const ALIKE_MIN_SHARE: f64 = 0.6;

/// Runs of the same kernels.
#[derive(Default)]
struct RunKind {
    /// Of one run, sorted.
    names: Vec<StrId>,
    operators: Vec<String>,
    kernels: u64,
    kernels_ns: i64,
    saved_ns: i64,
    edit: Edit,
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let mut kinds: Vec<RunKind> = Vec::new();
    let mut known: FxHashMap<Vec<StrId>, usize> = FxHashMap::default();
    for run in runs(scene) {
        let names = kernel_names(scene, &run);
        let kind = *known.entry(names).or_insert_with_key(|names| {
            let alike = kinds.iter().position(|kind| are_alike(&kind.names, names));
            alike.unwrap_or_else(|| {
                kinds.push(RunKind {
                    names: names.clone(),
                    operators: operators(scene, &run),
                    ..RunKind::default()
                });
                kinds.len() - 1
            })
        });
        fuse(scene, &run, &mut kinds[kind]);
    }
    let largest = kinds.into_iter().max_by_key(|kind| kind.saved_ns);
    let candidate = largest.map(|kind| Candidate {
        kind: CauseKind::UnfusedElementwise {
            kernels: kind.kernels / scene.steps.max(1),
            kernels_ns: Nanos(scene.a_step(kind.kernels_ns)),
            run_operators: kind.operators,
        },
        place: Place::default(),
        count: kind.kernels,
        edit: kind.edit,
        partial: None,
    });
    candidate.into_iter().collect()
}

/// Kernels that follow each other on a stream with none between them that cannot be fused.
fn runs(scene: &Scene<'_>) -> Vec<Vec<usize>> {
    let all = scene.graph.work();
    let mut work: Vec<usize> = scene.own_work().map(|(index, _)| index).collect();
    work.sort_by_key(|&index| (all[index].stream, all[index].start));
    let mut runs = Vec::new();
    let mut run: Vec<usize> = Vec::new();
    for index in work {
        let continues = run
            .last()
            .is_none_or(|&last| all[last].stream == all[index].stream);
        let is_fusable = is_fusable(scene, &all[index]);
        if !is_fusable || !continues {
            runs.push(std::mem::take(&mut run));
        }
        if is_fusable {
            run.push(index);
        }
    }
    runs.push(run);
    runs.retain(|run| arithmetic(scene, run).count() >= RUN_MIN_KERNELS);
    runs
}

/// Kernels of a run whose results need not be written. A concatenation writes a tensor that is read as a whole.
fn arithmetic<'a>(scene: &'a Scene<'_>, run: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let all = scene.graph.work();
    let is_arithmetic = move |index: &usize| scene.category(&all[*index]) != Category::Cat;
    run.iter().copied().filter(is_arithmetic)
}

/// One kernel reads and writes about as much as the one of the run that takes longest.
fn fuse(scene: &Scene<'_>, run: &[usize], kind: &mut RunKind) {
    let all = scene.graph.work();
    let longest = arithmetic(scene, run).max_by_key(|&index| all[index].duration);
    for index in arithmetic(scene, run) {
        kind.kernels += 1;
        kind.kernels_ns += all[index].duration;
        if Some(index) != longest {
            kind.saved_ns += all[index].duration;
            kind.edit.set_duration(index, 0);
        }
    }
}

fn kernel_names(scene: &Scene<'_>, run: &[usize]) -> Vec<StrId> {
    let kernels = arithmetic(scene, run).filter_map(|index| match scene.graph.work()[index].row {
        WorkRow::Kernel(row) => Some(scene.trace.kernels.name[row as usize]),
        _ => None,
    });
    let mut names: Vec<StrId> = kernels.collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn are_alike(a: &[StrId], b: &[StrId]) -> bool {
    let common = a
        .iter()
        .filter(|name| b.binary_search(name).is_ok())
        .count();
    common as f64 >= ALIKE_MIN_SHARE * (a.len() + b.len() - common) as f64
}

/// The operators that launch a run, each once; none inside of a graph.
fn operators(scene: &Scene<'_>, run: &[usize]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for index in arithmetic(scene, run) {
        let segment = scene.graph.work()[index].segment as usize;
        let top = scene.top_of(segment).filter(|&row| scene.is_operator(row));
        if let Some(name) = top.map(|row| scene.name(row).to_owned())
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

fn is_fusable(scene: &Scene<'_>, work: &Work) -> bool {
    // Copies from and to the host are no kernels.
    if let WorkRow::Copy(row) = work.row
        && scene.trace.copies.kind[row as usize] != CopyKind::DEVICE_TO_DEVICE
    {
        return false;
    }
    matches!(
        scene.category(work),
        Category::Elementwise
            | Category::Norm
            | Category::Copy
            | Category::Cat
            | Category::Rope
            | Category::Reduce
            | Category::Softmax
    )
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::CopyKind;

    use crate::causes::CauseKind;
    use crate::causes::sketch::Sketch;

    const MUL: &str = "void at::native::elementwise_kernel<128, 4, mul>";
    const ADD: &str = "void at::native::elementwise_kernel<128, 4, add>";
    const TANH: &str = "void at::native::vectorized_elementwise_kernel<8, tanh>";
    const NEG: &str = "void at::native::vectorized_elementwise_kernel<8, neg>";
    const CAT: &str = "void at::native::CatArrayBatchedCopy<c10::BFloat16>";

    /// Layers with a GEMM before each of these runs.
    fn sketch_runs(runs: &[&[(&str, &str)]]) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..8 {
            for run in runs {
                sketch.matrix_product(4096, 2048, 2048, 80);
                for &(operator, kernel) in *run {
                    sketch.operator(operator, &[], &[(kernel, 30)]);
                }
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn copies_from_the_host_are_no_kernels() {
        let mut sketch = Sketch::default();
        for _ in 0..8 {
            sketch.copy_in("aten::copy_", CopyKind::HOST_TO_DEVICE, 64 << 20, 900);
        }
        sketch.matrix_product(512, 2048, 2048, 50);
        sketch.synchronize();
        assert_eq!(sketch.diagnose().gain_of("unfused_elementwise"), None);
    }

    #[test]
    fn elementwise_kernels_in_a_row_can_be_one() {
        let (saved, now) = sketch_runs(&[&[("aten::mul", MUL); 5]])
            .diagnose()
            .gain_of("unfused_elementwise")
            .unwrap();
        assert!((0.9..1.0).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn single_kernels_cannot() {
        let found = sketch_runs(&[&[("aten::mul", MUL)]]).diagnose();
        assert_eq!(found.gain_of("unfused_elementwise"), None);
    }

    #[test]
    fn a_concatenation_is_still_written() {
        let found = sketch_runs(&[&[("aten::mul", MUL), ("aten::cat", CAT)]]).diagnose();
        assert_eq!(found.gain_of("unfused_elementwise"), None);
    }

    #[test]
    fn runs_of_the_kernels_that_take_most_time_are_stated() {
        let gelu: &[(&str, &str)] = &[
            ("aten::mul", MUL),
            ("aten::tanh", TANH),
            ("aten::mul", MUL),
            ("aten::tanh", TANH),
            ("aten::mul", MUL),
        ];
        let rotation: &[(&str, &str)] = &[
            ("aten::neg", NEG),
            ("aten::add", ADD),
            ("aten::neg", NEG),
            ("aten::add", ADD),
        ];
        for runs in [[gelu, rotation], [rotation, gelu]] {
            let found = sketch_runs(&runs).diagnose();
            let cause = found.cause("unfused_elementwise").unwrap();
            let CauseKind::UnfusedElementwise { run_operators, .. } = &cause.kind else {
                panic!("{:?}", cause.kind);
            };
            assert_eq!(run_operators, &["aten::mul", "aten::tanh"]);
            let (saved, now) = found.gain_of("unfused_elementwise").unwrap();
            assert!((0.9..1.0).contains(&saved), "{saved} of {now} ms");
        }
    }
}
