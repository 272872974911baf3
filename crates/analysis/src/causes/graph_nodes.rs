//! Nodes of launched graphs that move far more than a decode step's activations: weights, or the KV cache.

use crate::thresholds::{
    BANDWIDTH_BOUND_MIN_NS, COPY_BANDWIDTH_MIN_SHARE, NOT_ACTIVATION_MIN_RATIO,
};
use llmprof_record::kernel_name::Category;
use llmprof_record::run::RunPhase;
use llmprof_record::trace::CopyKind;
use llmprof_units::{Nanos, stats::upper_median};

use super::cause::{CauseKind, CausePlace};
use super::kernel_elements::{gathered_row, kernel_elements};
use super::scene::shape_text;
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceRow, DeviceWork, Edit};

#[derive(Default)]
struct NodeGroup {
    edit: Edit,
    works: Vec<usize>,
    count: u64,
    device_ns: i64,
    longest: Option<(i64, usize, String)>,
}

impl NodeGroup {
    fn add_node(&mut self, index: usize, work: &DeviceWork, shape: String) {
        self.edit.drop_work(index);
        self.works.push(index);
        self.count += 1;
        self.device_ns += work.duration;
        let is_longer = |(most, ..): &(i64, usize, String)| work.duration > *most;
        if self.longest.as_ref().is_none_or(is_longer) {
            self.longest = Some((work.duration, index, shape));
        }
    }
}

pub(super) fn find_copies_in_graphs(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let shapes = &scene.shapes;
    if scene.phase != RunPhase::Decode || shapes.hidden == 0 {
        return Vec::new();
    }
    let least = NOT_ACTIVATION_MIN_RATIO * largest_activation(scene);
    let (mut weights, mut gathered, mut caches) = (
        NodeGroup::default(),
        NodeGroup::default(),
        NodeGroup::default(),
    );
    let mut unsized_nodes = Vec::new();
    let in_millions = |elements: i64| format!("{:.1} M elements", elements as f64 / 1e6);
    for (index, work) in scene.own_work() {
        let moves = matches!(
            scene.category(work),
            Category::Copy | Category::Cat | Category::Elementwise | Category::Index
        );
        if !moves || !is_node(scene, work) {
            continue;
        }
        let size = node_elements(scene, work).filter(|_| !is_float_arithmetic(scene, work));
        let Some((elements, block)) = size else {
            if moved_by_time(scene, work).is_some_and(|elements| elements > least) {
                unsized_nodes.push(index);
            }
            continue;
        };
        if elements <= least {
            continue;
        }
        let row = read_kernel(scene, work, gathered_row);
        if let Some(shape) = row.and_then(|(row, block)| shapes.matrix_with_elements(row, block)) {
            gathered.add_node(index, work, shape_text(&shape));
        } else if let Some(shape) = shapes.weight_with_elements(elements, block) {
            weights.add_node(index, work, shape_text(&shape));
        } else if scene.category(work) != Category::Elementwise {
            // What computes on a state is no copy of it.
            caches.add_node(index, work, in_millions(elements));
        }
    }
    // A kernel whose size does not tell its tensor works on what the kernels around it do.
    let on_weights = std::mem::take(&mut weights.works);
    for index in unsized_nodes {
        let work = &scene.graph.work()[index];
        let is_beside = [index.wrapping_sub(1), index + 1]
            .iter()
            .any(|other| on_weights.binary_search(other).is_ok());
        if let Some((_, _, shape)) = weights.longest.clone().filter(|_| is_beside) {
            weights.add_node(index, work, shape);
        } else if scene.category(work) != Category::Elementwise
            && let Some(elements) = moved_by_time(scene, work)
        {
            caches.add_node(index, work, in_millions(elements));
        }
    }
    let (weight_ns, cache_ns, gathered_ns) =
        (weights.device_ns, caches.device_ns, gathered.device_ns);
    let of_weights = make_candidate(weights, |_, shape| CauseKind::WeightCasts {
        from: String::new(),
        to: String::new(),
        shape,
        kernels_ns: Nanos(scene.a_step(weight_ns)),
    });
    let of_experts = make_candidate(gathered, |_, shape| CauseKind::GatheredWeights {
        shape,
        kernels_ns: Nanos(scene.a_step(gathered_ns)),
    });
    let of_caches = make_candidate(caches, |index, shape| CauseKind::KvCopies {
        operator: kernel_name(scene.work_name(&scene.graph.work()[index])),
        shape,
        kernels_ns: Nanos(scene.a_step(cache_ns)),
    });
    let all = of_weights.into_iter().chain(of_experts);
    all.chain(of_caches).collect()
}

