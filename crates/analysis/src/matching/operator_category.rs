//! What an operator of PyTorch does, by its name.
//!
//! The backward of an operator, its variants over lists of tensors (`_foreach_`), in place, and of another shape (`_like`, `new_`) are named
//! by the operator itself, and are of its category.

use llmprof_record::kernel_name::Category;

use crate::program::proofs::BACKWARD_PREFIX;

pub(crate) fn operator_category(name: &str) -> Category {
    let operator = operator_stem(name);
    let exact = WHOLE_NAMES
        .iter()
        .find(|(names, _)| names.contains(&operator.as_str()));
    let parts = || {
        let holds = |part: &&str| match (part.strip_prefix('^'), part.strip_suffix('$')) {
            (Some(beginning), _) => operator.starts_with(beginning),
            (None, Some(end)) => operator.ends_with(end),
            (None, None) => operator.contains(*part),
        };
        NAME_PARTS.iter().find(|(parts, _)| parts.iter().any(holds))
    };
    // What an operator writes or rotates is more than what it calls itself: `_C::cpu_attn_reshape_and_cache`.
    let first = OVERRIDING_PARTS
        .iter()
        .find(|(part, _)| operator.contains(part));
    first
        .map(|(_, category)| *category)
        .or_else(|| exact.map(|(_, category)| *category))
        .or_else(|| parts().map(|(_, category)| *category))
        .unwrap_or(Category::Other)
}

/// What the names of variants end in.
const VARIANT_SUFFIXES: [&str; 7] = [
    "_backward_data",
    "_backward_input",
    "_backward_weights",
    "_backward",
    "_forward",
    "_dense",
    "_like",
];

/// The operator that a name is a variant of: `addmm` of `autograd::engine::evaluate_function: AddmmBackward0`, `softmax` of
/// `aten::_softmax_backward_data`, `add` of `aten::_foreach_add_`.
fn operator_stem(name: &str) -> String {
    let name = name.strip_prefix(BACKWARD_PREFIX).unwrap_or(name);
    let name = name.rsplit("::").next().unwrap_or(name);
    let numbered = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let node = numbered
        .strip_suffix("Backward")
        .or_else(|| numbered.strip_suffix("Backwards"));
    let operator = match node {
        Some(node) if !node.contains('_') => snake_case(node),
        _ => name.to_ascii_lowercase(),
    };
    let mut stem = operator.trim_matches('_');
    for prefix in ["foreach_", "new_"] {
        stem = stem.strip_prefix(prefix).unwrap_or(stem);
    }
    while let Some(shorter) = VARIANT_SUFFIXES
        .iter()
        .find_map(|suffix| stem.strip_suffix(suffix))
    {
        stem = shorter;
    }
    stem.trim_matches('_').to_owned()
}

/// `mse_loss` of `MseLoss`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Parts of names that say more than a name as a whole.
const OVERRIDING_PARTS: &[(&str, Category)] = &[
    ("cache", Category::Cache),
    ("rotary", Category::Rope),
    ("attention", Category::Attention),
];

