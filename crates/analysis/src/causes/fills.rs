//! New tensors that are filled: by the framework before they are written (`torch.use_deterministic_algorithms`), or large ones by the program.

use crate::thresholds::DEVICE_COPY_MIN_BYTES;
use llmprof_units::{Bytes, Nanos};

use super::cause::{CauseKind, CausePlace};
use super::estimate::tensor_bytes;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// Operators that make a tensor and fill it.
const FILLED: &[&str] = &[
    "aten::zeros",
    "aten::zeros_like",
    "aten::new_zeros",
    "aten::ones",
    "aten::ones_like",
    "aten::new_ones",
    "aten::full",
    "aten::full_like",
    "aten::new_full",
];

pub(super) fn find_fills(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let rows = scene.tops.iter().flat_map(|&top| scene.rows_in(top));
    let fills: Vec<usize> = rows
        .filter(|&row| ["aten::fill_", "aten::zero_"].contains(&scene.name(row)))
        .collect();
    let parent_is = |row: usize, is: &dyn Fn(&str) -> bool| {
        let parent = scene.graph.parent_row(row);
        parent.is_some_and(|parent| is(scene.name(parent)))
    };
    let by_framework: Vec<usize> = fills
        .iter()
        .copied()
        .filter(|&row| {
            parent_is(row, &|name| {
                name.starts_with("aten::empty") || name == "aten::resize_"
            })
        })
        .collect();
    let bytes = |row: usize| tensor_bytes(scene, row).next().unwrap_or(0);
    let by_program: Vec<usize> = fills
        .into_iter()
        .filter(|&row| parent_is(row, &|name| FILLED.contains(&name)))
        .filter(|&row| bytes(row) >= DEVICE_COPY_MIN_BYTES)
        .collect();
    let largest = by_program.iter().copied().max_by_key(|&row| bytes(row));
    let of_program = largest.map(|row| {
        let largest = Some(Bytes(bytes(row)));
        make_candidate(scene, &by_program, largest, scene.place(row))
    });
    let of_framework = (!by_framework.is_empty())
        .then(|| make_candidate(scene, &by_framework, None, CausePlace::default()));
    of_framework.into_iter().chain(of_program).collect()
}

fn make_candidate(
    scene: &Scene<'_>,
    rows: &[usize],
    largest: Option<Bytes>,
    place: CausePlace,
) -> CauseCandidate {
    let mut edit = Edit::default();
    let mut time = 0;
    for &row in rows {
        time += scene.device_ns(row);
        for segment in scene.graph.segments_of_row(row) {
            edit.limit_segment(segment, 0);
        }
        for work in scene.work_of(row) {
            edit.drop_work(work);
        }
    }
    CauseCandidate {
        kind: CauseKind::Fills {
            largest,
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place,
        count: rows.len() as u64,
        edit,
        partial: None,
    }
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_new_tensors(name: &str) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.nested("aten::empty", name, &[], &[("fill_kernel", 40)]);
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
    fn zeros_for_a_large_tensor_are_a_cause() {
        for (positions, is_cause) in [(32_768_i64, true), (16, false)] {
            let mut sketch = Sketch::default();
            let cache: &[i64] = &[16, 8, positions, 128];
            sketch.nested(
                "aten::zeros",
                "aten::zero_",
                &[(cache, "c10::BFloat16")],
                &[("fill_kernel", 400)],
            );
            for _ in 0..8 {
                sketch.matrix_product(512, 2048, 2048, 50);
            }
            sketch.synchronize();
            let gain = sketch.diagnose().gain_of("fills");
            assert_eq!(gain.is_some(), is_cause, "{gain:?}");
        }
    }

    /// Recording keeps the host busy for as long as the fill takes; without it the device would be late.
    #[test]
    fn a_fill_that_recording_hides_is_named_with_what_it_may_save() {
        let mut sketch = Sketch::default();
        let cache: &[i64] = &[16, 8, 32_768, 128];
        sketch.nested(
            "aten::zeros",
            "aten::zero_",
            &[(cache, "c10::BFloat16")],
            &[("fill_kernel", 350)],
        );
        for _ in 0..100 {
            sketch.matrix_product(16, 1024, 1024, 2);
        }
        sketch.synchronize();
        let diagnosed = sketch.diagnose();
        let gain = &diagnosed.cause("fills").unwrap().gains[0];
        assert!(gain.share() < 0.05 && gain.most_share() > 0.2, "{gain:?}");
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
