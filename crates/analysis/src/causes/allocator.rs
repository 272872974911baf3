//! Memory taken from the driver and given back while the program runs.

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::pinned_memory::is_pinning;
use super::{CauseCandidate, Scene};
use crate::replay::{CallEffect, Edit};

pub(super) fn find_allocations(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let rows = scene.tops.iter().flat_map(|&top| scene.rows_in(top));
    let rows: Vec<usize> = rows
        .filter(|&row| scene.api(row) == Some(CallEffect::Memory) && !is_pinning(scene, row))
        .collect();
    // What is taken fewer times than there are steps stays: caches grow in the first of them.
    let Some(&first) = rows.first().filter(|_| rows.len() as u64 >= scene.steps) else {
        return Vec::new();
    };
    let mut edit = Edit::default();
    for &row in &rows {
        scene.remove_host(&mut edit, row);
    }
    let time: i64 = rows
        .iter()
        .map(|&row| scene.trace.hosts.duration[row])
        .sum();
    vec![CauseCandidate {
        kind: CauseKind::Allocation {
            time_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(first),
        count: rows.len() as u64,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    #[test]
    fn memory_of_the_driver_in_every_step_is_a_cause() {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.call("cudaMalloc", 300);
            sketch.matrix_product(16, 1024, 1024, 50);
            sketch.synchronize();
            sketch.call("cudaFree", 200);
        }
        let (saved, now) = sketch.diagnose().gain_of("allocation").unwrap();
        assert!((1.9..2.1).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn memory_of_the_caching_allocator_is_none() {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.operator("aten::empty", &[], &[]);
            sketch.matrix_product(16, 1024, 1024, 50);
        }
        sketch.synchronize();
        assert_eq!(sketch.diagnose().gain_of("allocation"), None);
    }
}
