//! Operators that go through Python: a mode or a subclass of tensors that sees each of them.

use llmprof_units::Nanos;

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// What torch's profiler calls an operator while Python handles it.
const HANDLED_BY_PYTHON: &[&str] = &["PythonDispatchMode", "PythonSubclass"];

pub(super) fn find_dispatch_modes(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut edit = Edit::default();
    let (mut count, mut time) = (0, 0);
    for segment in scene.segments() {
        let Some(row) = scene.graph.row_of_segment(segment) else {
            continue;
        };
        let is_handler = |row: usize| HANDLED_BY_PYTHON.contains(&scene.name(row));
        // The outer operator only calls the handler, which calls the operator itself.
        let calls_handler = || scene.rows_in(row).nth(1).is_some_and(is_handler);
        if is_handler(row) || scene.is_operator(row) && calls_handler() {
            count +=
                u64::from(scene.graph.segments_of_row(row).start == segment && is_handler(row));
            time += scene.graph.segment_duration(segment);
            edit.limit_segment(segment, 0);
        }
    }
    if count == 0 {
        return Vec::new();
    }
    vec![CauseCandidate {
        kind: CauseKind::DispatchMode {
            time_ns: Nanos(scene.a_step(time)),
        },
        place: CausePlace::default(),
        count,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    #[test]
    fn operators_that_python_handles_are_a_cause() {
        let mut sketch = Sketch::default();
        for _ in 0..100 {
            sketch.handled_by_python(60);
        }
        sketch.synchronize();
        let (saved, now) = sketch.diagnose().gain_of("dispatch_mode").unwrap();
        assert!((5.9..6.3).contains(&saved), "{saved} of {now} ms");
    }
}
