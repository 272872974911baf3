use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Lowered, NameRule, anywhere, first_match, head};

/// The library a kernel's code comes from.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    Cublas,
    /// cuBLASLt, whose kernels since Hopper are named `nvjet`.
    CublasLt,
    /// CUTLASS templates, wherever they were compiled; cuBLAS has some too.
    Cutlass,
    Cudnn,
    /// FlashAttention, also the copy inside PyTorch.
    FlashAttention,
    /// The memory-efficient attention of xFormers that PyTorch carries.
    MemoryEfficientAttention,
    FlashInfer,
    DeepGemm,
    Aten,
    /// Compiled by Triton, TorchInductor's kernels included.
    Triton,
    /// nvFuser: fused by the compiler of TorchScript.
    NvFuser,
    Nccl,
    Nvshmem,
    Vllm,
    Sglang,
    TensorRtLlm,
    Cub,
    /// Generates the kernels of hipBLASLt and rocBLAS.
    #[serde(alias = "hip_blas_lt")]
    Tensile,
    ComposableKernel,
    Miopen,
    Aiter,
    RocPrim,
    /// FBGEMM, the kernels of recommender models.
    Fbgemm,
    Xla,
    /// Not shown by the name.
    Unknown,
}

impl Library {
    /// The name as its makers write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cublas => "cuBLAS",
            Self::CublasLt => "cuBLASLt",
            Self::Cutlass => "CUTLASS",
            Self::Cudnn => "cuDNN",
            Self::FlashAttention => "FlashAttention",
            Self::MemoryEfficientAttention => "MemEffAttention",
            Self::FlashInfer => "FlashInfer",
            Self::DeepGemm => "DeepGEMM",
            Self::Aten => "ATen",
            Self::Triton => "Triton",
            Self::NvFuser => "nvFuser",
            Self::Nccl => "NCCL",
            Self::Nvshmem => "NVSHMEM",
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::TensorRtLlm => "TensorRT-LLM",
            Self::Cub => "CUB",
            Self::Tensile => "Tensile",
            Self::ComposableKernel => "Composable Kernel",
            Self::Miopen => "MIOpen",
            Self::Aiter => "AITER",
            Self::RocPrim => "rocPRIM",
            Self::Fbgemm => "FBGEMM",
            Self::Xla => "XLA",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

pub(super) fn find_library(name: &Lowered) -> Library {
    // TorchInductor's names list what was fused, operators of other libraries among it.
    if name.head.starts_with("triton_") {
        return Library::Triton;
    }
    if is_fusion_of_xla(&name.head) {
        return Library::Xla;
    }
    first_match(RULES, name).unwrap_or(Library::Unknown)
}

/// XLA calls a fusion by its kind and operators: `loop_add_multiply_fusion_3`, `gemm_fusion_dot_12`.
fn is_fusion_of_xla(head: &str) -> bool {
    let name = head.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '_' | '.'));
    !head.contains("::") && (name.ends_with("_fusion") || name.starts_with("gemm_fusion_"))
}

/// First match decides: the outer library before the templates it was built from.
const RULES: &[NameRule<Library>] = &[
    // Fused kernels of Megatron and Apex; ATen's have the same ending.
    head("scaled_upper_triang", Library::Unknown),
    head("scaled_masked_softmax", Library::Unknown),
    head("nccl", Library::Nccl),
    head("nvshmem", Library::Nvshmem),
    anywhere("flashinfer", Library::FlashInfer),
    anywhere("tensorrt_llm", Library::TensorRtLlm),
    anywhere("trtllm", Library::TensorRtLlm),
    anywhere("deep_gemm", Library::DeepGemm),
    anywhere("vllm", Library::Vllm),
    anywhere("sglang", Library::Sglang),
    head("sgl_", Library::Sglang),
    anywhere("aiter::", Library::Aiter),
    anywhere("_zn5aiter", Library::Aiter),
    head("cijk_", Library::Tensile),
    head("miopen", Library::Miopen),
    head("igemm_fwd_gtcx", Library::Miopen),
    head("igemm_bwd_gtcx", Library::Miopen),
    head("igemm_wrw_gtcx", Library::Miopen),
    head("naive_conv_", Library::Miopen),
    head("subtensorop", Library::Miopen),
    anywhere("ck_tile", Library::ComposableKernel),
    head("ck::", Library::ComposableKernel),
    head("_fused_qk_rope", Library::Aiter),
    head("paged_attention_ll4mi", Library::Vllm),
    anywhere("rocprim", Library::RocPrim),
    anywhere("fbgemm", Library::Fbgemm),
    head("linearize_index_kernel", Library::Fbgemm),
    head("permute_pooled_embs", Library::Fbgemm),
    head("split_embedding", Library::Fbgemm),
    head("redzone", Library::Xla),
    head("wrapped_", Library::Xla),
    anywhere("flash_fwd", Library::FlashAttention),
    anywhere("flash_bwd", Library::FlashAttention),
    anywhere("flashattn", Library::FlashAttention),
    anywhere("flash_attn", Library::FlashAttention),
    anywhere("pytorchmemeffattention", Library::MemoryEfficientAttention),
    head("fmha_cutlass", Library::MemoryEfficientAttention),
    anywhere("cudnn", Library::Cudnn),
    head("nvjet", Library::CublasLt),
    anywhere("cublaslt", Library::CublasLt),
    head("splitkreduce", Library::CublasLt),
    anywhere("cublas", Library::Cublas),
    head("gemvx", Library::Cublas),
    head("gemv2", Library::Cublas),
    head("gemvnsp", Library::Cublas),
    head("gemmsn", Library::Cublas),
    // Names of the form ampere_fp16_s16816gemm_… and sm90_xmma_gemm_… are cuBLAS's compiled kernels.
    head("xmma_gemm", Library::Cublas),
    head("volta_", Library::Cublas),
    head("turing_", Library::Cublas),
    head("ampere_", Library::Cublas),
    head("hopper_", Library::Cublas),
    head("cutlass", Library::Cutlass),
    anywhere("kernel2<cutlass", Library::Cutlass),
    head("cub::", Library::Cub),
    head("thrust::", Library::Cub),
    head("fused__", Library::NvFuser),
    head("at::", Library::Aten),
    anywhere("at::native", Library::Aten),
    // Kernels of vLLM's Triton and CUDA sources that carry no namespace.
    head("fused_moe_kernel", Library::Vllm),
    head("paged_attention_v", Library::Vllm),
    head("reshape_and_cache", Library::Vllm),
    head("kernel_unified_attention", Library::Vllm),
    // Triton's own kernels of experts, and of attention in PyTorch on AMD.
    head("_matmul_ogs", Library::Triton),
    head("_p_matmul_ogs", Library::Triton),
    head("_finalize_matmul", Library::Triton),
    head("_combined_routing", Library::Triton),
    head("_topk_forward", Library::Triton),
    head("attn_fwd", Library::Triton),
    // ATen's kernels in spellings without namespaces.
    head("elementwise_kernel", Library::Aten),
    head("catarraybatchedcopy", Library::Aten),
    head("reduce_kernel", Library::Aten),
    head("softmax_warp_forward", Library::Aten),
    head("cunn_softmax", Library::Aten),
    head("indexselect", Library::Aten),
    head("indexfunc", Library::Aten),
    head("gathertopk", Library::Aten),
    head("bitonicsort", Library::Aten),
    head("vectorized_layer_norm", Library::Aten),
    head("vectorized_gather", Library::Aten),
    head("index_elementwise", Library::Aten),
];
