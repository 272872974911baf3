//! A phase of a trace with what its operators show.

use llmprof_record::run::RunPhase;
use llmprof_record::trace::Trace;
use llmprof_theory::device::Device;

use super::forwards::forwards;
use super::gemms::gemms;
use super::graph_captures::captured_segments;
use super::scene::Scene;
use super::subject::Subject;
use crate::replay::{Graph, Window};

pub(super) fn open_scene<'a>(
    trace: &'a Trace,
    graph: &'a Graph,
    phase: RunPhase,
    windows: &'a [Window],
    device: Option<&'a Device>,
    subject: &'a Subject,
) -> Scene<'a> {
    let mut scene = Scene::bare(trace, graph, phase, windows, device, subject);
    scene.captures = captured_segments(&scene);
    scene.tops = scene.outermost();
    scene.usual_gap = scene.median_gap();
    scene.forwards = forwards(&scene);
    scene.gemms = gemms(&scene);
    scene
}
