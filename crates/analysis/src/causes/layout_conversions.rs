//! Convolutions in the layout that their kernels do not take: the library converts tensors before and after them.

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::estimate::{read_and_write_ns, tensor_bytes};
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// In the names of cuDNN's and MIOpen's kernels, in small letters.
const CONVERSIONS: [&str; 4] = ["nchwtonhwc", "nhwctonchw", "nchw_to_nhwc", "nhwc_to_nchw"];

/// Kernels of PyTorch for tensors in NCHW, whose counterparts for channels-last tensors are bound by memory alone.
const NCHW_KERNELS: [&str; 2] = ["batch_norm_transform_input_kernel", "max_pool_forward_nchw"];

pub(super) fn find_layout_conversions(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut edit = Edit::default();
    let (mut count, mut time, mut longest) = (0, 0, None);
    for &top in &scene.tops {
        for index in scene.work_of(top) {
            let work = &scene.graph.work()[index];
            let name = scene.work_name(work).to_ascii_lowercase();
            if !CONVERSIONS.iter().any(|part| name.contains(part)) {
                continue;
            }
            edit.drop_work(index);
            count += 1;
            time += work.duration;
            if longest.is_none_or(|(most, _)| work.duration > most) {
                longest = Some((work.duration, top));
            }
        }
    }
    let Some((_, longest)) = longest else {
        return Vec::new();
    };
    speed_up_between(scene, &mut edit);
    vec![CauseCandidate {
        kind: CauseKind::LayoutConversions {
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(longest),
        count,
        edit,
        partial: None,
    }]
}

/// Gives kernels that read NCHW the time in which another operator of this trace reads and writes as many bytes.
fn speed_up_between(scene: &Scene<'_>, edit: &mut Edit) {
    let Some(ns_per_byte) = read_and_write_ns(scene) else {
        return;
    };
    for &top in &scene.tops {
        for index in scene.work_of(top) {
            let name = scene.work_name(&scene.graph.work()[index]);
            if NCHW_KERNELS.iter().any(|part| name.contains(part)) {
                let bytes = tensor_bytes(scene, top).max().unwrap_or(0);
                if bytes > 0 {
                    edit.set_duration(index, (bytes as f64 * ns_per_byte) as i64);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_tower(kernels: &[(&str, i64)]) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..8 {
            sketch.operator(
                "aten::conv2d",
                &[(&[16, 64, 56, 56], "c10::BFloat16")],
                kernels,
            );
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn conversions_around_convolutions_are_a_cause() {
        let diagnosed = sketch_tower(&[
            (
                "cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16>",
                40,
            ),
            ("sm90_xmma_fprop_implicit_gemm_bf16_nhwckrsc", 100),
            (
                "cudnn::engines_precompiled::nhwcToNchwKernel<__nv_bfloat16>",
                30,
            ),
        ])
        .diagnose();
        let (saved, now) = diagnosed.gain_of("layout_conversions").unwrap();
        assert!((0.5..0.6).contains(&saved), "{saved} of {now} ms");
    }

    /// Batch normalization in `us`, and activations that read and write as much in 60 µs.
    fn sketch_normalized(us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        let tensors: &[(&[i64], &str)] = &[(&[128, 64, 56, 56], "c10::BFloat16")];
        for _ in 0..8 {
            let convert = "cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16>";
            let multiply = "sm90_xmma_fprop_implicit_gemm_bf16_nhwckrsc";
            let kernels = [(convert, 40), (multiply, 100)];
            sketch.operator("aten::conv2d", tensors, &kernels);
            let normalize = "void at::native::batch_norm_transform_input_kernel<c10::BFloat16>";
            sketch.operator("aten::batch_norm", tensors, &[(normalize, us)]);
            let clamp = "void at::native::vectorized_elementwise_kernel<8, clamp>";
            sketch.operator("aten::relu", tensors, &[(clamp, 60)]);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn kernels_between_them_that_read_nchw_get_the_bandwidth_of_the_trace() {
        let saved = |us| {
            let diagnosed = sketch_normalized(us).diagnose();
            diagnosed.gain_of("layout_conversions").unwrap().0
        };
        // 8 × (40 + 200 − 60) µs, and gaps.
        assert!((1.4..1.5).contains(&saved(200)), "{} ms", saved(200));
        assert!((0.3..0.4).contains(&saved(60)), "{} ms", saved(60));
    }

    #[test]
    fn kernels_of_one_layout_are_none() {
        let diagnosed =
            sketch_tower(&[("sm90_xmma_fprop_implicit_gemm_bf16_nhwckrsc", 100)]).diagnose();
        assert_eq!(diagnosed.gain_of("layout_conversions"), None);
    }
}
