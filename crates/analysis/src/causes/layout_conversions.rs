//! Convolutions in the layout that their kernels do not take: the library converts tensors before and after them.

use llmprof_units::Nanos;

use super::cause::CauseKind;
use super::{Candidate, Scene};
use crate::replay::Edit;

/// In the names of cuDNN's and MIOpen's kernels, in small letters.
const CONVERSIONS: [&str; 4] = ["nchwtonhwc", "nhwctonchw", "nchw_to_nhwc", "nhwc_to_nchw"];

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
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
    vec![Candidate {
        kind: CauseKind::LayoutConversions {
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: scene.place(longest),
        count,
        edit,
        partial: None,
    }]
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
        let found = sketch_tower(&[
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
        let (saved, now) = found.gain_of("layout_conversions").unwrap();
        assert!((0.5..0.6).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn kernels_of_one_layout_are_none() {
        let found =
            sketch_tower(&[("sm90_xmma_fprop_implicit_gemm_bf16_nhwckrsc", 100)]).diagnose();
        assert_eq!(found.gain_of("layout_conversions"), None);
    }
}
