//! Which rule gives the cost of which operator.

/// How the cost of an operator follows from its inputs. Numbers are positions of arguments.
#[derive(Clone, Copy)]
pub(crate) enum CostRule {
    /// A product of matrices, with leading dimensions that broadcast.
    Product { a: usize, b: usize },
    /// A product with a weight that is stored transposed, `[out, in]`.
    Linear,
    /// Attention; `heads_first` where tensors are `[batch, heads, tokens, size]`.
    Attention { heads_first: bool, causal: usize },
    /// A convolution; where stride, padding and dilation are among the arguments.
    Convolution {
        stride: usize,
        padding: usize,
        dilation: usize,
    },
    /// One output element from the same place of all inputs.
    Elementwise,
    /// An output like the first input, with so many operations per element.
    Rowwise(u64),
    /// All elements of the first input, into an output that is much smaller.
    Reduction,
    /// Rows of a table (first number) chosen by indices (second number).
    Lookup { table: usize, indices: usize },
    /// From the second tensor into the first.
    Copy,
}

use CostRule::{Elementwise, Linear, Reduction, Rowwise};

const fn product_rule(a: usize, b: usize) -> CostRule {
    CostRule::Product { a, b }
}

const fn attention_rule(heads_first: bool, causal: usize) -> CostRule {
    CostRule::Attention {
        heads_first,
        causal,
    }
}

const fn convolution_rule(stride: usize, padding: usize, dilation: usize) -> CostRule {
    CostRule::Convolution {
        stride,
        padding,
        dilation,
    }
}

const fn lookup_rule(table: usize, indices: usize) -> CostRule {
    CostRule::Lookup { table, indices }
}

/// The operators that have a rule.
pub(crate) const RULES: &[(&str, CostRule)] = &[
    ("aten::mm", product_rule(0, 1)),
    ("aten::bmm", product_rule(0, 1)),
    ("aten::matmul", product_rule(0, 1)),
    ("aten::_int_mm", product_rule(0, 1)),
    ("aten::_scaled_mm", product_rule(0, 1)),
    ("aten::addmm", product_rule(1, 2)),
    ("aten::baddbmm", product_rule(1, 2)),
    ("aten::_addmm_activation", product_rule(1, 2)),
    ("aten::linear", Linear),
    (
        "aten::scaled_dot_product_attention",
        attention_rule(true, 5),
    ),
    (
        "aten::_scaled_dot_product_flash_attention",
        attention_rule(true, 4),
    ),
    (
        "aten::_scaled_dot_product_efficient_attention",
        attention_rule(true, 6),
    ),
    (
        "aten::_scaled_dot_product_cudnn_attention",
        attention_rule(true, 6),
    ),
    ("aten::_cudnn_attention_forward", attention_rule(true, 10)),
    ("aten::_flash_attention_forward", attention_rule(false, 8)),
    ("aten::convolution", convolution_rule(3, 4, 5)),
    ("aten::_convolution", convolution_rule(3, 4, 5)),
    ("aten::conv1d", convolution_rule(3, 4, 5)),
    ("aten::conv2d", convolution_rule(3, 4, 5)),
    ("aten::conv3d", convolution_rule(3, 4, 5)),
    ("aten::cudnn_convolution", convolution_rule(3, 2, 4)),
    ("aten::add", Elementwise),
    ("aten::add_", Elementwise),
    ("aten::sub", Elementwise),
    ("aten::rsub", Elementwise),
    ("aten::mul", Elementwise),
    ("aten::mul_", Elementwise),
    ("aten::div", Elementwise),
    ("aten::div_", Elementwise),
    ("aten::pow", Elementwise),
    ("aten::neg", Elementwise),
    ("aten::exp", Elementwise),
    ("aten::rsqrt", Elementwise),
    ("aten::sqrt", Elementwise),
    ("aten::cos", Elementwise),
    ("aten::sin", Elementwise),
    ("aten::tanh", Elementwise),
    ("aten::sigmoid", Elementwise),
    ("aten::silu", Elementwise),
    ("aten::gelu", Elementwise),
    ("aten::relu", Elementwise),
    ("aten::clamp", Elementwise),
    ("aten::where", Elementwise),
    ("aten::native_layer_norm", Rowwise(7)),
    ("aten::layer_norm", Rowwise(7)),
    ("aten::rms_norm", Rowwise(4)),
    ("aten::_fused_rms_norm", Rowwise(4)),
    ("aten::_softmax", Rowwise(5)),
    ("aten::softmax", Rowwise(5)),
    ("aten::_log_softmax", Rowwise(5)),
    ("aten::cumsum", Rowwise(1)),
    ("aten::sum", Reduction),
    ("aten::mean", Reduction),
    ("aten::max", Reduction),
    ("aten::amax", Reduction),
    ("aten::argmax", Reduction),
    ("aten::embedding", lookup_rule(0, 1)),
    ("aten::index_select", lookup_rule(0, 2)),
    ("aten::copy_", CostRule::Copy),
];
