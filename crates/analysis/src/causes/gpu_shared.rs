//! Another process on the device: the driver gives it the device in time slices, in which nothing of this program runs.

use crate::thresholds::INTERRUPTED_KERNEL_MIN_RATIO;
use llmprof_record::trace::StrId;
use llmprof_units::{Nanos, stats::upper_median};
use rustc_hash::FxHashMap;

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// What an interruption adds, as a part of the median slice.
const INTERRUPTED_RANGE: std::ops::RangeInclusive<f64> = 0.7..=1.5;

pub(super) fn find_shared_gpu(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let in_phase = |&(start, end): &(i64, i64)| {
        let mut windows = scene.windows.iter();
        windows.any(|window| start < window.end && window.start < end)
    };
    let slices = scene.graph.time_slices();
    let mut lengths: Vec<i64> = slices.iter().map(|(start, end)| end - start).collect();
    let Some(usual) = upper_median(&mut lengths) else {
        return Vec::new();
    };
    let own: Vec<&(i64, i64)> = slices.iter().filter(|slice| in_phase(slice)).collect();
    let mut edit = Edit::default();
    edit.run_alone();
    let interrupted = interrupted_kernels(scene, usual);
    for &(index, alone) in &interrupted {
        edit.set_duration(index, alone);
    }
    let added = interrupted
        .iter()
        .map(|&(index, alone)| scene.graph.work()[index].duration - alone);
    let time = own.iter().map(|(start, end)| end - start).chain(added);
    vec![CauseCandidate {
        kind: CauseKind::GpuShared {
            slice_ns: Nanos(usual),
            time_ns: Nanos(scene.a_step(time.sum())),
        },
        place: CausePlace::default(),
        count: (own.len() + interrupted.len()) as u64,
        edit,
        partial: None,
    }]
}

/// Kernels that a slice of about `usual` ns interrupts, with what others of their name and grid take.
fn interrupted_kernels(scene: &Scene<'_>, usual: i64) -> Vec<(usize, i64)> {
    let mut times: FxHashMap<(StrId, [u32; 3]), Vec<i64>> = FxHashMap::default();
    for (_, work) in scene.own_work() {
        if let Some(key) = scene.kernel_key(work) {
            times.entry(key).or_default().push(work.duration);
        }
    }
    let medians: FxHashMap<_, i64> = times
        .into_iter()
        .filter_map(|(key, mut times)| Some((key, upper_median(&mut times)?)))
        .collect();
    let own = scene.own_work();
    own.filter_map(|(index, work)| {
        let alone = *medians.get(&scene.kernel_key(work)?)?;
        let added = (work.duration - alone) as f64 / usual as f64;
        let is_interrupted = work.duration >= INTERRUPTED_KERNEL_MIN_RATIO * alone
            && INTERRUPTED_RANGE.contains(&added);
        is_interrupted.then_some((index, alone))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    /// Three passes of 60 products of 50 µs, of which every `every`th waits so many µs for the device.
    fn sketch_slices(every: usize, us: impl Fn(usize) -> i64) -> Sketch {
        let mut sketch = Sketch::default();
        for pass in 0..3 {
            for product in 0..60 {
                if product % every == every - 1 {
                    sketch.interrupt(us(pass * 60 + product));
                }
                sketch.matrix_product(512, 2048, 2048, 50);
            }
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn a_device_that_pauses_in_equal_slices_is_shared() {
        let diagnosed = sketch_slices(20, |_| 1_640).diagnose();
        let (saved, now) = diagnosed.gain_of("gpu_shared").unwrap();
        // Nine slices of 1.64 ms.
        assert!((14.3..15.2).contains(&saved), "{saved} of {now} ms");
    }

    /// A slice that begins while a kernel runs is part of its time.
    #[test]
    fn kernels_that_a_slice_interrupts_count_too() {
        let mut sketch = sketch_slices(20, |_| 1_640);
        for product in 0..40 {
            let us = if product % 20 == 9 { 1_750 } else { 50 };
            sketch.matrix_product(512, 2048, 2048, us);
        }
        sketch.synchronize();
        let (saved, now) = sketch.diagnose().gain_of("gpu_shared").unwrap();
        assert!((17.6..18.8).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn pauses_of_all_lengths_or_two_of_them_are_not_proof() {
        let diagnosed = sketch_slices(20, |product| 600 + 40 * product as i64).diagnose();
        assert!(diagnosed.cause("gpu_shared").is_none());
        let mut sketch = Sketch::default();
        for product in 0..60 {
            if product == 20 || product == 40 {
                sketch.interrupt(1_640);
            }
            sketch.matrix_product(512, 2048, 2048, 50);
        }
        sketch.synchronize();
        assert!(sketch.diagnose().cause("gpu_shared").is_none());
    }

    /// Nothing is queued while the host does something else, and short waits for the device have many reasons.
    #[test]
    fn a_device_that_waits_for_the_host_is_not_shared() {
        let mut sketch = Sketch::default();
        for _ in 0..12 {
            for _ in 0..20 {
                sketch.matrix_product(512, 2048, 2048, 50);
            }
            sketch.synchronize();
            sketch.pause(1_640);
        }
        assert!(sketch.diagnose().cause("gpu_shared").is_none());
        assert!(
            sketch_slices(20, |_| 150)
                .diagnose()
                .cause("gpu_shared")
                .is_none()
        );
    }

    #[test]
    fn kernels_of_other_shapes_are_not_interrupted() {
        let mut sketch = Sketch::default();
        for product in 0..120 {
            let us = if product % 20 == 9 { 1_700 } else { 50 };
            sketch.matrix_product(512, 2048, 2048, us);
        }
        sketch.synchronize();
        assert!(sketch.diagnose().cause("gpu_shared").is_none());
    }
}
