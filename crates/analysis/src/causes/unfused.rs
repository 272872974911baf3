//! Elementwise kernels of PyTorch that follow each other and could be one, with the casts and sums between them: an RMS norm in operators. A GELU in eight operators and a rotation in ten are two
//! things to change, so runs of the same kernels are looked at together, and those that take most time are stated. Kernels of other
//! libraries are not counted: what they compute is not known, and no compiler of PyTorch fuses into them.

use crate::thresholds::{FUSED_RUN_MIN_KERNELS, FUSED_RUNS_ALIKE_MIN_SHARE};
use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{CopyKind, StrId};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceRow, DeviceWork, Edit};

/// Runs of the same kernels.
#[derive(Default)]
struct RunKind {
    /// Kernel names of one run, sorted.
    names: Vec<StrId>,
    operators: Vec<String>,
    kernels: u64,
    others: u64,
    kernels_ns: i64,
    saved_ns: i64,
    edit: Edit,
}

pub(super) fn find_unfused_elementwise(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut kinds: Vec<RunKind> = Vec::new();
    let mut known: FxHashMap<Vec<StrId>, usize> = FxHashMap::default();
    for run in fusable_runs(scene) {
        let names = kernel_names(scene, &run);
        let kind = *known.entry(names).or_insert_with_key(|names| {
            let alike = kinds.iter().position(|kind| are_alike(&kind.names, names));
            alike.unwrap_or_else(|| {
                kinds.push(RunKind {
                    names: names.clone(),
                    operators: launching_operators(scene, &run),
                    ..RunKind::default()
                });
                kinds.len() - 1
            })
        });
        fuse_run(scene, &run, &mut kinds[kind]);
    }
    let largest = kinds.into_iter().max_by_key(|kind| kind.saved_ns);
    let candidate = largest.map(|kind| CauseCandidate {
        kind: CauseKind::UnfusedElementwise {
            kernels: kind.kernels / scene.steps.max(1),
            others: kind.others / scene.steps.max(1),
            kernels_ns: Nanos(scene.a_step(kind.kernels_ns)),
            run_operators: kind.operators,
        },
        place: CausePlace::default(),
        count: kind.kernels + kind.others,
        edit: kind.edit,
        partial: None,
    });
    candidate.into_iter().collect()
}

/// Kernels that follow each other on a stream with none between them that ends a run.
fn fusable_runs(scene: &Scene<'_>) -> Vec<Vec<usize>> {
    let all = scene.graph.work();
    let mut work: Vec<usize> = scene.own_work().map(|(index, _)| index).collect();
    work.sort_by_key(|&index| (all[index].stream, all[index].start));
    let mut runs = Vec::new();
    let mut run: Vec<usize> = Vec::new();
    for index in work {
        let continues = run
            .last()
            .is_none_or(|&last| all[last].stream == all[index].stream);
        let part = part_in_run(scene, &all[index]);
        if part == PartInRun::Ends || !continues {
            runs.push(std::mem::take(&mut run));
        }
        if matches!(part, PartInRun::Elementwise | PartInRun::Other) {
            run.push(index);
        }
    }
    runs.push(run);
    let is_elementwise =
        |index: &&usize| part_in_run(scene, &all[**index]) == PartInRun::Elementwise;
    runs.retain(|run| run.iter().filter(is_elementwise).count() >= FUSED_RUN_MIN_KERNELS);
    runs
}

/// One kernel reads and writes about as much as the one of the run that takes longest.
fn fuse_run(scene: &Scene<'_>, run: &[usize], kind: &mut RunKind) {
    let all = scene.graph.work();
    let longest = run.iter().max_by_key(|&&index| all[index].duration);
    for &index in run {
        if part_in_run(scene, &all[index]) == PartInRun::Elementwise {
            kind.kernels += 1;
        } else {
            kind.others += 1;
        }
        kind.kernels_ns += all[index].duration;
        if Some(&index) != longest {
            kind.saved_ns += all[index].duration;
            kind.edit.set_duration(index, 0);
        }
    }
}

