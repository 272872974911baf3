use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Lowered, NameRule, anywhere, first_match, head, word, word_end};

/// The purpose of a kernel, as far as its name shows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
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
    /// Choosing the next token from logits.
    Sampling,
    /// Scaling to or from a narrower format.
    Quantize,
    /// Routing and permuting tokens for a mixture of experts.
    Moe,
    /// Recurrences of state-space and linear-attention models.
    Recurrence,
    Random,
    Resample,
    Communication,
    /// Run by a compiler to choose among kernels: checks of candidates and of their results.
    Autotune,
    /// A whole CUDA or HIP graph, recorded without its kernels.
    Graph,
    /// Setting memory to one value.
    Memset,
    /// An op of the host that makes a tensor and touches no data: views, memory that is not written.
    View,
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
            Self::Autotune => "autotune",
            Self::Graph => "graph",
            Self::Memset => "memset",
            Self::View => "view",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

pub(super) fn find_category(name: &Lowered) -> Category {
    let table = if name.head.starts_with("triton_") {
        inductor_category(&name.head)
    } else {
        None
    };
    let named = LIBRARIES.iter().find(|(word, _)| name.head.contains(word));
    if let Some((word, own)) = named {
        let name = name.without(word);
        let category = first_match(own, &name).or_else(|| first_match(RULES, &name));
        return category.unwrap_or(Category::Other);
    }
    table
        .or_else(|| first_match(RULES, name))
        .unwrap_or(Category::Other)
}

/// Libraries and namespaces with a purpose in their own names that most of their kernels do not have, and rows that their kernels
/// are looked up in first, without that word.
const LIBRARIES: &[(&str, &[NameRule<Category>])] = &[
    ("fbgemm", FBGEMM),
    ("deep_gemm", &[]),
    ("deepgemm", &[]),
    // TensorRT-LLM's namespace of what surrounds the GEMMs of experts, too.
    ("cutlass_kernels", &[]),
];

/// Names that only FBGEMM's kernels have.
const FBGEMM: &[NameRule<Category>] = &[
    head("split_embedding", Category::Embedding),
    head("permute", Category::Index),
    head("bucketize", Category::Index),
    head("jagged", Category::Index),
    head("offsets", Category::Index),
    head("fp8", Category::Quantize),
    head("quant", Category::Quantize),
    head("qparam", Category::Quantize),
    head("_float_to", Category::Quantize),
    head("fused8bit", Category::Quantize),
];

