//! Nodes of launched graphs that move far more than a decode step's activations: weights, or the KV cache.

use llmprof_record::kernel_name::Category;
use llmprof_record::run::RunPhase;
use llmprof_record::trace::CopyKind;
use llmprof_units::{Nanos, stats::upper_median};

use super::cause::{CauseKind, Place};
use super::kernel_elements::kernel_elements;
use super::scene::shape_text;
use super::{Candidate, Scene};
use crate::replay::{Edit, Work, WorkRow};

/// Tensors this many times larger than the largest activation of a step are not activations.
const NOT_ACTIVATION_RATIO: i64 = 4;

#[derive(Default)]
struct Group {
    edit: Edit,
    count: u64,
    device_ns: i64,
    longest: Option<(i64, usize, String)>,
}

impl Group {
    fn add(&mut self, index: usize, work: &Work, shape: String) {
        self.edit.drop_work(index);
        self.count += 1;
        self.device_ns += work.duration;
        let is_longer = |(most, ..): &(i64, usize, String)| work.duration > *most;
        if self.longest.as_ref().is_none_or(is_longer) {
            self.longest = Some((work.duration, index, shape));
        }
    }
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let shapes = &scene.shapes;
    if scene.phase != RunPhase::Decode || shapes.hidden == 0 {
        return Vec::new();
    }
    let activation = largest_activation(scene);
    let (mut weights, mut caches) = (Group::default(), Group::default());
    for (index, work) in scene.own_work() {
        let moves = matches!(
            scene.category(work),
            Category::Copy | Category::Cat | Category::Elementwise
        );
        let Some((elements, block)) =
            elements(scene, work).filter(|_| is_node(scene, work) && moves)
        else {
            continue;
        };
        if elements <= NOT_ACTIVATION_RATIO * activation {
            continue;
        }
        match shapes.weight_of(elements, block) {
            Some(shape) => weights.add(index, work, shape_text(&shape)),
            None => caches.add(
                index,
                work,
                format!("{:.1} M elements", elements as f64 / 1e6),
            ),
        }
    }
    let (weight_ns, cache_ns) = (weights.device_ns, caches.device_ns);
    let of_weights = candidate(weights, |_, shape| CauseKind::WeightCasts {
        from: String::new(),
        to: String::new(),
        shape,
        kernels_ns: Nanos(scene.a_step(weight_ns)),
    });
    let of_caches = candidate(caches, |index, shape| CauseKind::KvCopies {
        operator: kernel_name(scene.work_name(&scene.graph.work()[index])),
        shape,
        kernels_ns: Nanos(scene.a_step(cache_ns)),
    });
    of_weights.into_iter().chain(of_caches).collect()
}

fn is_node(scene: &Scene<'_>, work: &Work) -> bool {
    let segment = work.segment as usize;
    scene.graph.launched_by(segment..segment + 1).len() > 1
}

/// Elements of the widest activation of a step: a row for each sequence of the prompt, or as many as the usual node works on. A step
/// may have more sequences than a prompt pass.
fn largest_activation(scene: &Scene<'_>) -> i64 {
    let nodes = scene.own_work().filter(|(_, work)| is_node(scene, work));
    let mut sizes: Vec<i64> = nodes
        .filter_map(|(_, work)| Some(elements(scene, work)?.0))
        .collect();
    let usual = upper_median(&mut sizes).unwrap_or(0);
    let shapes = &scene.shapes;
    let rows = (usual / shapes.hidden).max(shapes.sequences);
    rows.saturating_mul(shapes.widest)
}

fn candidate(group: Group, kind: impl Fn(usize, String) -> CauseKind) -> Option<Candidate> {
    let (_, index, shape) = group.longest?;
    Some(Candidate {
        kind: kind(index, shape),
        place: Place::default(),
        count: group.count,
        edit: group.edit,
        partial: None,
    })
}

