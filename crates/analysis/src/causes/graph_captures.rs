//! CUDA graphs that are captured in the steps that launch them.

use std::ops::Range;

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// Part of the name of the call that ends a capture; not every recorder keeps the one that begins it.
const ENDS: &str = "StreamEndCapture";

/// Host segments of each capture in the phase: from the last launch before it (entering a capture synchronizes and empties the
/// allocator's cache) to the first after it (the graph is instantiated, and an older one destroyed).
pub(super) fn captured_segments(scene: &Scene<'_>) -> Vec<Range<usize>> {
    let graph = scene.graph;
    let launches = |segment: usize| !graph.launched_by(segment..segment + 1).is_empty();
    // Entering a capture fills the seed and the offset of the random number generator.
    let fills = |at: usize| {
        scene
            .top_of(at)
            .is_some_and(|top| scene.name(top) == "aten::fill_")
    };
    let mut captures = Vec::new();
    for window in scene.windows {
        let inside = graph.segments_in(*window);
        let mut segment = inside.start;
        while let Some(end) = (segment..inside.end).find(|&at| ends_capture(scene, at)) {
            let before = (segment..end)
                .rev()
                .take_while(|&at| !launches(at) || fills(at));
            let first = before.last().unwrap_or(end);
            let after = (end..inside.end).find(|&at| launches(at));
            segment = after.unwrap_or(inside.end);
            captures.push(first..segment);
        }
    }
    captures
}

fn ends_capture(scene: &Scene<'_>, segment: usize) -> bool {
    let row = scene.graph.row_of_segment(segment);
    row.is_some_and(|row| scene.api(row).is_some() && scene.name(row).contains(ENDS))
}

pub(super) fn find_graph_captures(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut edit = Edit::default();
    let mut time = 0;
    for segments in &scene.captures {
        for segment in segments.clone() {
            edit.limit_segment(segment, 0);
            time += scene.graph.segment_duration(segment);
        }
    }
    let Some(first) = scene.captures.first() else {
        return Vec::new();
    };
    let row = first
        .clone()
        .find(|&segment| ends_capture(scene, segment))
        .and_then(|segment| scene.graph.row_of_segment(segment));
    vec![CauseCandidate {
        kind: CauseKind::GraphCaptures {
            time_ns: Nanos(scene.a_step(time)),
        },
        place: row.map(|row| scene.place(row)).unwrap_or_default(),
        count: scene.captures.len() as u64,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_graph(is_captured_each_step: bool) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            if is_captured_each_step {
                sketch.call("cudaFree", 300);
                sketch.operator("aten::fill_", &[], &[("fill_kernel", 2)]);
                sketch.call("cudaStreamBeginCapture", 5);
                sketch.call("cudaMalloc", 400);
                for _ in 0..20 {
                    sketch.operator("aten::mm", &[], &[]);
                }
                sketch.call("cudaStreamEndCapture", 20);
                sketch.call("cudaGraphInstantiate", 400);
            }
            sketch.launch_graph(&[("nvjet_gemm", 100), ("elementwise", 5)]);
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn capturing_in_every_step_is_a_cause_and_its_parts_are_none() {
        let diagnosed = sketch_graph(true).diagnose();
        let (saved, now) = diagnosed.gain_of("graph_captures").unwrap();
        assert!(saved > 0.6 * now, "{saved} of {now} ms");
        assert_eq!(diagnosed.gain_of("allocation"), None);
        assert_eq!(diagnosed.0.causes[0].count.round() as u64, 4);
    }

    #[test]
    fn launching_a_captured_graph_is_none() {
        assert_eq!(
            sketch_graph(false).diagnose().gain_of("graph_captures"),
            None
        );
    }
}