/// First match decides, so a fused kernel takes the row that costs most: attention before rope before norm.
const RULES: &[NameRule<Category>] = &[
    // Exchange between devices.
    anywhere("[cuda graph]", Category::Graph),
    head("nccl", Category::Communication),
    head("hcom_", Category::Communication),
    head("nvshmem", Category::Communication),
    head("allreduce", Category::Communication),
    head("all_reduce", Category::Communication),
    head("cross_device_reduce", Category::Communication),
    head("allgather", Category::Communication),
    head("all_gather", Category::Communication),
    head("reduce_scatter", Category::Communication),
    // Names of HLO have dashes, which are no part of a C++ name.
    anywhere("all-reduce", Category::Communication),
    anywhere("all-gather", Category::Communication),
    anywhere("all-to-all", Category::Communication),
    anywhere("reduce-scatter", Category::Communication),
    anywhere("collective-permute", Category::Communication),
    anywhere("cublas-gemm", Category::Gemm),
    anywhere("cublas-batch-gemm", Category::Gemm),
    anywhere("cublas-lt-matmul", Category::Gemm),
    anywhere("cudnn-conv", Category::Conv),
    head("multimem", Category::Communication),
    head("all2all", Category::Communication),
    head("alltoall", Category::Communication),
    head("deep_ep", Category::Communication),
    head("rccl", Category::Communication),
    head("msccl", Category::Communication),
    head("userbuffers", Category::Communication),
    head("::internode", Category::Communication),
    head("::intranode", Category::Communication),
    head("quickreduce", Category::Communication),
    head("quick_reduce", Category::Communication),
    head("epdispatch", Category::Communication),
    head("epcombine", Category::Communication),
    head("mori_ep", Category::Communication),
    head("a2a_", Category::Communication),
    // FBGEMM's kernels without its namespace, or in the templates of others.
    head("split_embedding", Category::Embedding),
    head("permute_2d", Category::Index),
    head("permute_1d", Category::Index),
    head("permute_pooled", Category::Index),
    head("jagged", Category::Index),
    anywhere("hfp8", Category::Quantize),
    // Bookkeeping of requests and pages, which names the kernel that it is for.
    head("token_pool", Category::Index),
    head("req_to_token", Category::Index),
    head("kv_indices", Category::Index),
    head("kv_splits", Category::Index),
    head("cache_loc", Category::Index),
    head("slot_mapping", Category::Index),
    head("block_table", Category::Index),
    head("alloc_extend", Category::Index),
    head("alloc_decode", Category::Index),
    head("spec_info", Category::Index),
    head("eagle_prepare", Category::Index),
    head("prepare_inputs", Category::Index),
    head("prefill_inputs", Category::Index),
    head("pos_seq_lens", Category::Index),
    head("draft_tokens", Category::Index),
    head("verified_id", Category::Index),
    head("evict_mask", Category::Index),
    head("_post_update_kernel", Category::Index),
    head("repack", Category::Copy),
    head("write_zeros", Category::Memset),
    head("fillbuffer", Category::Memset),
    // XLA compares memory around the results of the kernels that it tries out.
    head("redzone", Category::Autotune),
    head("xla_fp_comparison", Category::Autotune),
    head("xla_int_comparison", Category::Autotune),
    // GEMMs inside a mixture of experts, before its routing.
    head("fused_moe_kernel", Category::Gemm),
    head("moe_lora", Category::Gemm),
    head("group_gemm_starts", Category::Moe),
    head("grouped_gemm_data", Category::Moe),
    head("problem_sizes", Category::Moe),
    head("arg_sorts", Category::Moe),
    head("computestrides", Category::Moe),
    head("ragged_tensor", Category::Moe),
    head("masked_compaction", Category::Moe),
    head("reduce_grouped", Category::Moe),
    head("_topk_forward", Category::Moe),
    head("compute_m_range", Category::Moe),
    head("deepep_permute", Category::Moe),
    head("_reorder_triton", Category::Moe),
    head("seg_indptr", Category::Moe),
    head("src2dst", Category::Moe),
    head("fmoe", Category::Gemm),
    anywhere("ck_tile::fusedmoegemm", Category::Gemm),
    anywhere("moesorting", Category::Moe),
    anywhere("moesmoothquant", Category::Quantize),
    anywhere("topksoftmax", Category::Moe),
    head("topk_softmax", Category::Moe),
    head("_fwd_kernel_ep_", Category::Moe),
    head("bitmatrix", Category::Moe),
    head("expt_data", Category::Moe),
    head("shuffle_rows", Category::Moe),
    head("moe_fused_gate", Category::Moe),
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
    // Linear attention, before what is called so for short.
    head("lightning_attn", Category::Recurrence),
    head("linear_attn", Category::Recurrence),
    head("_fwd_diag_kernel", Category::Recurrence),
    head("_fwd_none_diag", Category::Recurrence),
    head("_fwd_kv_", Category::Recurrence),
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
    head("and_cache", Category::Cache),
    head("gather_cache", Category::Cache),
    head("dequant_cache", Category::Cache),
    head("swap_blocks", Category::Cache),
    head("set_rows", Category::Cache),
    head("appendpagedkv", Category::Cache),
    head("copy_blocks", Category::Cache),
    head("withpagedkvcache", Category::Attention),
    head("withraggedkvcache", Category::Attention),
    head("withkvcache", Category::Attention),
    head("multihead_attention", Category::Attention),
    head("mergestate", Category::Attention),
    head("merge_state", Category::Attention),
    head("reduce_segments", Category::Attention),
    head("prepare_varlen_num_blocks", Category::Attention),
    head("flex_decoding", Category::Attention),
    head("sage_attn", Category::Attention),
    head("sage_fwd", Category::Attention),
    head("sage_bwd", Category::Attention),
    head("clean_logits", Category::Attention),
    head("merge_attn_states", Category::Attention),
    head("attention", Category::Attention),
    head("xqa", Category::Attention),
    head("attn_fwd", Category::Attention),
    head("_fwd_kernel_stage", Category::Attention),
    head("_fwd_grouped_kernel", Category::Attention),
    head("kv_buffer", Category::Cache),
    head("_attn_kernel", Category::Attention),
    head("sageattn", Category::Attention),
    head("mla_", Category::Attention),
    head("_mla", Category::Attention),
    head("sparse_attn", Category::Attention),
    head("mqa_logits", Category::Attention),
    head("aiter::pa_", Category::Attention),
    head("store_kv", Category::Cache),
    head("store_cache", Category::Cache),
    head("kvcache", Category::Cache),
    head("kv_cache", Category::Cache),
    // Rotary embedding, alone or fused with what surrounds it.
    head("rotary", Category::Rope),
    word("rope", Category::Rope),
    word("mrope", Category::Rope),
    head("kn_entry_", Category::Rope),
    // Normalization.
    head("rms_norm", Category::Norm),
    head("rmsnorm", Category::Norm),
    head("layer_norm", Category::Norm),
    head("layernorm", Category::Norm),
    head("group_norm", Category::Norm),
    head("groupnorm", Category::Norm),
    head("batch_norm", Category::Norm),
    head("batchnorm", Category::Norm),
    head("rowwisemoments", Category::Norm),
    head("gammabetabackward", Category::Norm),
    head("l2norm", Category::Norm),
    head("ln_fwd", Category::Norm),
    head("ln_bwd", Category::Norm),
    head("gradgammabeta", Category::Norm),
    head("cucomputegradinput", Category::Norm),
    head("computefusedparams", Category::Norm),
    head("weight_norm", Category::Norm),
    head("fused_rms_", Category::Norm),
    head("bn_fw", Category::Norm),
    head("bn_bw", Category::Norm),
    // Templates of ck_tile have one entry for all kernels.
    anywhere("rmsnorm2d", Category::Norm),
    anywhere("layernorm2d", Category::Norm),
    anywhere("quacksoftmax", Category::Softmax),
    // Recurrences.
    head("selective_scan", Category::Recurrence),
    head("chunk_scan", Category::Recurrence),
    head("chunk_state", Category::Recurrence),
    head("gated_delta", Category::Recurrence),
    head("delta_rule", Category::Recurrence),
    head("fused_recurrent", Category::Recurrence),
    head("chunk_fwd_kernel", Category::Recurrence),
    head("dot_kkt", Category::Recurrence),
    head("recompute_w_u", Category::Recurrence),
    head("solve_tril", Category::Recurrence),
    head("_inverse_kernel", Category::Recurrence),
    head("state_passing", Category::Recurrence),
    head("kda_", Category::Recurrence),
    head("gdn_", Category::Recurrence),
    head("mamba", Category::Recurrence),
    head("wkv", Category::Recurrence),
    head("causal_conv1d", Category::Conv),
    // Convolutions, before products: some are implicit products.
    head("nchwtonhwc", Category::Copy),
    head("nhwctonchw", Category::Copy),
    head("cask_cudnn::compute", Category::Conv),
    anywhere("fprop", Category::Conv),
    anywhere("dgrad", Category::Conv),
    anywhere("wgrad", Category::Conv),
    anywhere("implicit_gemm", Category::Conv),
    anywhere("convolve", Category::Conv),
    anywhere("winograd", Category::Conv),
    // MIOpen's assembly and naive convolutions, forward, backward and of weights.
    head("asmconv", Category::Conv),
    head("igemm_fwd_", Category::Conv),
    head("igemm_bwd_", Category::Conv),
    head("igemm_wrw_", Category::Conv),
    head("igemm_v4r1", Category::Conv),
    head("naive_conv_", Category::Conv),
    head("miopenconv", Category::Conv),
    // Composable Kernel's are GEMMs by their template arguments.
    head("grouped_conv", Category::Conv),
    head("kernel_conv", Category::Conv),
    head("xdlops_bwd_weight", Category::Conv),
    anywhere("groupedconvolution", Category::Conv),
    head("conv1d", Category::Conv),
    head("conv2d", Category::Conv),
    head("conv3d", Category::Conv),
    head("conv_depthwise", Category::Conv),
    head("convolution", Category::Conv),
    // volta_scudnn_…, volta_fp16_s884cudnn_…, turing_fp16_s1688cudnn_…, ampere_fp16_s16816cudnn_…
    head("scudnn", Category::Conv),
    head("hcudnn", Category::Conv),
    head("84cudnn", Category::Conv),
    head("88cudnn", Category::Conv),
    head("16cudnn", Category::Conv),
    head("im2col", Category::Conv),
    head("col2im", Category::Conv),
    head("vol2col", Category::Conv),
    head("gen_conv", Category::Conv),
    head("scalepackedtensor", Category::Elementwise),
    // GEMMs.
    head("cijk_", Category::Gemm),
    head("nvjet", Category::Gemm),
    // TensorRT-LLM's generated GEMMs: bmm_<output>_<inputs>_….
    head("bmm_", Category::Gemm),
    // llama.cpp's.
    head("mul_mat_vec", Category::Gemv),
    head("mul_mat", Category::Gemm),
    head("scaled_mm", Category::Gemm),
    // torch's own weights of 8 and 4 bits.
    head("weight_int8pack_mm", Category::Gemm),
    head("tinygemm", Category::Gemm),
    head("grouped_mm", Category::Gemm),
    head("batched_triton_kernel", Category::Gemm),
    head("lora_shrink", Category::Gemm),
    head("lora_expand", Category::Gemm),
    head("_lora_a_kernel", Category::Gemm),
    head("_lora_b_kernel", Category::Gemm),
    head("triton_mm", Category::Gemm),
    head("triton_bmm", Category::Gemm),
    head("weight_only::kernel", Category::Gemv),
    head("reduce_1block", Category::Gemv),
    head("wvsplitk", Category::Gemv),
    head("llgemm1", Category::Gemv),
    head("flatmm", Category::Gemm),
    head("sgmv", Category::Gemm),
    head("bgmv", Category::Gemm),
    head("splitkreduce", Category::Gemm),
    head("gemv", Category::Gemv),
    head("gemm", Category::Gemm),
    head("marlin", Category::Gemm),
    head("machete", Category::Gemm),
    head("matmul", Category::Gemm),
    // Templates of ck_tile: `GroupedGemmKernel`, `QuantGemmKernel`, `MoeFlatmmKernel`.
    anywhere("gemmkernel", Category::Gemm),
    anywhere("flatmmkernel", Category::Gemm),
    // What is left of a mixture of experts are its routing and permutations.
    word("moe", Category::Moe),
    head("dot_kernel", Category::Gemv),
    anywhere("cublasgemvparams", Category::Gemv),
    head("cutlass", Category::Gemm),
    anywhere("kernel2<cutlass", Category::Gemm),
    // Change of format.
    word_end("quant", Category::Quantize),
    word_end("quantize", Category::Quantize),
    word_end("quantized", Category::Quantize),
    word_end("quantization", Category::Quantize),
    head("meanscale", Category::Quantize),
    head("scaled_fp8", Category::Quantize),
    head("cvt_fp", Category::Quantize),
    head("cast_transpose", Category::Quantize),
    head("cast_fp8", Category::Quantize),
    head("cast_to_fp8", Category::Quantize),
    head("cast_mxfp8", Category::Quantize),
    head("cast_nvfp4", Category::Quantize),
    head("amax", Category::Quantize),
    head("segmented_max", Category::Quantize),
    head("reconstruct_exllama", Category::Quantize),
    // Choosing tokens.
    word("sampling", Category::Sampling),
    head("samplefromprob", Category::Sampling),
    head("multinomial", Category::Sampling),
    head("penalt", Category::Sampling),
    word("topp", Category::Sampling),
    word("top_p", Category::Sampling),
    head("top_k_renorm", Category::Sampling),
    head("renormprob", Category::Sampling),
    head("topkmask", Category::Sampling),
    head("token_bitmask", Category::Sampling),
    head("gumbel", Category::Sampling),
    head("temperature", Category::Sampling),
    head("min_p_", Category::Sampling),
    head("bincount", Category::Sampling),
    head("greedy_sample", Category::Sampling),
    head("random_sample", Category::Sampling),
    head("sample_recovered", Category::Sampling),
    head("num_sampled", Category::Sampling),
    head("_ranks_kernel", Category::Sampling),
    head("acceptdraft", Category::Sampling),
    head("verify_tree", Category::Sampling),
    head("build_tree", Category::Sampling),
    head("cross_entropy", Category::Softmax),
    head("soft_max", Category::Softmax),
    head("softmax", Category::Softmax),
    head("topk", Category::Sort),
    word_end("sort", Category::Sort),
    word_end("sorts", Category::Sort),
    word_end("sorted", Category::Sort),
    word_end("sorting", Category::Sort),
    word_end("scan", Category::Scan),
    anywhere("wrapped_scan_config", Category::Scan),
    head("devicecompact", Category::Scan),
    head("cumsum", Category::Scan),
    head("distribution_", Category::Random),
    head("curand", Category::Random),
    head("randomnumbers", Category::Random),
    // Movement.
    head("catarray", Category::Cat),
    head("chunk_cat", Category::Cat),
    head("split_reshape_cat", Category::Cat),
    head("concatenate", Category::Cat),
    head("split_with_sizes", Category::Cat),
    head("embedding", Category::Embedding),
    head("get_rows", Category::Embedding),
    // Of the backward pass of embeddings.
    head("compute_grad_weight", Category::Embedding),
    head("partials_per_segment", Category::Embedding),
    head("elementwise_kernel_with_index", Category::Elementwise),
    // Sums by index: `scatter_add_`, `index_add_` (`ReduceAdd`), those of torch_scatter.
    anywhere("reduceadd", Category::Reduce),
    head("segment_csr", Category::Reduce),
    head("index", Category::Index),
    head("position_kernel", Category::Index),
    head("resolve_future_token_ids", Category::Index),
    head("indices", Category::Index),
    head("gather", Category::Index),
    head("scatter", Category::Index),
    head("nonzero", Category::Index),
    head("deviceselect", Category::Index),
    head("dynamic_update_slice", Category::Index),
    anywhere("dynamic-update-slice", Category::Index),
    anywhere("masked_scatter", Category::Index),
    head("upsample", Category::Resample),
    head("interpolate", Category::Resample),
    head("grid_sampl", Category::Resample),
    head("_pool", Category::Reduce),
    head("pooling", Category::Reduce),
    head("histogram", Category::Reduce),
    // MIOpen's changes of format and fills of tensors.
    head("subtensoropwithcast", Category::Copy),
    head("subtensoropwithscalar", Category::Memset),
    // Ascend's change of layout.
    head("transdata", Category::Copy),
    // cuDNN's.
    head("tensortransform", Category::Copy),
    head("transpose", Category::Copy),
    head("permute", Category::Copy),
    head("memcpy", Category::Copy),
    head("memset", Category::Memset),
    anywhere("copy_kernel", Category::Copy),
    word_end("copy", Category::Copy),
    head("cpy_", Category::Copy),
    head("reorder", Category::Copy),
    head("wrapped_slice", Category::Copy),
    head("reduce", Category::Reduce),
    head("argmax", Category::Reduce),
    head("mean_kernel", Category::Reduce),
    head("lpnorm", Category::Reduce),
    // What remains of point-by-point work.
    head("elementwise", Category::Elementwise),
    head("pointwise", Category::Elementwise),
    head("multi_tensor_apply", Category::Elementwise),
    head("act_and_mul", Category::Elementwise),
    head("silu", Category::Elementwise),
    head("gelu", Category::Elementwise),
    head("swiglu", Category::Elementwise),
    head("geglu", Category::Elementwise),
    word_end("relu", Category::Elementwise),
    head("sigmoid", Category::Elementwise),
    head("softcap", Category::Elementwise),
    head("activation", Category::Elementwise),
    head("unary", Category::Elementwise),
    head("bin_bcast", Category::Elementwise),
    head("add_kernel", Category::Elementwise),
    head("element_mul", Category::Elementwise),
    head("submean", Category::Elementwise),
    head("koptimizer", Category::Elementwise),
    anywhere("parallelforagent", Category::Elementwise),
    // Unsloth's activations: f(gate) × up, their derivatives.
    head("_fg_kernel", Category::Elementwise),
    head("_dfg_kernel", Category::Elementwise),
    head("_exact_forward", Category::Elementwise),
    head("_exact_backward", Category::Elementwise),
    word("fill", Category::Elementwise),
    head("triu_tril", Category::Elementwise),
    head("dropout", Category::Elementwise),
    word("adam", Category::Elementwise),
    word("adamw", Category::Elementwise),
    head("adagrad", Category::Elementwise),
    head("hadamard", Category::Elementwise),
    head("fused_", Category::Elementwise),
    // XLA names a fusion by its last operator: `wrapped_convert`, `loop_add_fusion`.
    head("convert", Category::Copy),
    head("broadcast", Category::Elementwise),
    head("wrapped_", Category::Elementwise),
    head("fusion", Category::Elementwise),
    // Attention in Triton has this name and no other; norms, convolutions and recurrences have a word before it.
    head("_fwd_kernel", Category::Attention),
];

