//! New tensors that are filled before they are written: `torch.use_deterministic_algorithms`.

use llmprof_units::Nanos;

use super::cause::{CauseKind, Place};
use super::{Candidate, Scene};
use crate::replay::Edit;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let rows = scene.tops.iter().flat_map(|&top| scene.rows_in(top));
    let rows: Vec<usize> = rows
        .filter(|&row| {
            let parent = scene.graph.parent_row(row);
            let makes = |row: usize| {
                scene.name(row).starts_with("aten::empty") || scene.name(row) == "aten::resize_"
            };
            scene.name(row) == "aten::fill_" && parent.is_some_and(makes)
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut edit = Edit::default();
    let mut time = 0;
    for &row in &rows {
        time += scene.device_ns(row);
        for segment in scene.graph.segments_of_row(row) {
            edit.limit_segment(segment, 0);
        }
        for work in scene.work_of(row) {
            edit.drop_work(work);
        }
    }
    vec![Candidate {
        kind: CauseKind::Fills {
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: Place::default(),
        count: rows.len() as u64,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_new_tensors(name: &str) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.nested("aten::empty", name, &[("fill_kernel", 40)]);
            sketch.matrix_product(512, 2048, 2048, 100);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn filling_an_empty_tensor_is_a_cause() {
        let (saved, now) = sketch_new_tensors("aten::fill_")
            .diagnose()
            .gain_of("fills")
            .unwrap();
        assert!((0.15..0.17).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn other_operators_are_none() {
        assert_eq!(
            sketch_new_tensors("aten::copy_")
                .diagnose()
                .gain_of("fills"),
            None
        );
    }
}
