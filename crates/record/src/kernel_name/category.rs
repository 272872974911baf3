use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Lowered, Rule, anywhere, first_match, head};

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Matrix product, the reduction after a split-K product included.
    Gemm,
    Gemv,
    /// Attention, fused or in parts, and the merging of its partial results.
    Attention,
    Conv,
    /// One output from the same place of each input: arithmetic, activations, fills.
    Elementwise,
    /// Layer, RMS, group or batch normalization.
    Norm,
    Softmax,
    /// Sum, mean, maximum and their like.
    Reduce,
    Scan,
    /// A copy that may change dtype or layout.
    Copy,
    /// Concatenation or splitting of tensors.
    Cat,
    /// Reads or writes through indices: gather, scatter, select, masks.
    Index,
    Rope,
    /// Lookup in an embedding table.
    Embedding,
    /// Writes into a paged key-value cache.
    Cache,
    Sort,
    /// Choosing tokens from logits.
    Sampling,
    /// Scaling to or from a narrower format.
    Quantize,
    /// Routing and permuting tokens for a mixture of experts.
    Moe,
    /// State-space and linear-attention recurrences.
    Recurrence,
    /// Generation of random numbers.
    Random,
    Resample,
    Communication,
    /// Setting memory to one value.
    Memset,
    /// None of these, as far as the name shows.
    Other,
}

