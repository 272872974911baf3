//! GEMMs of a phase by the recorded shapes of their operators.

use llmprof_theory::device::{Device, Engine};
use llmprof_units::DType;

use super::model_work::Gemm;
use super::scene::Scene;

pub(crate) fn read_gemms(scene: &Scene<'_>) -> Vec<Gemm> {
    let rows = scene.tops.iter().flat_map(|&top| scene.rows_in(top));
    rows.filter_map(|row| read_gemm(scene, row)).collect()
}

fn read_gemm(scene: &Scene<'_>, row: usize) -> Option<Gemm> {
    let name = scene.name(row);
    // The operators that call a library; `aten::linear` and `aten::matmul` end in one of them.
    let skip = match name {
        "aten::mm" | "aten::bmm" | "aten::_scaled_mm" | "aten::_int_mm" => 0,
        "aten::addmm" | "aten::baddbmm" => 1,
        _ => return None,
    };
    let tensors = scene.tensors(row);
    let (&(left, dtype), &(right, _)) = (tensors.get(skip)?, tensors.get(skip + 1)?);
    let (groups, m, k, n) = match (left, right) {
        (&[m, k], &[_, n]) => (1, m, k, n),
        (&[groups, m, k], &[_, _, n]) => (groups, m, k, n),
        _ => return None,
    };
    let work = scene.work_of(row);
    let device_ns = scene.device_ns(row);
    (device_ns > 0).then(|| Gemm {
        row,
        groups,
        m,
        n,
        k,
        dtype: dtype_of(dtype).unwrap_or(DType::Bf16),
        work,
        device_ns,
    })
}

/// A dtype as torch's profiler writes it.
pub(crate) fn dtype_of(name: &str) -> Option<DType> {
    Some(match name {
        "c10::BFloat16" => DType::Bf16,
        "c10::Half" => DType::F16,
        "float" => DType::F32,
        "double" => DType::F64,
        "signed char" | "unsigned char" => DType::I8,
        name if name.contains("Float8_e4m3") => DType::F8E4m3,
        name if name.contains("Float8_e5m2") => DType::F8E5m2,
        _ => return None,
    })
}

/// The roofline time of a GEMM in a format, ns. FP32 without TF32 runs on the vector units.
pub(crate) fn roofline_ns(
    device: &Device,
    gemm: &Gemm,
    dtype: DType,
    engine: Engine,
) -> Option<f64> {
    let peak = device.dense_peak(dtype, engine).ok()?.dense_flops_per_s.0;
    let bytes = gemm.elements() * dtype.bits() as f64 / 8.0;
    let seconds = (gemm.flops() / peak).max(bytes / device.memory_bandwidth().0);
    Some(seconds * 1e9)
}
