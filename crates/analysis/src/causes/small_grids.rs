//! Long kernels of a few thread blocks: most multiprocessors of the device have nothing to do while they run.

use crate::thresholds::{
    KERNEL_MIN_NS, SMALL_GRID_BLOCK_MIN_MULTIPROCESSORS, SMALL_GRID_KERNEL_MIN_NS,
};
use llmprof_record::kernel_name::Category;
use llmprof_units::Nanos;

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceRow, DeviceWork, Edit};

struct Small {
    index: usize,
    blocks: u64,
}

pub(super) fn find_small_grids(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let Some(units) = scene.device.and_then(|device| device.units.as_ref()) else {
        return Vec::new();
    };
    let multiprocessors = units.count.value as u64;
    let mut busy: Vec<(i64, i64, usize)> = scene
        .graph
        .work()
        .iter()
        .enumerate()
        .map(|(index, work)| (work.start, work.end(), index))
        .collect();
    busy.sort_unstable();
    let work = scene.graph.work();
    let small: Vec<Small> = scene
        .own_work()
        .filter_map(|(index, work)| {
            let blocks = blocks_of(scene, work)?;
            let is_small = blocks * SMALL_GRID_BLOCK_MIN_MULTIPROCESSORS <= multiprocessors;
            let is_long = work.duration >= SMALL_GRID_KERNEL_MIN_NS;
            (is_small && is_long && is_alone(&busy, index, work)).then_some(Small { index, blocks })
        })
        .collect();
    let Some(longest) = small.iter().max_by_key(|small| work[small.index].duration) else {
        return Vec::new();
    };
    let (mut edit, mut slower, mut faster) = (Edit::default(), Edit::default(), Edit::default());
    let mut time = 0;
    for &Small { index, blocks } in &small {
        let duration = work[index].duration;
        let spread = |parts: u64| {
            let share = (blocks * parts) as f64 / multiprocessors as f64;
            ((duration as f64 * share) as i64).max(KERNEL_MIN_NS)
        };
        // Half of the device, all of it, and half of it with as much again for joining the parts.
        edit.set_duration(index, spread(2));
        faster.set_duration(index, spread(1));
        slower.set_duration(index, spread(4));
        time += duration;
    }
    let top = scene.top_of(work[longest.index].segment as usize);
    let place = top.map(|top| scene.place(top)).unwrap_or_default();
    vec![CauseCandidate {
        kind: CauseKind::SmallGrids {
            kernel: scene.work_name(&work[longest.index]).to_owned(),
            blocks: longest.blocks,
            multiprocessors,
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: CausePlace { ..place },
        count: small.len() as u64,
        edit,
        partial: Some(vec![slower, faster]),
    }]
}

/// Thread blocks of a kernel that computes; kernels that exchange data between devices have few by design.
fn blocks_of(scene: &Scene<'_>, work: &DeviceWork) -> Option<u64> {
    let DeviceRow::Kernel(row) = work.row else {
        return None;
    };
    let grid = scene.trace.kernels.grid[row as usize];
    let blocks: u64 = grid.iter().map(|&blocks| u64::from(blocks)).product();
    (blocks > 0 && scene.category(work) != Category::Communication).then_some(blocks)
}

/// Whether nothing else runs for most of a kernel's time: on several streams small kernels fill the device together.
fn is_alone(busy: &[(i64, i64, usize)], index: usize, work: &DeviceWork) -> bool {
    let until = busy.partition_point(|other| other.0 < work.end());
    let beside: i64 = busy[..until]
        .iter()
        .rev()
        .take(64)
        .filter(|other| other.2 != index)
        .map(|other| (other.1.min(work.end()) - other.0.max(work.start)).max(0))
        .sum();
    4 * beside < work.duration
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    const ATTENTION: &str = "flash_fwd_kernel";

    /// Eight layers in a graph for each of four steps, each with an attention kernel of so many blocks.
    fn sketch_attention(blocks: u32, us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        sketch.steps = 4;
        for _ in 0..4 {
            for _ in 0..8 {
                sketch.grid = [132, 2, 1];
                sketch.launch_graph(&[("nvjet_gemm", 15), ("nvjet_gemm", 15)]);
                sketch.grid = [blocks, 1, 1];
                sketch.launch_graph(&[(ATTENTION, us), (ATTENTION, 2)]);
            }
            sketch.synchronize();
        }
        sketch
    }

    /// 330 µs in 8 blocks are 40 µs on half of 132 multiprocessors.
    #[test]
    fn long_kernels_of_a_few_blocks_are_a_cause() {
        let diagnosed = sketch_attention(8, 330).diagnose();
        let (saved, now) = diagnosed.gain_of("small_grids").unwrap();
        assert!((2.25..2.40).contains(&saved), "{saved} of {now} ms");
        let gain = &diagnosed.cause("small_grids").unwrap().gains[0];
        assert!(
            gain.low_ns < gain.saved_ns && gain.saved_ns < gain.high_ns,
            "{gain:?}"
        );
    }

    #[test]
    fn short_kernels_and_larger_grids_are_none() {
        for (blocks, us) in [(8, 40), (32, 330), (264, 330)] {
            let diagnosed = sketch_attention(blocks, us).diagnose();
            assert!(diagnosed.cause("small_grids").is_none(), "{blocks} {us}");
        }
    }

    /// A kernel of another thread that fills the device meanwhile.
    #[test]
    fn kernels_beside_others_are_none() {
        let mut sketch = Sketch::default();
        for _ in 0..8 {
            sketch.grid = [8, 1, 1];
            sketch.beside(400);
            sketch.operator("aten::cumsum", &[], &[("tensor_kernel_scan", 330)]);
            sketch.synchronize();
        }
        assert!(sketch.diagnose().cause("small_grids").is_none());
    }
}