fn kernel_names(scene: &Scene<'_>, run: &[usize]) -> Vec<StrId> {
    let kernels = run
        .iter()
        .filter_map(|&index| match scene.graph.work()[index].row {
            DeviceRow::Kernel(row) => Some(scene.trace.kernels.name[row as usize]),
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
    common as f64 >= FUSED_RUNS_ALIKE_MIN_SHARE * (a.len() + b.len() - common) as f64
}

/// The operators that launch a run, each once; none inside of a graph.
fn launching_operators(scene: &Scene<'_>, run: &[usize]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for &index in run {
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

/// What a kernel is to the run of elementwise kernels that it follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PartInRun {
    /// An elementwise kernel of PyTorch.
    Elementwise,
    /// A cast, copy or sum of PyTorch, which a fused kernel computes on its way.
    Other,
    /// A copy that is no kernel.
    LiesBetween,
    /// Anything else: a run is one kernel only up to here.
    Ends,
}

fn part_in_run(scene: &Scene<'_>, work: &DeviceWork) -> PartInRun {
    match (scene.category(work), work.row) {
        (_, DeviceRow::Kernel(_)) if !is_of_pytorch(scene, work) => PartInRun::Ends,
        (Category::Elementwise, _) => PartInRun::Elementwise,
        (Category::Copy | Category::Reduce, DeviceRow::Kernel(_)) => PartInRun::Other,
        (_, DeviceRow::Copy(row))
            if scene.trace.copies.kind[row as usize] == CopyKind::DEVICE_TO_DEVICE =>
        {
            PartInRun::LiesBetween
        }
        _ => PartInRun::Ends,
    }
}

/// Whether a PyTorch op launched a kernel, or, as inside of a CUDA graph, its name is one of PyTorch's.
fn is_of_pytorch(scene: &Scene<'_>, work: &DeviceWork) -> bool {
    scene.work_name(work).contains("at::native::")
        || scene
            .top_of(work.segment as usize)
            .is_some_and(|top| scene.name(top).starts_with("aten::"))
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
        let diagnosed = sketch_runs(&[&[("aten::mul", MUL)]]).diagnose();
        assert_eq!(diagnosed.gain_of("unfused_elementwise"), None);
    }

    /// Neither a kernel that no op launched and PyTorch does not name, nor a sum after a product, nor copies before a norm.
    #[test]
    fn other_kernels_are_not_elementwise_runs() {
        const FOREIGN: &str = "fill_background_kernel";
        const SUM: &str = "void at::native::reduce_kernel<512, 1, sum>";
        const COPY: &str = "void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>";
        const NORM: &str = "void aiter::add_rmsnorm_quant_kernel<64>";
        for run in [
            &[("video::fill", FOREIGN); 5][..],
            &[("aten::sigmoid", MUL), ("aten::argmax", SUM)],
            &[
                ("aten::copy_", COPY),
                ("aiter::rmsnorm", NORM),
                ("aten::copy_", COPY),
                ("aiter::rmsnorm", NORM),
            ],
        ] {
            let found = sketch_runs(&[run]).diagnose();
            assert_eq!(found.gain_of("unfused_elementwise"), None, "{run:?}");
        }
    }

    #[test]
    fn a_concatenation_is_still_written() {
        let diagnosed = sketch_runs(&[&[("aten::mul", MUL), ("aten::cat", CAT)]]).diagnose();
        assert_eq!(diagnosed.gain_of("unfused_elementwise"), None);
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
            let diagnosed = sketch_runs(&runs).diagnose();
            let cause = diagnosed.cause("unfused_elementwise").unwrap();
            let CauseKind::UnfusedElementwise { run_operators, .. } = &cause.kind else {
                panic!("{:?}", cause.kind);
            };
            assert_eq!(run_operators, &["aten::mul", "aten::tanh"]);
            let (saved, now) = diagnosed.gain_of("unfused_elementwise").unwrap();
            assert!((0.9..1.0).contains(&saved), "{saved} of {now} ms");
        }
    }
}
