//! Elementwise kernels that follow each other and could be one.

use llmprof_record::kernel_name::Category;
use llmprof_units::Nanos;

use super::cause::{CauseKind, Place};
use super::{Candidate, Scene};
use crate::replay::Edit;

/// A run of fewer kernels has nothing to fuse.
const RUN_MIN_KERNELS: usize = 2;

/// What is left of the other kernels of a run when it is fused: their own inputs and results (norms of a hand-written decoder,
/// H200: 0.3).
const OTHER_INPUTS_SHARE: f64 = 0.3;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let mut work: Vec<usize> = scene.own_work().map(|(index, _)| index).collect();
    let all = scene.graph.work();
    work.sort_by_key(|&index| (all[index].stream, all[index].start));
    let mut edit = Edit::default();
    let (mut kernels, mut time) = (0, 0);
    let mut run: Vec<usize> = Vec::new();
    let mut close = |run: &mut Vec<usize>| {
        if run.len() >= RUN_MIN_KERNELS {
            // One kernel takes about as long as the longest, and reads the other inputs too.
            let longest = run.iter().copied().max_by_key(|&index| all[index].duration);
            for &index in run.iter() {
                kernels += 1;
                time += all[index].duration;
                if Some(index) != longest {
                    let rest = (all[index].duration as f64 * OTHER_INPUTS_SHARE) as i64;
                    edit.set_duration(index, rest);
                }
            }
        }
        run.clear();
    };
    let mut stream = None;
    for index in work {
        if stream != Some(all[index].stream) || !is_fusable(scene.category(&all[index])) {
            close(&mut run);
            stream = Some(all[index].stream);
        }
        if is_fusable(scene.category(&all[index])) {
            run.push(index);
        }
    }
    close(&mut run);
    if kernels == 0 {
        return Vec::new();
    }
    vec![Candidate {
        kind: CauseKind::UnfusedElementwise {
            kernels: kernels / scene.steps.max(1),
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: Place::default(),
        count: kernels,
        edit,
        partial: None,
    }]
}

fn is_fusable(category: Category) -> bool {
    matches!(
        category,
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
    use crate::causes::sketch::Sketch;

    fn sketch_runs(kernels: usize) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..8 {
            sketch.matrix_product(4096, 2048, 2048, 80);
            for _ in 0..kernels {
                let name = "void at::native::elementwise_kernel<128, 4>";
                sketch.operator("aten::mul", &[], &[(name, 30)]);
            }
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn elementwise_kernels_in_a_row_can_be_one() {
        let (saved, now) = sketch_runs(5)
            .diagnose()
            .gain_of("unfused_elementwise")
            .unwrap();
        assert!((0.6..0.75).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn single_kernels_cannot() {
        assert_eq!(
            sketch_runs(1).diagnose().gain_of("unfused_elementwise"),
            None
        );
    }
}
