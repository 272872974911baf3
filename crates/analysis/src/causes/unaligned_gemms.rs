//! GEMMs with rows that do not begin at multiples of 16 bytes, for which libraries have slow kernels only.

use crate::thresholds::{COMPUTE_BOUND_MIN_ROWS, UNALIGNED_GEMM_MAX_SHARE};
use llmprof_units::{DType, Nanos};

use super::cause::CauseKind;
use super::estimate::{gemm_ns, measured_efficiency};
use super::gemms::roofline_ns;
use super::model_work::Gemm;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;
use llmprof_theory::device::Engine;

/// Elements of a 16-bit format in 16 bytes, which tensor cores load at once.
const ALIGNED_ELEMENTS: i64 = 8;

pub(super) fn find_unaligned_gemms(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let Some(device) = scene.device else {
        return Vec::new();
    };
    let is_large = |gemm: &Gemm| {
        gemm.groups == 1
            && gemm.m >= COMPUTE_BOUND_MIN_ROWS
            && matches!(gemm.dtype, DType::Bf16 | DType::F16)
    };
    let usual = measured_efficiency(scene, device, |gemm| is_large(gemm) && is_aligned(gemm));
    let mut edit = Edit::default();
    let (mut count, mut total, mut longest) = (0, 0, None::<&Gemm>);
    for gemm in &scene.gemms {
        let roofline = roofline_ns(device, gemm, gemm.dtype, Engine::Tensor);
        let (Some(roofline), false) = (roofline, is_aligned(gemm) || !is_large(gemm)) else {
            continue;
        };
        let is_slow = roofline / (gemm.device_ns as f64) < UNALIGNED_GEMM_MAX_SHARE * usual;
        let Some(after) = gemm_ns(device, gemm, gemm.dtype, usual).filter(|_| is_slow) else {
            continue;
        };
        let work = scene.graph.work();
        let kernel = gemm.work.clone().max_by_key(|&index| work[index].duration);
        if let Some(kernel) = kernel {
            edit.set_duration(kernel, after);
        }
        count += 1;
        total += gemm.device_ns;
        if longest.is_none_or(|longest| gemm.device_ns > longest.device_ns) {
            longest = Some(gemm);
        }
    }
    let Some(longest) = longest else {
        return Vec::new();
    };
    vec![CauseCandidate {
        kind: CauseKind::UnalignedGemms {
            shape: format!(
                "[{}, {}] × [{}, {}]",
                longest.m, longest.k, longest.k, longest.n
            ),
            kernels_ns: Nanos(scene.a_step(total)),
        },
        place: scene.place(longest.row),
        count,
        edit,
        partial: None,
    }]
}

fn is_aligned(gemm: &Gemm) -> bool {
    gemm.k % ALIGNED_ELEMENTS == 0 && gemm.n % ALIGNED_ELEMENTS == 0
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    /// Four layers with a matrix of `width` columns that takes `us`.
    fn sketch_width(width: i64, us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.matrix_product(8192, 2048, 2048, 130);
            sketch.matrix_product(8192, 2048, width, us);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn an_odd_width_with_slow_kernels_is_a_cause() {
        let diagnosed = sketch_width(5461, 1_400).diagnose();
        let (saved, now) = diagnosed.gain_of("unaligned_gemms").unwrap();
        assert!((3.8..4.6).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn aligned_widths_and_fast_kernels_are_none() {
        for (width, us) in [(5464, 1_400), (5461, 360)] {
            let diagnosed = sketch_width(width, us).diagnose();
            assert_eq!(diagnosed.gain_of("unaligned_gemms"), None, "{width} {us}");
        }
    }
}