/// Categories by the whole name of the operator.
const WHOLE_NAMES: &[(&[&str], Category)] = &[
    (
        &[
            "mm", "addmm", "matmul", "bmm", "baddbmm", "mv", "addmv", "dot", "einsum", "outer",
            "addr", "ger",
        ],
        Category::Gemm,
    ),
    (
        &[
            "add",
            "sub",
            "rsub",
            "mul",
            "div",
            "pow",
            "neg",
            "abs",
            "sqrt",
            "rsqrt",
            "exp",
            "expm1",
            "log",
            "log1p",
            "log2",
            "log10",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "atan2",
            "sinh",
            "cosh",
            "tanh",
            "hardtanh",
            "sigmoid",
            "hardsigmoid",
            "log_sigmoid",
            "logit",
            "silu",
            "mish",
            "gelu",
            "relu",
            "relu6",
            "prelu",
            "rrelu",
            "leaky_relu",
            "elu",
            "selu",
            "celu",
            "hardswish",
            "softplus",
            "softshrink",
            "hardshrink",
            "threshold",
            "square",
            "reciprocal",
            "addcmul",
            "addcdiv",
            "floor_divide",
            "remainder",
            "fmod",
            "maximum",
            "minimum",
            "fmax",
            "fmin",
            "erf",
            "erfc",
            "erfinv",
            "lerp",
            "glu",
            "sign",
            "sgn",
            "floor",
            "ceil",
            "round",
            "trunc",
            "frac",
            "hypot",
            "xlogy",
            "lgamma",
            "digamma",
            "polygamma",
            "angle",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "isinf",
            "isnan",
            "isfinite",
            "nan_to_num",
            "complex",
            "polar",
            "accumulategrad",
        ],
        Category::Elementwise,
    ),
    (
        &[
            "mean",
            "sum",
            "amax",
            "amin",
            "aminmax",
            "max",
            "min",
            "prod",
            "var",
            "var_mean",
            "std",
            "std_mean",
            "norm",
            "all",
            "any",
            "logsumexp",
            "median",
            "nansum",
            "count_nonzero",
            "trace",
            "kl_div",
            "cdist",
            "cosine_similarity",
            "euclidean_dist",
            "argmin",
            "bincount",
            "histc",
            "histogram",
            "histogramdd",
            "scatter_add",
            "scatter_reduce",
            "scatter_sum",
            "scatter_mean",
            "scatter_mul",
            "scatter_max",
            "scatter_min",
            "segment_reduce",
            "segment_csr",
            "index_add",
            "index_reduce",
        ],
        Category::Reduce,
    ),
    (
        &[
            "copy",
            "to_copy",
            "clone",
            "item",
            "local_scalar_dense",
            "local_scalar",
        ],
        Category::Copy,
    ),
    (
        &[
            "cat",
            "concat",
            "stack",
            "hstack",
            "vstack",
            "repeat_interleave",
        ],
        Category::Cat,
    ),
    (
        &[
            "where", "arange", "isin", "repeat", "tile", "tril", "triu", "to_dense", "one_hot",
            "nonzero", "roll", "flip", "take", "linspace", "eye",
        ],
        Category::Index,
    ),
    (
        &[
            "view",
            "reshape",
            "unsafe_view",
            "transpose",
            "t",
            "permute",
            "expand",
            "expand_as",
            "as_strided",
            "slice",
            "select",
            "unsqueeze",
            "squeeze",
            "flatten",
            "unflatten",
            "narrow",
            "reshape_alias",
            "unbind",
            "lift_fresh",
            "alias",
            "detach",
            "resolve_conj",
            "resolve_neg",
            "view_as",
            "size",
            "conj",
            "real",
            "imag",
            "view_as_real",
            "view_as_complex",
            "result_type",
            "movedim",
            "split",
            "chunk",
            "split_with_sizes",
            "tensor_split",
            "empty",
            "empty_strided",
            "empty_permuted",
            "resize",
            "set",
            "to",
            "contiguous",
            "type_as",
            "float",
            "half",
            "bfloat16",
            "is_nonzero",
            "diagonal",
            "unfold",
            "swapaxes",
            "broadcast_to",
            "pin_memory",
            "has_compatible_shallow_copy_type",
        ],
        Category::View,
    ),
    (
        &[
            "sort",
            "topk",
            "argsort",
            "searchsorted",
            "unique",
            "unique2",
        ],
        Category::Sort,
    ),
    (&["argmax", "multinomial"], Category::Sampling),
    (
        &["zeros", "ones", "full", "fill", "zero", "scalar_tensor"],
        Category::Memset,
    ),
    (
        &[
            "uniform",
            "normal",
            "bernoulli",
            "exponential",
            "geometric",
            "log_normal",
            "cauchy",
        ],
        Category::Random,
    ),
];

