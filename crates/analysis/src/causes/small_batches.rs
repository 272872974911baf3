//! A decode step in several passes, each a CUDA graph over a part of the sequences: every pass reads all weights again.

use crate::thresholds::{STEP_GRAPHS_ALIKE_MIN_SHARE, STEPS_IN_PARTS_MIN};
use llmprof_record::kernel_name::Category;
use llmprof_record::run::RunPhase;
use llmprof_record::trace::StrId;
use llmprof_units::Nanos;

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::{CallWait, DeviceRow, Edit};

struct GraphLaunch {
    segment: usize,
    /// Its kernels by name and grid.
    kernels: Vec<(StrId, [u32; 3])>,
    /// Rows that its normalizations work on, a block for each; those of heads have more.
    rows: Option<u32>,
}

pub(super) fn find_small_batches(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let Some(parts) = steps_in_parts(scene) else {
        return Vec::new();
    };
    let (mut edit, mut time) = (Edit::default(), 0);
    for launch in parts.steps.iter().flat_map(|step| &step[1..]) {
        edit.limit_segment(launch.segment, 0);
        for index in scene.graph.launched_by(launch.segment..launch.segment + 1) {
            let work = &scene.graph.work()[index];
            // Keys and values of the other sequences are read in one pass too.
            if scene.category(work) != Category::Attention {
                edit.drop_work(index);
                time += work.duration;
            }
        }
    }
    vec![CauseCandidate {
        kind: CauseKind::SmallBatches {
            passes: parts.passes as u64,
            rows: u64::from(parts.rows),
            sequences: scene.shapes.sequences as u64,
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: CausePlace::default(),
        count: parts.steps.len() as u64,
        edit,
        partial: None,
    }]
}

/// Graphs that a phase launches in all, and in one step, where each is a part of a step.
pub(super) fn passes_of_steps(scene: &Scene<'_>) -> Option<(u64, u64)> {
    let parts = steps_in_parts(scene)?;
    let passes = parts.passes as u64;
    Some((parts.steps.len() as u64 * passes, passes))
}

/// Steps of as many passes, each over a part of the sequences.
struct StepsInParts {
    steps: Vec<Vec<GraphLaunch>>,
    passes: usize,
    rows: u32,
}

fn steps_in_parts(scene: &Scene<'_>) -> Option<StepsInParts> {
    let sequences = scene.shapes.sequences;
    if scene.phase != RunPhase::Decode || sequences == 0 {
        return None;
    }
    let steps = launches_by_step(scene);
    let passes = steps.first().map(Vec::len).filter(|passes| *passes > 1)?;
    let first = &steps[0][0];
    let rows = first.rows?;
    // The rows of all passes together are the sequences: tokens that follow each other have all of them in each pass.
    let is_whole = passes as i64 * i64::from(rows) == sequences;
    let is_part = |launch: &GraphLaunch| launch.rows == Some(rows) && are_alike(first, launch);
    let are_parts = |step: &Vec<GraphLaunch>| step.len() == passes && step.iter().all(is_part);
    let has_proof = is_whole && steps.len() >= STEPS_IN_PARTS_MIN && steps.iter().all(are_parts);
    has_proof.then_some(StepsInParts {
        steps,
        passes,
        rows,
    })
}

/// Launches of graphs between two waits of the host.
fn launches_by_step(scene: &Scene<'_>) -> Vec<Vec<GraphLaunch>> {
    let mut steps = vec![Vec::new()];
    for segment in scene.segments() {
        let works = scene.graph.launched_by(segment..segment + 1);
        if works.len() > 1 {
            if let Some(step) = steps.last_mut() {
                step.push(read_launch(scene, segment));
            }
        } else if scene.graph.wait_of(segment) != CallWait::No {
            steps.push(Vec::new());
        }
    }
    steps.retain(|step| !step.is_empty());
    steps
}

fn read_launch(scene: &Scene<'_>, segment: usize) -> GraphLaunch {
    let mut launch = GraphLaunch {
        segment,
        kernels: Vec::new(),
        rows: None,
    };
    let kernels = &scene.trace.kernels;
    for index in scene.graph.launched_by(segment..segment + 1) {
        let work = &scene.graph.work()[index];
        let DeviceRow::Kernel(row) = work.row else {
            continue;
        };
        let grid = kernels.grid[row as usize];
        launch.kernels.push((kernels.name[row as usize], grid));
        if scene.category(work) == Category::Norm {
            let blocks = grid.iter().product();
            launch.rows = Some(launch.rows.map_or(blocks, |rows: u32| rows.min(blocks)));
        }
    }
    launch
}

fn are_alike(a: &GraphLaunch, b: &GraphLaunch) -> bool {
    let most = a.kernels.len().max(b.kernels.len());
    let same = a.kernels.iter().zip(&b.kernels).filter(|(a, b)| a == b);
    same.count() as f64 >= STEP_GRAPHS_ALIKE_MIN_SHARE * most as f64
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    const NORM: &str = "vectorized_layer_norm_kernel";

    /// Steps of `passes` graphs over `rows` rows, after a prompt of 32 sequences.
    fn sketch_passes(passes: usize, rows: u32) -> Sketch {
        let mut sketch = Sketch::with_prompt(32, 128, 2048, 32_000);
        sketch.steps = 6;
        for _ in 0..6 {
            for _ in 0..passes {
                sketch.grid = [rows, 1, 1];
                let layer = [
                    (NORM, 3),
                    ("nvjet_gemm", 30),
                    ("flash_fwd_kernel", 10),
                    ("nvjet_gemm", 30),
                ];
                sketch.launch_graph(&layer.repeat(6));
            }
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn a_step_in_parts_is_a_cause() {
        let diagnosed = sketch_passes(4, 8).diagnose();
        let (saved, now) = diagnosed.gain_of("small_batches").unwrap();
        // Three of four passes but for their attention.
        assert!((0.58..0.68).contains(&(saved / now)), "{saved} of {now} ms");
    }

    #[test]
    fn tokens_that_follow_each_other_and_single_passes_are_none() {
        for (passes, rows) in [(4, 32), (1, 32), (1, 8), (4, 16)] {
            let diagnosed = sketch_passes(passes, rows).diagnose();
            assert!(
                diagnosed.cause("small_batches").is_none(),
                "{passes} {rows}"
            );
        }
    }
}
