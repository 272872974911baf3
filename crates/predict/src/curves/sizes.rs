//! The two sizes of a kernel that grow with its work, and those that the model decides.

use super::growth::Sizes;
use llmprof_theory::kernels::{Kernel, Stored};

/// The properties that distinguish kernels apart from the sizes that grow with their work.
pub(super) type FixedSizes = [u64; 8];

/// Columns below which a GEMM is a product with a few vectors, which no table has: the narrowest that sweeps measured is 64.
pub(super) const COLUMNS_MIN: f64 = 32.0;
/// Channels of a head of the convolution, as tables count its work: the one size of heads that they have.
const HEAD_CHANNELS: f64 = 128.0;

/// What is done at once, and how much of each: rows of a GEMM; experts reached and rows of each; heads of all sequences (KV heads in decode), and keys or new tokens.
pub(super) fn sizes_of(kernel: &Kernel) -> Sizes {
    match *kernel {
        Kernel::Gemm { m, .. } => [1.0, m],
        Kernel::Grouped { pairs, .. } => {
            let reached = kernel.touched_experts().max(1e-9);
            [reached, pairs / reached]
        }
        Kernel::Attention { batch, keys, .. } => [batch * work_items(kernel), keys],
        Kernel::CausalConv { batch, queries, .. } | Kernel::DeltaRule { batch, queries, .. } => {
            [batch * work_items(kernel), queries]
        }
        Kernel::Stream { elements, .. } => [1.0, elements],
    }
}

/// Work items of a sequence.
fn work_items(kernel: &Kernel) -> f64 {
    match *kernel {
        Kernel::Attention {
            kv_heads, queries, ..
        } if queries <= 1.0 => kv_heads,
        Kernel::Attention { heads, .. } | Kernel::DeltaRule { heads, .. } => heads,
        Kernel::CausalConv { channels, .. } => channels / HEAD_CHANNELS,
        _ => 1.0,
    }
}

/// The same kernel with other sizes. A causal query always sees at least its own key.
pub(super) fn resize_kernel(kernel: &Kernel, [first, second]: Sizes) -> Kernel {
    let items = work_items(kernel);
    let mut other = *kernel;
    match &mut other {
        Kernel::Gemm { m, .. } => *m = second,
        Kernel::Grouped {
            experts,
            tokens,
            pairs,
            chosen,
            ..
        } => (*experts, *tokens, *pairs, *chosen) = (first, 1.0, first * second, first),
        Kernel::Attention {
            batch,
            keys,
            queries,
            ..
        } => (*batch, *keys, *queries) = (first / items, second, queries.min(second)),
        Kernel::CausalConv { batch, queries, .. } | Kernel::DeltaRule { batch, queries, .. } => {
            (*batch, *queries) = (first / items, second);
        }
        Kernel::Stream { elements, .. } => *elements = second,
    }
    other
}

/// The same kernel on weights or a KV cache of 16 bits; `None` where it has no 8 bits.
pub(super) fn in_16_bits(kernel: &Kernel) -> Option<Kernel> {
    let mut wide = *kernel;
    match &mut wide {
        Kernel::Gemm { size, stored, .. } | Kernel::Grouped { size, stored, .. }
            if stored.is_eight_bit() =>
        {
            (*size, *stored) = (2.0, Stored::Plain);
        }
        Kernel::Attention { cached, .. } if *cached < 2.0 => *cached = 2.0,
        _ => return None,
    }
    Some(wide)
}

pub(super) fn fixed_sizes(kernel: &Kernel) -> FixedSizes {
    let (kind, sizes) = match *kernel {
        Kernel::Gemm {
            n, k, size, stored, ..
        } => (stored as u64, [n, k, size, 0.0, 0.0, 0.0, 0.0]),
        Kernel::Grouped {
            n, k, size, stored, ..
        } => (stored as u64, [n, k, size, 0.0, 0.0, 0.0, 1.0]),
        Kernel::Attention {
            heads,
            kv_heads,
            queries,
            key_dim,
            value_dim,
            causal,
            cached,
            ..
        } => (
            u64::from(causal),
            [heads, kv_heads, queries, key_dim, value_dim, cached, 2.0],
        ),
        Kernel::CausalConv {
            channels,
            kernel,
            queries,
            ..
        } => (
            u64::from(queries > 1.0),
            [channels, kernel, 0.0, 0.0, 0.0, 0.0, 3.0],
        ),
        Kernel::DeltaRule {
            heads,
            key_heads,
            queries,
            key_dim,
            value_dim,
            state,
            ..
        } => (
            u64::from(queries > 1.0),
            [heads, key_heads, key_dim, value_dim, state, 0.0, 4.0],
        ),
        Kernel::Stream { .. } => (0, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0]),
    };
    let mut key = [kind; 8];
    for (place, size) in key[1..].iter_mut().zip(sizes) {
        *place = size.to_bits();
    }
    key
}
