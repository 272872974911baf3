//! New durations of device work: the roofline of the device at the efficiency that the trace shows.

use crate::thresholds::{
    BANDWIDTH_OPERATORS_MIN, BANDWIDTH_TENSOR_MIN_BYTES, GEMM_EFFICIENCY_MAX, KERNEL_MIN_NS,
};
use llmprof_record::kernel_name::Category;
use llmprof_theory::device::{Device, Engine};
use llmprof_units::{DType, stats::median};

use super::gemms::{dtype_of, roofline_ns};
use super::model_work::Gemm;
use super::scene::Scene;

/// Efficiency of GEMMs where the trace has none of the kind to learn from.
const EFFICIENCY_DEFAULT: f64 = 0.6;
/// What fused attention reaches of the efficiency of GEMMs (FlashAttention 2 and cuDNN on H100 and H200: 0.5–0.75).
const ATTENTION_OF_GEMM: f64 = 0.65;

/// The units that GEMMs of a format run on here: FP32 kernels without TF32 use the vector units.
pub(super) fn engine_of(scene: &Scene<'_>, gemm: &Gemm) -> (DType, Engine) {
    if gemm.dtype != DType::F32 {
        return (gemm.dtype, Engine::Tensor);
    }
    let work = &scene.graph.work()[gemm.work.clone()];
    let longest = work.iter().max_by_key(|work| work.duration);
    let name = longest.map_or("", |work| scene.work_name(work));
    let on_tensor_cores = ["tf32", "tensorop", "s1688", "s168"];
    if on_tensor_cores.iter().any(|part| name.contains(part)) {
        (DType::Tf32, Engine::Tensor)
    } else {
        (DType::F32, Engine::Vector)
    }
}

/// Roofline time ÷ measured time of the GEMMs that `is_like`, weighted by their time.
pub(super) fn measured_efficiency(
    scene: &Scene<'_>,
    device: &Device,
    is_like: impl Fn(&Gemm) -> bool,
) -> f64 {
    let (mut least, mut measured) = (0.0, 0.0);
    for gemm in scene.gemms.iter().filter(|gemm| is_like(gemm)) {
        let (dtype, engine) = engine_of(scene, gemm);
        if let Some(time) = roofline_ns(device, gemm, dtype, engine) {
            least += time;
            measured += gemm.device_ns as f64;
        }
    }
    if measured > 0.0 {
        (least / measured).min(GEMM_EFFICIENCY_MAX)
    } else {
        EFFICIENCY_DEFAULT
    }
}

/// A GEMM with other rows or in another format, ns.
pub(super) fn gemm_ns(device: &Device, gemm: &Gemm, dtype: DType, efficiency: f64) -> Option<i64> {
    let time = roofline_ns(device, gemm, dtype, Engine::Tensor)? / efficiency;
    Some((time as i64).max(KERNEL_MIN_NS))
}

/// What reading and writing a byte takes an elementwise operator on one large tensor, ns; `None` where the phase has too few.
pub(super) fn read_and_write_ns(scene: &Scene<'_>) -> Option<f64> {
    let mut times: Vec<f64> = Vec::new();
    for &top in &scene.tops {
        let work = &scene.graph.work()[scene.work_of(top)];
        let mut bytes = tensor_bytes(scene, top);
        if let ([kernel], Some(bytes), None) = (work, bytes.next(), bytes.next())
            && bytes >= BANDWIDTH_TENSOR_MIN_BYTES
            && scene.category(kernel) == Category::Elementwise
        {
            times.push(kernel.duration as f64 / bytes as f64);
        }
    }
    let is_enough = times.len() >= BANDWIDTH_OPERATORS_MIN;
    median(&mut times).filter(|_| is_enough)
}

/// Sizes of an operator's tensors.
pub(super) fn tensor_bytes<'a>(
    scene: &'a Scene<'_>,
    row: usize,
) -> impl Iterator<Item = u64> + use<'a> {
    let tensors = scene.tensors(row).into_iter();
    tensors.filter_map(|(dims, dtype)| {
        let bits = dtype_of(dtype)?.bits() as u64;
        let sizes = dims.iter().map(|size| size.unsigned_abs());
        let elements = sizes.fold(1_u64, u64::saturating_mul);
        (!dims.is_empty()).then_some(elements.saturating_mul(bits) / 8)
    })
}

/// Fused attention of `[batch × heads, queries, keys]` in a 16-bit format, ns.
pub(super) fn attention_ns(
    device: &Device,
    heads: i64,
    queries: i64,
    keys: i64,
    head_dim: i64,
    gemm_efficiency: f64,
) -> Option<i64> {
    let peak = device.dense_peak(DType::Bf16, Engine::Tensor).ok()?;
    let (heads, queries, keys, dim) = (heads as f64, queries as f64, keys as f64, head_dim as f64);
    // A causal mask halves the work where queries and keys are the same tokens.
    let masked = if queries == keys { 0.5 } else { 1.0 };
    let flops = 4.0 * heads * queries * keys * dim * masked;
    let bytes = 2.0 * heads * dim * (2.0 * queries + 2.0 * keys);
    let compute = flops / (peak.dense_flops_per_s.0 * gemm_efficiency * ATTENTION_OF_GEMM);
    let memory = bytes / (device.memory_bandwidth().0 * 0.6);
    Some(((compute.max(memory) * 1e9) as i64).max(3 * KERNEL_MIN_NS))
}
