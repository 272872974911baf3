//! A phase of a trace with what its operators show.

use super::forwards::forward_passes;
use super::gemms::read_gemms;
use super::graph_captures::captured_segments;
use super::scene::Scene;

pub(super) fn open_scene(mut scene: Scene<'_>) -> Scene<'_> {
    scene.captures = captured_segments(&scene);
    scene.tops = scene.outermost_rows();
    scene.usual_gap = scene.median_gap();
    scene.forwards = forward_passes(&scene);
    scene.gemms = read_gemms(&scene);
    scene
}
