//! Whether GEMM kernels read weights of the format that the model has.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::Trace;
use llmprof_theory::{Kind, Routing, Workload};

use crate::analyze::subject::AskedModel;
use crate::thresholds::PLAIN_WEIGHT_MIN_BYTES;
use crate::trace::Structure;

/// The longest GEMM kernel in 8 or fewer bits, where most GEMM time is in such kernels, by their names, and all matrices of the model that
/// was named have 16 bits or more: a quantized checkpoint ran, whose weights are fewer bytes.
pub(super) fn other_format<'t>(
    structure: &Structure,
    trace: &'t Trace,
    said: &AskedModel<'_>,
) -> Option<&'t str> {
    let (mut all, mut narrow) = (0_i128, 0_i128);
    let mut example: Option<(i64, &'t str)> = None;
    for event in structure.events.all() {
        let category = structure.events.class_of(event.name).category;
        if !matches!(category, Category::Gemm | Category::Gemv) {
            continue;
        }
        let (time, name) = (event.duration(), trace.text(event.name));
        all += i128::from(time);
        if is_narrow(name) {
            narrow += i128::from(time);
            if example.is_none_or(|(longest, _)| time > longest) {
                example = Some((time, name));
            }
        }
    }
    let (_, name) = example.filter(|_| 2 * narrow > all)?;
    let least = least_bytes(said)?;
    (least >= PLAIN_WEIGHT_MIN_BYTES).then_some(name)
}

/// Whether the name of a GEMM says that it multiplies by weights of 8 or fewer bits.
fn is_narrow(name: &str) -> bool {
    const WORDS: [&str; 15] = [
        "fp8", "e4m3", "e5m2", "fp4", "f4gemm", "mxfp", "int4", "4bit", "marlin", "awq", "gptq",
        "w4a", "a8w8", "w8a8", "nvjet_qq",
    ];
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
        || name.starts_with("cijk_") && name.contains("_f8")
}

/// The fewest bytes that a weight of any matrix of the model has.
fn least_bytes(said: &AskedModel<'_>) -> Option<f64> {
    // Of all experts, however many there are.
    let workload = Workload {
        routing: Routing::Measured {
            prefill: f64::MAX,
            decode: f64::MAX,
        },
        ..said.workload
    };
    let step = said.model.decode_step(&workload);
    let mut least: Option<f64> = None;
    said.model.lower_pass(&workload, &step, &mut |operator| {
        let is_matrix = matches!(operator.kind, Kind::Linear | Kind::Experts);
        if is_matrix && operator.parameters > 0 && operator.traffic.weights > 0 {
            let steps = operator.steps.max(1) as f64;
            let bytes = operator.traffic.weights as f64 / steps / operator.parameters as f64;
            least = Some(least.map_or(bytes, |least| least.min(bytes)));
        }
    });
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_narrow_formats() {
        for name in [
            "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u>(float*)",
            "void marlin::Marlin<__nv_bfloat16, 256>(int4 const*)",
            "_p_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x64x1",
            "Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAB_SAV_MT256x256x128",
            "nvjet_qqtst_128x256_128x6_2x1_v_bz_coopA_TNT",
        ] {
            assert!(is_narrow(name), "{name}");
        }
        for name in [
            "nvjet_tst_64x8_64x16_4x1_v_bz_TNT",
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32",
            "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn",
            "fused_moe_kernel",
        ] {
            assert!(!is_narrow(name), "{name}");
        }
    }
}
