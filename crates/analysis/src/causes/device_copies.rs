//! Whole tensors copied within the device: clones.

use crate::thresholds::DEVICE_COPY_MIN_BYTES;
use llmprof_record::trace::CopyKind;
use llmprof_units::{Bytes, Nanos};

use super::cause::CauseKind;
use super::kv_copies::is_cache;
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceRow, Edit};

/// Operators that make a new tensor; `aten::copy_` writes into one that is there, as caches need it.
const CLONES: &[&str] = &["aten::clone", "aten::to"];

pub(super) fn find_device_copies(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut edit = Edit::default();
    let (mut count, mut bytes, mut time, mut largest) = (0, 0, 0, None);
    for (_, work) in scene.own_work() {
        let DeviceRow::Copy(row) = work.row else {
            continue;
        };
        let copied = scene.trace.copies.bytes[row as usize];
        let is_large = copied >= DEVICE_COPY_MIN_BYTES
            && scene.trace.copies.kind[row as usize] == CopyKind::DEVICE_TO_DEVICE;
        let Some(top) = scene
            .top_of(work.segment as usize)
            .filter(|&top| is_large && CLONES.contains(&scene.name(top)))
            // Those of a KV cache are `kv_copies`.
            .filter(|&top| !is_cache(scene.tensors(top).first().map_or(&[], |(dims, _)| dims)))
        else {
            continue;
        };
        scene.remove(&mut edit, top);
        count += 1;
        bytes += copied;
        time += work.duration;
        if largest.is_none_or(|(most, _)| copied > most) {
            largest = Some((copied, top));
        }
    }
    let Some((_, top)) = largest else {
        return Vec::new();
    };
    vec![CauseCandidate {
        kind: CauseKind::DeviceCopies {
            bytes: Bytes(bytes / scene.steps.max(1)),
            copied_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(top),
        count,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::CopyKind;

    use crate::causes::sketch::Sketch;

    fn sketch_copy(operator: &str, bytes: u64) -> Sketch {
        let mut sketch = Sketch::default();
        sketch.copy_in(operator, CopyKind::DEVICE_TO_DEVICE, bytes, 200);
        for _ in 0..20 {
            sketch.matrix_product(512, 2048, 2048, 50);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn a_clone_that_the_device_has_to_make_is_a_cause() {
        let diagnosed = sketch_copy("aten::clone", 256 << 20).diagnose();
        let (saved, now) = diagnosed.gain_of("device_copies").unwrap();
        assert!((0.19..0.24).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn staging_an_input_and_writing_a_cache_are_none() {
        for (operator, bytes) in [("aten::clone", 1 << 20), ("aten::copy_", 256 << 20)] {
            let diagnosed = sketch_copy(operator, bytes).diagnose();
            assert_eq!(diagnosed.gain_of("device_copies"), None, "{operator}");
        }
    }
}