/// 16-bit elements that a kernel of unknown size moves at least, if it takes long enough to be limited by bandwidth.
fn moved_by_time(scene: &Scene<'_>, work: &DeviceWork) -> Option<i64> {
    let is_long = work.duration >= BANDWIDTH_BOUND_MIN_NS;
    let bandwidth = scene.device.filter(|_| is_long)?.memory_bandwidth().0;
    let bytes = work.duration as f64 / 1e9 * bandwidth * COPY_BANDWIDTH_MIN_SHARE;
    // Each element is read and written.
    Some((bytes / 4.0) as i64)
}

/// States of recurrent layers may have as many elements as a weight, and arithmetic on them stays in FP32. Weights that are computed in
/// FP32 are copied from or to the format of their products.
fn is_float_arithmetic(scene: &Scene<'_>, work: &DeviceWork) -> bool {
    let name = scene.work_name(work);
    let is_float = name.contains("<float") && !name.contains("c10::");
    is_float && scene.category(work) == Category::Elementwise
}

fn is_node(scene: &Scene<'_>, work: &DeviceWork) -> bool {
    let segment = work.segment as usize;
    scene.graph.launched_by(segment..segment + 1).len() > 1
}

/// Elements of the widest activation of a step: a row for each sequence of the prompt, or as many as the usual node works on. A step
/// may have more sequences than a prompt pass.
fn largest_activation(scene: &Scene<'_>) -> i64 {
    let nodes = scene.own_work().filter(|(_, work)| is_node(scene, work));
    let shapes = &scene.shapes;
    let sizes = nodes.filter_map(|(_, work)| node_elements(scene, work));
    let of_activations =
        sizes.filter(|&(size, block)| shapes.weight_with_elements(size, block).is_none());
    let mut sizes: Vec<i64> = of_activations.map(|(size, _)| size).collect();
    let usual = upper_median(&mut sizes).unwrap_or(0);
    let rows = (usual / shapes.hidden).max(shapes.sequences);
    rows.saturating_mul(shapes.widest)
}

fn make_candidate(
    group: NodeGroup,
    kind: impl Fn(usize, String) -> CauseKind,
) -> Option<CauseCandidate> {
    let (_, index, shape) = group.longest?;
    Some(CauseCandidate {
        kind: kind(index, shape),
        place: CausePlace::default(),
        count: group.count,
        edit: group.edit,
        partial: None,
    })
}

/// Elements that a node moves, and how exact that is. Copies state bytes; the models in question have 16-bit elements.
pub(super) fn node_elements(scene: &Scene<'_>, work: &DeviceWork) -> Option<(i64, i64)> {
    match work.row {
        DeviceRow::Kernel(_) => read_kernel(scene, work, kernel_elements),
        DeviceRow::Copy(row) => {
            let copies = &scene.trace.copies;
            let is_inside = copies.kind[row as usize] == CopyKind::DEVICE_TO_DEVICE;
            is_inside.then(|| (copies.bytes[row as usize] as i64 / 2, 1))
        }
        DeviceRow::Memset(_) => None,
    }
}