impl Category {
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Gemv => "gemv",
            Self::Attention => "attention",
            Self::Conv => "conv",
            Self::Elementwise => "elementwise",
            Self::Norm => "norm",
            Self::Softmax => "softmax",
            Self::Reduce => "reduce",
            Self::Scan => "scan",
            Self::Copy => "copy",
            Self::Cat => "cat",
            Self::Index => "index",
            Self::Rope => "rope",
            Self::Embedding => "embedding",
            Self::Cache => "cache",
            Self::Sort => "sort",
            Self::Sampling => "sampling",
            Self::Quantize => "quantize",
            Self::Moe => "moe",
            Self::Recurrence => "recurrence",
            Self::Random => "random",
            Self::Resample => "resample",
            Self::Communication => "communication",
            Self::Memset => "memset",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

pub(super) fn of(name: &Lowered) -> Category {
    let table = if name.head.starts_with("triton_") {
        inductor(&name.head)
    } else {
        None
    };
    table
        .or_else(|| first_match(RULES, name))
        .unwrap_or(Category::Other)
}

/// First match decides, so a fused kernel takes the row that costs most: attention before rope before norm.
const RULES: &[Rule<Category>] = &[
    // Exchange between devices.
    head("nccl", Category::Communication),
    head("nvshmem", Category::Communication),
    head("allreduce", Category::Communication),
    head("all_reduce", Category::Communication),
    head("cross_device_reduce", Category::Communication),
    head("allgather", Category::Communication),
    head("all_gather", Category::Communication),
    head("reduce_scatter", Category::Communication),
    head("multimem", Category::Communication),
    head("all2all", Category::Communication),
    head("alltoall", Category::Communication),
    head("deep_ep", Category::Communication),
    // GEMMs inside a mixture of experts, before its routing.
    head("fused_moe_kernel", Category::Gemm),
    head("marlin_moe", Category::Gemm),
    head("moe_gemm", Category::Gemm),
    head("moe_align", Category::Moe),
    head("moe_sum", Category::Moe),
    head("moe_permute", Category::Moe),
    head("expandinputrows", Category::Moe),
    head("finalizemoerouting", Category::Moe),
    head("topkgating", Category::Moe),
    head("grouped_topk", Category::Moe),
    head("routing", Category::Moe),
    head("expert", Category::Moe),
    // Attention.
    anywhere("sdpa", Category::Attention),
    anywhere("fmha", Category::Attention),
    anywhere("flash_fwd", Category::Attention),
    anywhere("flash_bwd", Category::Attention),
    anywhere("flashattn", Category::Attention),
    anywhere("flash_attn", Category::Attention),
    anywhere("flashmla", Category::Attention),
    anywhere("flash_mla", Category::Attention),
    anywhere("flash_fprop", Category::Attention),
    head("paged_attention", Category::Attention),
    head("reshape_and_cache", Category::Cache),
    head("concat_and_cache", Category::Cache),
    head("appendpagedkv", Category::Cache),
    head("copy_blocks", Category::Cache),
    head("withpagedkvcache", Category::Attention),
    head("withraggedkvcache", Category::Attention),
    head("withkvcache", Category::Attention),
    head("multihead_attention", Category::Attention),
    head("mergestate", Category::Attention),
    head("merge_attn_states", Category::Attention),
    head("attention", Category::Attention),
    head("xqa", Category::Attention),
    head("attn_fwd", Category::Attention),
    head("_fwd_kernel_stage", Category::Attention),
    head("_fwd_grouped_kernel", Category::Attention),
    // Rotary embedding, alone or fused with what surrounds it.
    head("rotary", Category::Rope),
    head("rope", Category::Rope),
    // Normalization.
    head("rms_norm", Category::Norm),
    head("rmsnorm", Category::Norm),
    head("layer_norm", Category::Norm),
    head("layernorm", Category::Norm),
    head("group_norm", Category::Norm),
    head("groupnorm", Category::Norm),
    head("batch_norm", Category::Norm),
    head("rowwisemoments", Category::Norm),
    head("l2norm", Category::Norm),
    head("bn_fw", Category::Norm),
    // Recurrences.
    head("selective_scan", Category::Recurrence),
    head("chunk_scan", Category::Recurrence),
    head("chunk_state", Category::Recurrence),
    head("gated_delta", Category::Recurrence),
    head("causal_conv1d", Category::Conv),
    // Convolutions, before products: some are implicit products.
    head("nchwtonhwc", Category::Copy),
    head("nhwctonchw", Category::Copy),
    anywhere("fprop", Category::Conv),
    anywhere("dgrad", Category::Conv),
    anywhere("wgrad", Category::Conv),
    anywhere("implicit_gemm", Category::Conv),
    anywhere("convolve", Category::Conv),
    anywhere("winograd", Category::Conv),
    head("conv2d", Category::Conv),
    head("conv_depthwise", Category::Conv),
    head("convolution", Category::Conv),
    // GEMMs.
    head("cijk_", Category::Gemm),
    head("nvjet", Category::Gemm),
    head("splitkreduce", Category::Gemm),
    head("gemv", Category::Gemv),
    head("gemm", Category::Gemm),
    head("marlin", Category::Gemm),
    head("machete", Category::Gemm),
    head("matmul", Category::Gemm),
    head("dot_kernel", Category::Gemv),
    anywhere("cublasgemvparams", Category::Gemv),
    head("cutlass", Category::Gemm),
    anywhere("kernel2<cutlass", Category::Gemm),
    // Change of format.
    head("quant", Category::Quantize),
    head("scaled_fp8", Category::Quantize),
    head("cvt_fp", Category::Quantize),
    // Choosing tokens.
    head("sampling", Category::Sampling),
    head("samplefromprob", Category::Sampling),
    head("multinomial", Category::Sampling),
    head("penalt", Category::Sampling),
    head("topp", Category::Sampling),
    head("softmax", Category::Softmax),
    head("topk", Category::Sort),
    head("sort", Category::Sort),
    head("scan", Category::Scan),
    head("cumsum", Category::Scan),
    head("distribution_", Category::Random),
    head("curand", Category::Random),
    // Movement.
    head("catarray", Category::Cat),
    head("split_with_sizes", Category::Cat),
    head("embedding", Category::Embedding),
    head("elementwise_kernel_with_index", Category::Elementwise),
    head("index", Category::Index),
    head("indices", Category::Index),
    head("gather", Category::Index),
    head("scatter", Category::Index),
    head("nonzero", Category::Index),
    anywhere("masked_scatter", Category::Index),
    head("upsample", Category::Resample),
    head("interpolate", Category::Resample),
    head("transpose", Category::Copy),
    head("permute", Category::Copy),
    head("memcpy", Category::Copy),
    head("memset", Category::Memset),
    anywhere("copy_kernel", Category::Copy),
    head("copy", Category::Copy),
    head("reduce", Category::Reduce),
    head("argmax", Category::Reduce),
    // What remains of point-by-point work.
    head("elementwise", Category::Elementwise),
    head("pointwise", Category::Elementwise),
    head("multi_tensor_apply", Category::Elementwise),
    head("act_and_mul", Category::Elementwise),
    head("silu", Category::Elementwise),
    head("gelu", Category::Elementwise),
    head("swiglu", Category::Elementwise),
    head("fill", Category::Elementwise),
    head("fused_", Category::Elementwise),
];

/// Arithmetic by which a fused kernel does work of an operator, whatever it moves meanwhile: rotations concatenate, and
/// write into the cache. `add` is not among them, since positions are added to without any.
const ARITHMETIC: &[&str] = &[
    "mul", "sub", "div", "neg", "cos", "sin", "pow", "exp", "rsqrt", "sqrt", "sigmoid", "silu",
    "gelu", "tanh", "relu",
];

/// Names that TorchInductor gives: `triton_<kind>_fused_<operators>_<number>`.
fn inductor(name: &str) -> Option<Category> {
    let kind = name.strip_prefix("triton_")?.split('_').next()?;
    let (_, operators) = name.split_once("fused_")?;
    let has = |operator: &str| operators.contains(operator);
    let calculates = operators
        .split('_')
        .any(|operator| ARITHMETIC.contains(&operator));
    let reduces = matches!(kind, "red" | "per" | "mix");
    Some(match kind {
        "tem" if has("conv") => Category::Conv,
        "tem" if has("attention") => Category::Attention,
        "tem" | "mm" | "bmm" => Category::Gemm,
        _ if has("softmax") => Category::Softmax,
        _ if reduces && (has("rsqrt") || has("norm")) => Category::Norm,
        _ if has("embedding") => Category::Embedding,
        _ if has("cumsum") => Category::Scan,
        _ if reduces => Category::Reduce,
        _ if calculates => Category::Elementwise,
        _ if has("cat") => Category::Cat,
        _ if has("index") || has("gather") || has("scatter") => Category::Index,
        _ if has("clone") || has("_to_copy") && !has("add") => Category::Copy,
        "poi" | "for" => Category::Elementwise,
        _ => return None,
    })
}