/// Elements that a node moves, and how exact that is. Copies state bytes; the models in question have 16-bit elements.
fn elements(scene: &Scene<'_>, work: &Work) -> Option<(i64, i64)> {
    match work.row {
        WorkRow::Kernel(row) => {
            let kernels = &scene.trace.kernels;
            let (grid, block) = (kernels.grid[row as usize], kernels.block[row as usize]);
            kernel_elements(scene.work_name(work), grid, block)
        }
        WorkRow::Copy(row) => {
            let copies = &scene.trace.copies;
            let is_inside = copies.kind[row as usize] == CopyKind::DEVICE_TO_DEVICE;
            is_inside.then(|| (copies.bytes[row as usize] as i64 / 2, 1))
        }
        WorkRow::Memset(_) => None,
    }
}

/// `direct_copy_kernel_cuda` of an elementwise kernel, else the name without its template arguments.
fn kernel_name(name: &str) -> String {
    let inner = name
        .rfind("at::native::")
        .map_or(name, |at| &name[at + "at::native::".len()..]);
    let end = inner.find(['<', '(', ',']).unwrap_or(inner.len());
    inner[..end].trim_start_matches("void ").to_owned()
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    const COPY: &str =
        "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda";

    /// A prompt of 8 sequences whose widest GEMM has 32,000 columns, and graphs with a copy in `blocks` blocks of 512 elements beside
    /// others of `rows` rows of 2,048.
    fn sketch_graph(blocks: u32, rows: u32) -> Sketch {
        let mut sketch = Sketch::with_prompt(8, 512, 2048, 32_000);
        for _ in 0..4 {
            sketch.grid = blocks;
            sketch.launch_graph(&[("nvjet_gemm", 60), (COPY, 100), ("nvjet_gemm", 60)]);
            sketch.grid = 4 * rows;
            sketch.launch_graph(&[(COPY, 2), (COPY, 2), (COPY, 2)]);
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn copies_as_large_as_a_weight_are_of_weights() {
        let found = sketch_graph(2048 * 32_000 / 512, 8).diagnose();
        let (saved, now) = found.gain_of("weight_casts").unwrap();
        assert!((0.39..0.42).contains(&saved), "{saved} of {now} ms");
        assert_eq!(found.gain_of("kv_copies"), None);
    }

    /// Sixteen matrices of 2,048 × 2,048, 1,024 elements in a block.
    #[test]
    fn experts_stacked_in_every_step_are_weights() {
        const CAT: &str =
            "void CatArrayBatchedCopy_vectorized<OpaqueType<2u>, unsigned int, 4, 128, 1, 16, 8>";
        let mut sketch = Sketch::with_prompt(8, 512, 2048, 32_000);
        let factors: [(&[i64], &str); 2] = [
            (&[16, 8, 2048], "c10::BFloat16"),
            (&[16, 2048, 2048], "c10::BFloat16"),
        ];
        sketch.operator("aten::bmm", &factors, &[("nvjet_gemm", 60)]);
        for _ in 0..4 {
            sketch.grid = 16 * 2048 * 2048 / 1024;
            sketch.launch_graph(&[("nvjet_gemm", 60), (CAT, 100), ("nvjet_gemm", 60)]);
            sketch.grid = 32;
            sketch.launch_graph(&[(COPY, 2), (COPY, 2), (COPY, 2)]);
            sketch.synchronize();
        }
        let found = sketch.diagnose();
        let (saved, now) = found.gain_of("weight_casts").unwrap();
        assert!((0.39..0.42).contains(&saved), "{saved} of {now} ms");
        assert_eq!(found.gain_of("kv_copies"), None);
    }

    #[test]
    fn other_copies_larger_than_activations_are_of_the_cache() {
        let found = sketch_graph(100_000, 8).diagnose();
        assert!(found.gain_of("kv_copies").is_some());
        assert_eq!(found.gain_of("weight_casts"), None);
    }

    #[test]
    fn copies_of_logits_are_neither() {
        let found = sketch_graph(8 * 32_000 / 512, 8).diagnose();
        assert_eq!(
            found.gain_of("kv_copies").or(found.gain_of("weight_casts")),
            None
        );
    }

    /// Prompts come one by one; a step has all sequences.
    #[test]
    fn steps_may_have_more_sequences_than_a_prompt() {
        let found = sketch_graph(128 * 32_000 / 512, 128).diagnose();
        assert_eq!(
            found.gain_of("kv_copies").or(found.gain_of("weight_casts")),
            None
        );
    }
}
