//! Host memory that is page-locked and released while the program runs.

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// Calls that page-lock host memory or release it; each walks its pages, 64 MiB take 1–2 ms.
const CALLS: &[&str] = &[
    "cudaHostAlloc",
    "cudaMallocHost",
    "cudaFreeHost",
    "cudaHostRegister",
    "cudaHostUnregister",
    "cuMemHostAlloc",
    "cuMemAllocHost",
    "cuMemFreeHost",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "hipHostMalloc",
    "hipHostFree",
    "hipHostRegister",
    "hipHostUnregister",
];

/// Whether a call page-locks host memory or releases it; driver calls have versions (`cuMemHostRegister_v2`).
pub(super) fn is_pinning(scene: &Scene<'_>, row: usize) -> bool {
    let name = scene.name(row);
    let name = name.split_once("_v").map_or(name, |(name, _)| name);
    scene.api(row).is_some() && CALLS.contains(&name)
}

pub(super) fn find_pinned_memory(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let rows = scene.tops.iter().flat_map(|&top| scene.rows_in(top));
    let rows: Vec<usize> = rows.filter(|&row| is_pinning(scene, row)).collect();
    let duration = |row: &usize| scene.trace.hosts.duration[*row];
    let Some(&longest) = rows.iter().max_by_key(|row| duration(row)) else {
        return Vec::new();
    };
    let mut edit = Edit::default();
    for &row in &rows {
        scene.remove_host(&mut edit, row);
    }
    let time: i64 = rows.iter().map(duration).sum();
    vec![CauseCandidate {
        kind: CauseKind::PinnedMemory {
            time_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(longest),
        count: rows.len() as u64,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    #[test]
    fn page_locking_in_a_step_is_a_cause() {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.call("cudaHostRegister", 900);
            sketch.matrix_product(16, 1024, 1024, 50);
            sketch.call("cudaHostUnregister", 600);
            sketch.synchronize();
        }
        let (saved, now) = sketch.diagnose().gain_of("pinned_memory").unwrap();
        assert!((5.7..6.0).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn device_memory_is_not_host_memory() {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.call("cudaMalloc", 900);
            sketch.matrix_product(16, 1024, 1024, 50);
            sketch.synchronize();
        }
        let diagnosed = sketch.diagnose();
        assert_eq!(diagnosed.gain_of("pinned_memory"), None);
        assert!(diagnosed.gain_of("allocation").is_some());
    }
}
