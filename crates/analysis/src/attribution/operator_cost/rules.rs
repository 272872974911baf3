//! Which rule gives the cost of which operator.

/// How the cost of an operator follows from its inputs. Numbers are positions of arguments.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
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

use Rule::{Elementwise, Linear, Reduction, Rowwise};

const fn product(a: usize, b: usize) -> Rule {
    Rule::Product { a, b }
}

const fn attention(heads_first: bool, causal: usize) -> Rule {
    Rule::Attention {
        heads_first,
        causal,
    }
}

const fn convolution(stride: usize, padding: usize, dilation: usize) -> Rule {
    Rule::Convolution {
        stride,
        padding,
        dilation,
    }
}

const fn lookup(table: usize, indices: usize) -> Rule {
    Rule::Lookup { table, indices }
}

/// The operators that have a rule.
pub(crate) const RULES: &[(&str, Rule)] = &[
    ("aten::mm", product(0, 1)),
    ("aten::bmm", product(0, 1)),
    ("aten::matmul", product(0, 1)),
    ("aten::_int_mm", product(0, 1)),
    ("aten::_scaled_mm", product(0, 1)),
    ("aten::addmm", product(1, 2)),
    ("aten::baddbmm", product(1, 2)),
    ("aten::_addmm_activation", product(1, 2)),
    ("aten::linear", Linear),
    ("aten::scaled_dot_product_attention", attention(true, 5)),
    (
        "aten::_scaled_dot_product_flash_attention",
        attention(true, 4),
    ),
    (
        "aten::_scaled_dot_product_efficient_attention",
        attention(true, 6),
    ),
    (
        "aten::_scaled_dot_product_cudnn_attention",
        attention(true, 6),
    ),
    ("aten::_cudnn_attention_forward", attention(true, 10)),
    ("aten::_flash_attention_forward", attention(false, 8)),
    ("aten::convolution", convolution(3, 4, 5)),
    ("aten::_convolution", convolution(3, 4, 5)),
    ("aten::conv1d", convolution(3, 4, 5)),
    ("aten::conv2d", convolution(3, 4, 5)),
    ("aten::conv3d", convolution(3, 4, 5)),
    ("aten::cudnn_convolution", convolution(3, 2, 4)),
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
    ("aten::embedding", lookup(0, 1)),
    ("aten::index_select", lookup(0, 2)),
    ("aten::copy_", Rule::Copy),
];
