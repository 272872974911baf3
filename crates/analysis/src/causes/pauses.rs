//! Long stretches of the program's own code between operators.

use super::Scene;
use crate::thresholds::{PAUSE_BETWEEN_CALLS_MIN_NS, PAUSE_MIN_GAPS, PAUSE_MIN_NS};

pub(super) fn is_pause(scene: &Scene<'_>, segment: usize) -> bool {
    let least = if scene.has_operators {
        PAUSE_MIN_NS
    } else {
        PAUSE_BETWEEN_CALLS_MIN_NS
    };
    let least = least.max(PAUSE_MIN_GAPS * scene.usual_gap);
    scene.graph.segment_duration(segment) >= least && scene.is_code(segment)
}

/// Lengths of the pauses of a phase.
pub(super) fn pause_lengths(scene: &Scene<'_>) -> Vec<i64> {
    let pauses = scene.segments().filter(|&segment| is_pause(scene, segment));
    pauses
        .map(|segment| scene.graph.segment_duration(segment))
        .collect()
}