/// Parts of names, the first that is there; `^` is the beginning, `$` the end.
const NAME_PARTS: &[(&[&str], Category)] = &[
    (&["loss", "cross_entropy"], Category::Reduce),
    (
        &["upsample", "grid_sampler", "interpolate"],
        Category::Resample,
    ),
    (&["softmax"], Category::Softmax),
    (&["embedding"], Category::Embedding),
    (&["conv"], Category::Conv),
    (&["norm"], Category::Norm),
    (&["pool"], Category::Reduce),
    (&["quantize"], Category::Quantize),
    (
        &["^index", "^scatter", "^gather", "^masked_", "^take_along"],
        Category::Index,
    ),
    (&["^cum", "^logcumsum"], Category::Scan),
    (&["^rand"], Category::Random),
    (
        &[
            "dropout",
            "^clamp",
            "^bitwise_",
            "^logical_",
            "^special_",
            "adam",
            "sgd",
            "adagrad",
        ],
        Category::Elementwise,
    ),
    (&["pad"], Category::Copy),
    (&["lstm", "gru", "rnn"], Category::Recurrence),
    // Fused linear layers of the vendors' libraries: `mkldnn::_linear_pointwise`, `aten::_weight_int8pack_mm`.
    (&["linear", "_mm$", "mm_cpu"], Category::Gemm),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backward_is_of_the_category_of_its_operator() {
        let expected = [
            ("aten::addcdiv_", Category::Elementwise),
            ("aten::_softmax_backward_data", Category::Softmax),
            ("aten::tanh_backward", Category::Elementwise),
            ("aten::nll_loss_backward", Category::Reduce),
            ("aten::_embedding_bag_dense_backward", Category::Embedding),
            ("aten::max_pool2d_with_indices_backward", Category::Reduce),
            ("aten::native_batch_norm_backward", Category::Norm),
            ("aten::convolution_backward", Category::Conv),
            ("aten::upsample_bilinear2d_backward", Category::Resample),
            ("aten::slice_backward", Category::View),
            ("MseLossBackward0", Category::Reduce),
            ("UnsafeViewBackward0", Category::View),
            (
                "autograd::engine::evaluate_function: AddmmBackward0",
                Category::Gemm,
            ),
            ("torch::autograd::AccumulateGrad", Category::Elementwise),
            ("CompiledFunctionBackward", Category::Other),
        ];
        for (name, category) in expected {
            assert_eq!(operator_category(name), category, "{name}");
        }
    }

    #[test]
    fn variants_are_of_the_category_of_their_operator() {
        let expected = [
            ("aten::_foreach_add_", Category::Elementwise),
            ("aten::_fused_adamw_", Category::Elementwise),
            ("aten::zeros_like", Category::Memset),
            ("aten::new_ones", Category::Memset),
            ("aten::zeros", Category::Memset),
            ("aten::randint", Category::Random),
            ("aten::bernoulli_", Category::Random),
            ("aten::log_sigmoid_forward", Category::Elementwise),
            ("aten::lt", Category::Elementwise),
            ("aten::_index_put_impl_", Category::Index),
            ("aten::scatter_add_", Category::Reduce),
            ("aten::index_add_", Category::Reduce),
            ("torch_scatter::scatter_sum", Category::Reduce),
            ("aten::argmin", Category::Reduce),
            ("aten::bincount", Category::Reduce),
            ("aten::histc", Category::Reduce),
            ("aten::scatter_", Category::Index),
            ("IndexAddBackward0", Category::Reduce),
            (
                "aten::_scaled_dot_product_flash_attention_for_cpu",
                Category::Attention,
            ),
            ("mkldnn::_linear_pointwise", Category::Gemm),
            ("aten::_weight_int8pack_mm", Category::Gemm),
            ("vllm::unified_kv_cache_update", Category::Cache),
            ("_C::cpu_attn_reshape_and_cache", Category::Cache),
            ("_C::rotary_embedding", Category::Rope),
            ("my::thing", Category::Other),
            ("my::command", Category::Other),
        ];
        for (name, category) in expected {
            assert_eq!(operator_category(name), category, "{name}");
        }
    }

    /// They call `copy_` where there is something to copy, and touch no data themselves.
    #[test]
    fn views_and_allocations_touch_no_data() {
        for name in [
            "aten::view",
            "aten::as_strided",
            "aten::slice",
            "aten::empty",
            "aten::empty_like",
            "aten::to",
        ] {
            assert_eq!(operator_category(name), Category::View, "{name}");
        }
    }
}