/// Arithmetic by which a fused kernel does work of an operator, whatever it moves meanwhile: rotations concatenate, and
/// write into the cache. `add` is not among them, since positions are added to without any.
const ARITHMETIC: &[&str] = &[
    "mul", "sub", "div", "neg", "cos", "sin", "pow", "exp", "rsqrt", "sqrt", "sigmoid", "silu",
    "gelu", "tanh", "relu",
];

/// Names that TorchInductor gives: `triton_<kind>_fused_<operators>_<number>`.
fn inductor_category(name: &str) -> Option<Category> {
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

#[cfg(test)]
mod tests {
    use super::Category::{self, *};
    use crate::kernel_name::classify;

    /// One kernel of each family, spelled as its publisher's traces spell it.
    #[rustfmt::skip]
    const FAMILIES: &[(&str, Category)] = &[
        // AMD
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32_MI16x16x1_SN", Gemm),
        ("void ck::kernel_gemm_xdl_cshuffle_v3_multi_d<ck::GridwiseGemmMultiD_xdl_cshuffle_v3<ck::tensor_layout::gemm::RowMajor> >(ck::Args)", Gemm),
        ("void ck_tile::kentry<2, ck_tile::MoeSortingKernel<ck_tile::MoeSortingProblemEx<int, float, 2, true> > >(ck_tile::MoeSortingKernel::Kargs)", Moe),
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_27Rmsnorm2dFwdPipelineProblemIDF16bDF16bfDF16bDF16bDF16bff", Norm),
        ("void ck_tile::kentry<2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync<int> > >(Kargs)", Attention),
        ("aiter::fmoe_stage1_bf16_pertokenFp8_g1u1_128x128_pf2", Gemm),
        ("_ZN5aiter45fmha_fwd_hd128_bf16_causal_rtne_groupE", Attention),
        ("void aiter::topk_softmax_kernel<float, 4, 128>(float const*)", Moe),
        ("mla_a16w16_qh16_m16x4_n16x1_coex0_mask1", Attention),
        ("void kn_entry_2c_sbhd_cached_inplace<OpCachedFwd, 0, true>(float*)", Rope),
        ("void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 1>(int, int)", Gemv),
        ("void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16>(int)", Attention),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", Communication),
        ("void quickreduce::allreduce_prototype_twoshot<int>(int)", Communication),
        ("miopenSp3AsmConv_v30_3_1_gfx9_fp16_dot2_edc_f3x2_stride1", Conv),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_wr2x2_ta1x8x2x1_1x4x1x64_tb1x8x2x1_1x4x1x64_gkgs", Conv),
        ("igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt64x64x64_wt32x32x8_ws1x1_wr1x1_ta1x4x1x4_1x16x1x16_tb1x4x1x4_1x16x1x16_gkgs", Conv),
        ("naive_conv_ab_nonpacked_fwd_nchw_half_double_half", Conv),
        ("MIOpenBatchNormFwdTrainSpatial", Norm),
        ("miopenGcnAsmConv1x1U", Conv),
        ("_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47GridwiseGemm_bk0mk1_bk0nk1_mn_xdlops_bwd_weightILi64EttftLNS_25InMemoryDataOperationEnumE1E", Conv),
        ("void ck::tensor_operation::device::(anonymous namespace)::kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffle<ck::GridwiseGemmMultipleD_xdl_cshuffle<int> >(int)", Conv),
        ("void ck_tile::kentry<2, ck_tile::GroupedConvolutionForwardKernel<int> >(int)", Conv),
        ("batched_transpose_16x32_half", Copy),
        ("SubTensorOpWithCastTensor1d", Copy),
        ("SubTensorOpWithScalar1d", Memset),
        // Ascend
        ("aclnnMm_MatMulCommon_MatMulV2", Gemm),
        ("aclnnMm_TransData_TransData", Copy),
        ("aclnnFlashAttentionScore_FlashAttentionScore_FlashAttentionScore", Attention),
        ("hcom_allReduce__204_0_1", Communication),
        (crate::kernel_name::GRAPH_EXECUTION, Graph),
        ("void (anonymous namespace)::store_kvcache<2048l, 4, false, long>((anonymous namespace)::StoreKVCacheParams)", Cache),
        // NVIDIA GEMMs
        ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x8x512u2_s4_et128x8_m128x8x32_cga1x1x1_16dp256b", Gemm),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", Gemm),
        ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int> > >(Params)", Gemm),
        ("at::native::weight_int8pack_mm_kernel(c10::BFloat16 const*, signed char const*)", Gemm),
        ("void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_RM<(at::native::KReductionType)0>, 8>(int)", Gemm),
        ("kernel_cutlass_kernel_blackwellSm100BlockScaledPersistentDenseGemmKernel_object_at__TiledMMA", Gemm),
        ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 2048u>(float*, int*)", Gemm),
        ("void marlin::Marlin<__nv_bfloat16, 1125899906909960l, 256, 4>(int4 const*)", Gemm),
        ("void machete::machete_mm_kernel<int>(int)", Gemm),
        ("_p_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x64x1", Gemm),
        ("fused_moe_kernel", Gemm),
        ("cublas-gemm.12", Gemm),
        ("cublas-lt-matmul.3.0", Gemm),
        ("cudnn-conv-bias-activation.4", Conv),
        ("void cudnn::cnn::conv1D_grouped_kernel<float, 3>(int)", Conv),
        ("volta_sgemm_128x64_nn", Gemm),
        ("turing_igemm_int8_128x128_ldg4_nt", Gemm),
        // Attention
        ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int> > >(Params)", Attention),
        ("kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at", Attention),
        ("void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64> >(Flash_fwd_mla_params)", Attention),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u>(Params)", Attention),
        ("void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u>(float*)", Attention),
        ("void qk_int_sv_f8_attn_kernel<128u, 64u, 32u, 64u, 128u, (DataType)1>(signed char*)", Attention),
        ("fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP32VarSeqQ128Kv128", Attention),
        ("kernel_unified_attention_2d", Attention),
        ("void sage_fwd<128, 64, 32, 64, 128>(signed char*)", Attention),
        ("per_token_cast_to_fp8_kernel", Quantize),
        ("per_block_cast_to_fp8_kernel", Quantize),
        ("_fwd_kernel", Attention),
        ("_layer_norm_fwd_1pass_kernel", Norm),
        ("_rms_norm_fwd_kernel", Norm),
        ("void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, true> >(ConvParamsBase)", Conv),
        ("void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<32, 4> >(SSMParamsBase)", Recurrence),
        ("chunk_gated_delta_rule_fwd_kernel_h_blockdim64", Recurrence),
        // Without parameters, and cut off.
        ("void vllm::rms_norm_kernel<c10::BFloat16>", Norm),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<int, 4>", Cat),
        ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int", Gemm),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDa", Cache),
        // Communication
        ("void deep_ep::internode_ll::dispatch<true, false, 3, 10, 7168>(void*)", Communication),
        ("void moe::ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)", Communication),
        ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)", Communication),
        ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>(int)", Communication),
        // Mixture of experts
        ("void vllm::moe::moe_align_block_size_kernel<int>(int*)", Moe),
        ("void moe::dev::routing::routingDeepSeek::routingMainKernel<int>(int)", Moe),
        ("_combined_routing_compute", Moe),
        ("void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16>(int)", Moe),
        ("void moe_sum_reduce_warp_per_token_vec_kernel<16, 8>(int)", Moe),
        // Around the layers
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(int)", Cache),
        ("set_mla_kv_buffer_kernel", Cache),
        ("void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>(float*)", Sampling),
        ("void flashinfer::sampling::RadixTopKRenormProb_MultiCTAKernel<1>(float*)", Sampling),
        ("void vllm::rms_norm_kernel<c10::BFloat16>(int)", Norm),
        ("void vllm::act_and_mul_kernel<c10::BFloat16, 1>(int)", Elementwise),
        ("_per_token_group_quant_fp8", Quantize),
        ("triton_poi_fused_mul_silu_0", Elementwise),
        ("triton_red_fused_add_mean_mul_pow_rsqrt_1", Norm),
        // cuDNN
        ("std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)", Norm),
        ("volta_scudnn_128x64_relu_interior_nn_v1", Conv),
        ("volta_fp16_s884cudnn_fp16_128x128_ldg8_splitK_relu_f2f_exp_small_nhwc_tn_v1", Conv),
        ("turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_interior_nhwc_tn_v1", Conv),
        ("cask_cudnn::computeOffsetsKernel(cask_cudnn::ComputeOffsetsParams)", Conv),
        ("void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long, long)", Norm),
        ("void rocprim::ROCPRIM_400200_NS::detail::trampoline_kernel<rocprim::ROCPRIM_400200_NS::detail::wrapped_scan_config<int>>(int)", Scan),
        ("void (anonymous namespace)::resolve_future_token_ids_kernel<long>(long*, long const*, unsigned long)", Index),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)", Norm),
        ("void cudnn::ops::scalePackedTensor_kernel<float, float>(cudnnTensor4dStruct, float*, float)", Elementwise),
        ("void at::native::_scatter_gather_elementwise_kernel<128, 8, at::native::_cuda_scatter_gather_internal_kernel<true, float>::operator()<at::native::ReduceAdd>(int)::{lambda(int)#1}>(int)", Reduce),
        ("void at::native::indexFuncLargeIndex<float, long, unsigned int, 2, 2, -2, true, at::native::ReduceAdd>(int)", Reduce),
        ("void segment_csr_kernel<float, (ReductionType)0, 1>(float const*)", Reduce),
        // fbgemm
        ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int)", Index),
        ("void fbgemm_gpu::_float_to_fused8bitrowwise_cuda_kernel<float>(float const*)", Quantize),
        ("void split_embedding_codegen_forward_unweighted_kernel<float, float>(int)", Embedding),
        ("void fbgemm_gpu::(anonymous namespace)::_compute_FP8_quantize_cuda_kernel<float>(float const*, long)", Quantize),
        ("void fbgemm_gpu::(anonymous namespace)::_FP8rowwise_to_float_cuda_kernel<float>(unsigned char const*)", Quantize),
        ("void fbgemm_gpu::(anonymous namespace)::_get_FP8_qparam_cuda_kernel<float>(float const*)", Quantize),
        ("void fbgemm_gpu::(anonymous namespace)::_offsets_range_cuda_kernel<long>(long)", Index),
        ("void permute_pooled_embs_kernel<float>(float const*, long const*)", Index),
        ("void fbgemm_gpu::f8f8bf16_rowwise_gemm_kernel<128>(int)", Gemm),
        // Words of other families in a name
        ("void deep_gemm::transpose_and_pack_fp32_into_ue8m0<512u, 48u, 192u>(float*, unsigned int*)", Copy),
        ("void deep_gemm::smxx_clean_logits<256>(float*)", Attention),
        ("_silu_mul_fp8_quant_deep_gemm", Quantize),
        ("void tensorrt_llm::kernels::cutlass_kernels::doActivationKernel<__nv_bfloat16>(int)", Elementwise),
        ("void tensorrt_llm::kernels::cutlass_kernels::computeStridesTmaWarpSpecializedKernel<int>(int)", Moe),
        ("void marlin::gptq_marlin_repack_kernel<256, 4, true>(int)", Copy),
        ("void vllm::cutlass_moe::get_group_gemm_starts<int>(int)", Moe),
        ("create_flashmla_kv_indices_triton", Index),
        ("create_flashinfer_kv_indices_triton", Index),
        // Bookkeeping of vLLM and SGLang
        ("_compute_slot_mapping_kernel", Index),
        ("alloc_extend_kernel", Index),
        ("get_num_kv_splits_triton", Index),
        ("eagle_prepare_inputs_padded_kernel", Index),
        ("_gumbel_sample_kernel", Sampling),
        ("rejection_greedy_sample_kernel", Sampling),
        ("_temperature_kernel", Sampling),
        ("void vllm::indexer_k_quant_and_cache_kernel<int>(int)", Cache),
        ("void vllm::gather_and_maybe_dequant_cache<int>(int)", Cache),
        ("reduce_segments", Attention),
        ("void flash::prepare_varlen_num_blocks_kernel<1, true>(int)", Attention),
        ("_w8a8_triton_block_scaled_mm", Gemm),
        ("_lora_shrink_kernel", Gemm),
        ("_fused_moe_lora_kernel", Gemm),
        ("_ragged_tensor_metadata_compute", Moe),
        ("pre_reorder_triton_kernel", Moe),
        ("compute_src2dst_triton_kernel", Moe),
        ("void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(int)", Communication),
        // Linear attention and state spaces
        ("chunk_fwd_kernel_o", Recurrence),
        ("merge_16x16_to_64x64_inverse_kernel", Recurrence),
        ("chunk_scaled_dot_kkt_fwd_kernel", Recurrence),
        ("_state_passing_fwd_kernel", Recurrence),
        ("fused_gdn_gating_kernel", Recurrence),
        ("chunk_kda_fwd_kernel_intra_token_parallel", Recurrence),
        ("_fwd_none_diag_kernel", Recurrence),
        ("fused_qkvzba_split_reshape_cat_contiguous_kernel", Cat),
        // Training: Transformer Engine, Apex, Liger, Unsloth, bitsandbytes
        ("void transformer_engine::mxfp8_kernel::cast_mxfp8_2D_kernel<true>(int)", Quantize),
        ("void transformer_engine::detail::cast_transpose_fused_kernel_notaligned<true>(int)", Quantize),
        ("void transformer_engine::normalization::ln_bwd_general_kernel<int>(int)", Norm),
        ("void cuComputeGradInput<float>(int)", Norm),
        ("liger_cross_entropy_kernel", Softmax),
        ("_geglu_tanh_forward_kernel", Elementwise),
        ("_DWf_DW_dfg_kernel", Elementwise),
        ("void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*)", Quantize),
        ("void kOptimizerStatic8bit2StateBlockwise<__nv_bfloat16, 0>(int)", Elementwise),
        ("void at::native::(anonymous namespace)::chunk_cat_cuda_kernel<float, c10::BFloat16>(int)", Cat),
        ("void at::native::(anonymous namespace)::compute_grad_weight<float, long>(int)", Embedding),
        // Templates of ck_tile, and buffers that HIP fills
        ("void ck_tile::kentry<1, ck_tile::MoeFlatmmKernel<int> >(int)", Gemm),
        ("void ck_tile::kentry<1, ck_tile::QuantGemmKernel<int> >(int)", Gemm),
        ("__amd_rocclr_fillBufferAligned", Memset),
        ("__amd_rocclr_copyBuffer", Copy),
        // llama.cpp
        ("void mul_mat_vec_q<(ggml_type)12, 1, false, false>(int)", Gemv),
        ("void mul_mat_q<(ggml_type)12, 128, false>(int)", Gemm),
        ("void soft_max_f32<true, 1024, 1024, float>(float const*)", Softmax),
        ("void k_get_rows_float<float, float>(float const*)", Embedding),
        ("void k_bin_bcast<op_add, float, float, float>(float)", Elementwise),
        // Inductor's templates by themselves, CUB, Thrust, oneDNN
        ("triton_mm", Gemm),
        ("triton_flex_decoding_0", Attention),
        ("void cub::DeviceSelectSweepKernel<int>(int)", Index),
        ("void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<int> >(int)", Elementwise),
        ("simple_reorder", Copy),
        // XLA
        ("gemm_fusion_dot_12", Gemm),
        ("all-reduce-start.3", Communication),
        ("redzone_checker_kernel", Autotune),
        ("input_reduce_fusion_3", Reduce),
        ("loop_add_multiply_fusion", Elementwise),
        ("wrapped_convert", Copy),
        ("wrapped_concatenate", Cat),
        ("loop_dynamic_update_slice_fusion_3", Index),
        ("triton_softmax_7_0", Softmax),
    ];

    #[test]
    fn every_family_is_known_by_an_example() {
        let wrong: Vec<String> = FAMILIES
            .iter()
            .filter(|(name, expected)| classify(name).category != *expected)
            .map(|(name, expected)| {
                format!(
                    "{name}: {} where {expected} is expected",
                    classify(name).category
                )
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// `propeller` has no rotary embedding and `quantum` no quantization in it.
    #[test]
    fn words_of_other_fields_are_no_purpose() {
        let names = [
            "void propeller_flow(float*)",
            "void europe_option_pricing(float*)",
            "void moeller_trumbore_intersect(float*)",
            "void moebius_transform(float*)",
            "void smoe_denoise(float*)",
            "void quantum_gate_apply(float2*)",
            "void quantile_kernel(float*)",
            "void copyright_check(int*)",
            "void fillet_cad(int*)",
            "void adams_bashforth(double*)",
            "void sortie_planner(int*)",
            "void subsampling_kernel(float*)",
            "void stopped_particles(float*)",
        ];
        for name in names {
            assert_eq!(classify(name).category, Other, "{name}");
        }
        let words = [
            ("void RopeQuantizeKernel<int>(int)", Rope),
            ("void vllm::mrope2d(int)", Rope),
            ("void fusedMoEKernel<int>(int)", Moe),
            ("void airTopPSamplingKernel<int>(int)", Sampling),
            ("void argsort_f32_i32<int>(int)", Sort),
            ("void dequantize_block_q4_K<int>(int)", Quantize),
        ];
        for (name, category) in words {
            assert_eq!(classify(name).category, category, "{name}");
        }
    }
}