/// Reads a size from the name, the grid and the block of a kernel; `None` for copies and fills.
fn read_kernel<T>(
    scene: &Scene<'_>,
    work: &DeviceWork,
    read: impl Fn(&str, [u32; 3], [u32; 3]) -> Option<T>,
) -> Option<T> {
    let DeviceRow::Kernel(row) = work.row else {
        return None;
    };
    let kernels = &scene.trace.kernels;
    let (grid, block) = (kernels.grid[row as usize], kernels.block[row as usize]);
    read(scene.work_name(work), grid, block)
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
            sketch.grid = [blocks, 1, 1];
            sketch.launch_graph(&[("nvjet_gemm", 60), (COPY, 100), ("nvjet_gemm", 60)]);
            sketch.grid = [4 * rows, 1, 1];
            sketch.launch_graph(&[(COPY, 2), (COPY, 2), (COPY, 2)]);
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn copies_as_large_as_a_weight_are_of_weights() {
        let diagnosed = sketch_graph(2048 * 32_000 / 512, 8).diagnose();
        let (saved, now) = diagnosed.gain_of("weight_casts").unwrap();
        assert!((0.39..0.42).contains(&saved), "{saved} of {now} ms");
        assert_eq!(diagnosed.gain_of("kv_copies"), None);
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
            sketch.grid = [16 * 2048 * 2048 / 1024, 1, 1];
            sketch.launch_graph(&[("nvjet_gemm", 60), (CAT, 100), ("nvjet_gemm", 60)]);
            sketch.grid = [32, 1, 1];
            sketch.launch_graph(&[(COPY, 2), (COPY, 2), (COPY, 2)]);
            sketch.synchronize();
        }
        let diagnosed = sketch.diagnose();
        let (saved, now) = diagnosed.gain_of("weight_casts").unwrap();
        assert!((0.39..0.42).contains(&saved), "{saved} of {now} ms");
        assert_eq!(diagnosed.gain_of("kv_copies"), None);
    }

    #[test]
    fn other_copies_larger_than_activations_are_of_the_cache() {
        let diagnosed = sketch_graph(100_000, 8).diagnose();
        assert!(diagnosed.gain_of("kv_copies").is_some());
        assert_eq!(diagnosed.gain_of("weight_casts"), None);
    }

    /// Graphs with a kernel in `blocks` between two GEMMs, and others of small kernels.
    fn sketch_node(name: &str, us: i64, grid: [u32; 3]) -> Sketch {
        let mut sketch = Sketch::with_prompt(8, 512, 2048, 32_000);
        let experts: [(&[i64], &str); 2] = [
            (&[16, 64, 2048], "c10::BFloat16"),
            (&[16, 2048, 2048], "c10::BFloat16"),
        ];
        sketch.operator("aten::bmm", &experts, &[("nvjet_gemm", 60)]);
        for _ in 0..4 {
            sketch.grid = grid;
            sketch.launch_graph(&[("nvjet_gemm", 60), (name, us), ("nvjet_gemm", 60)]);
            sketch.grid = [32, 1, 1];
            sketch.launch_graph(&[(COPY, 2), (COPY, 2), (COPY, 2)]);
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn gathered_pages_are_of_the_cache_and_gathered_matrices_of_experts() {
        const GATHER: &str = "void at::native::vectorized_gather_kernel<16, long>(char*, char*";
        let diagnosed = sketch_node(GATHER, 100, [8192, 16, 1]).diagnose();
        let (saved, now) = diagnosed.gain_of("kv_copies").unwrap();
        assert!((0.39..0.42).contains(&saved), "{saved} of {now} ms");
        assert_eq!(diagnosed.gain_of("gathered_weights"), None);
        // 128 threads with 8 elements each.
        let diagnosed = sketch_node(GATHER, 100, [32, 2048 * 2048 / 1024, 1]).diagnose();
        let (saved, now) = diagnosed.gain_of("gathered_weights").unwrap();
        assert!((0.39..0.42).contains(&saved), "{saved} of {now} ms");
        assert_eq!(diagnosed.gain_of("kv_copies"), None);
    }

    /// Its blocks are as many as the device holds, so only its time tells how much it moves.
    #[test]
    fn a_concatenation_of_unknown_size_is_judged_by_its_time() {
        const CAT: &str =
            "void CatArrayBatchedCopy_contig<OpaqueType<2u>, unsigned int, 2, 128, 1>";
        let diagnosed = sketch_node(CAT, 100, [264, 2, 1]).diagnose();
        assert!(diagnosed.gain_of("kv_copies").is_some());
        let diagnosed = sketch_node(CAT, 9, [264, 2, 1]).diagnose();
        assert_eq!(diagnosed.gain_of("kv_copies"), None);
    }

    /// A recurrent layer multiplies its states by their decay: that is its work.
    #[test]
    fn arithmetic_on_states_is_no_copy() {
        const DECAY: &str = "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >";
        // The second has as many elements as a weight.
        for blocks in [98_304, 2048 * 32_000 / 256] {
            let diagnosed = sketch_node(DECAY, 75, [blocks, 1, 1]).diagnose();
            assert_eq!(diagnosed.gain_of("kv_copies"), None);
            assert_eq!(diagnosed.gain_of("weight_casts"), None);
        }
    }

    #[test]
    fn copies_of_logits_are_neither() {
        let diagnosed = sketch_graph(8 * 32_000 / 512, 8).diagnose();
        assert_eq!(
            diagnosed
                .gain_of("kv_copies")
                .or(diagnosed.gain_of("weight_casts")),
            None
        );
    }

    /// Prompts come one by one; a step has all sequences.
    #[test]
    fn steps_may_have_more_sequences_than_a_prompt() {
        let diagnosed = sketch_graph(128 * 32_000 / 512, 128).diagnose();
        assert_eq!(
            diagnosed
                .gain_of("kv_copies")
                .or(diagnosed.gain_of("weight_casts")),
            None
        );
    }
}
