//! Kernels as a cost model sees them: what is launched and how large it is.

use llmprof_units::DType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    block::{CHUNK_TOKENS, chunk_flops},
    quant::WeightFormat,
};

/// How a kernel that only moves and combines elements goes through memory; it decides which curve its time is read from.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "MemoryAccess")]
pub enum Access {
    /// Dense operands of one shape, in wide loads and stores.
    Pointwise,
    /// As pointwise, with an exponential, tanh or division each.
    Transcendental,
    /// Operands that are broadcast, sliced or transposed: an index is computed for each element.
    Broadcast,
    /// Operands of different number formats, cast one by one on their way.
    Cast,
    /// An operand whose neighbours lie a sector of memory or more apart: columns read as rows. Sectors are used again while a cache holds them.
    Transposed,
    /// From a narrow to a wide number format.
    Widen,
    /// Dense tensors joined: new tokens after a KV cache.
    Append,
    /// As append, where one of the tensors is a slice of another or transposed.
    AppendSliced,
    /// Sliced or transposed tensors joined: rotated halves.
    Concat,
    /// A dense copy of an expanded or transposed tensor.
    Copy,
    Fill,
    /// Rows read or written by index.
    Gather,
    /// Sums, means and maxima over rows.
    Reduce,
    /// Layer norm in one kernel.
    Norm,
    Softmax,
    /// Softmax over rows that one warp does not hold.
    SoftmaxLong,
    Sort,
    TopK,
    /// Prefix sums along each row, as `cumsum` computes them.
    Scan,
    Histogram,
    /// A convolution of each channel by itself.
    Depthwise,
    /// Triangular systems of equations; an element is a product in 32 bits.
    Solve,
}

impl Access {
    pub const ALL: [Self; 22] = [
        Self::Pointwise,
        Self::Transcendental,
        Self::Broadcast,
        Self::Cast,
        Self::Transposed,
        Self::Widen,
        Self::Append,
        Self::AppendSliced,
        Self::Concat,
        Self::Copy,
        Self::Fill,
        Self::Gather,
        Self::Reduce,
        Self::Norm,
        Self::Softmax,
        Self::SoftmaxLong,
        Self::Sort,
        Self::TopK,
        Self::Scan,
        Self::Histogram,
        Self::Depthwise,
        Self::Solve,
    ];
}

/// How weights are stored, which decides the kernels that multiply them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stored {
    /// As they are multiplied, in 16 or 32 bits.
    #[default]
    Plain,
    /// Multiplied in 8 bits, a scale for a matrix or a row.
    Eight,
    /// Multiplied in 8 bits, a scale for each tile.
    EightByBlocks,
    /// 8 bits, expanded to 16 on the way.
    EightExpanded,
    /// Multiplied in 4 bits (NVFP4).
    Four,
    /// Floats of 4 bits, a scale for each block, expanded to 16 bits on the way (MXFP4).
    FourByBlocks,
    /// Integers of 4 bits, a scale for each group, expanded to 16 bits on the way.
    FourByGroups,
}

impl Stored {
    /// The storage of a format whose matrices are multiplied in `compute`.
    pub fn from_format(format: WeightFormat, compute: DType) -> Self {
        let narrow = compute.bits() <= 8;
        match format {
            WeightFormat::Fp8 { rows: 1.., .. } if narrow => Self::EightByBlocks,
            WeightFormat::Fp8 { .. } | WeightFormat::Int8 { .. } if narrow => Self::Eight,
            WeightFormat::Fp8 { .. } | WeightFormat::Int8 { .. } => Self::EightExpanded,
            WeightFormat::Plain(dtype) if dtype.bits() == 8 && narrow => Self::Eight,
            WeightFormat::Plain(dtype) if dtype.bits() == 8 => Self::EightExpanded,
            WeightFormat::Plain(_) => Self::Plain,
            WeightFormat::Nvfp4 if compute.bits() <= 4 => Self::Four,
            WeightFormat::Nvfp4 | WeightFormat::Mxfp4 => Self::FourByBlocks,
            WeightFormat::Int4 { .. } => Self::FourByGroups,
        }
    }

    /// Whether matrix units multiply them in 8 bits.
    pub fn is_eight_bit(self) -> bool {
        matches!(self, Self::Eight | Self::EightByBlocks)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// Bytes of a weight in 16 bits.
fn two_bytes() -> f64 {
    2.0
}

/// One launch, or for sorts the few launches of one call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Kernel {
    /// `groups` times `m × k` by `k × n`, weights in elements of `size` bytes, scales included. Activations have at least 16 bits; `stored`
    /// decides the rate of the matrix units.
    Gemm {
        groups: f64,
        m: f64,
        n: f64,
        k: f64,
        size: f64,
        /// Whether all rows start at multiples of 16 bytes; other kernels run where they do not.
        aligned: bool,
        #[serde(default, skip_serializing_if = "Stored::is_plain")]
        stored: Stored,
    },
    /// `pairs` rows spread over `experts` matrices of `k × n` by `tokens` that choose independently. Tokens that choose alike count as
    /// fewer, and then have more rows than they choose experts.
    Grouped {
        experts: f64,
        tokens: f64,
        pairs: f64,
        /// Experts of a token; `pairs ÷ tokens` where it is 0.
        #[serde(default)]
        chosen: f64,
        n: f64,
        k: f64,
        /// Bytes of a weight, scales included.
        #[serde(default = "two_bytes")]
        size: f64,
        #[serde(default, skip_serializing_if = "Stored::is_plain")]
        stored: Stored,
    },
    /// A fused attention kernel behind PyTorch's `scaled_dot_product_attention`.
    Attention {
        batch: f64,
        heads: f64,
        kv_heads: f64,
        queries: f64,
        keys: f64,
        key_dim: f64,
        value_dim: f64,
        /// Whether keys after the query are skipped.
        causal: bool,
        /// Whether a mask tensor is read.
        masked: bool,
        /// Bytes of an element of keys and values.
        #[serde(default = "two_bytes")]
        cached: f64,
    },
    /// A causal convolution over the new tokens of sequences, each channel by itself, in 16 bits; `kernel − 1` inputs of each are kept between steps.
    CausalConv {
        batch: f64,
        queries: f64,
        channels: f64,
        kernel: f64,
    },
    /// The gated delta rule: by chunks, or token by token where each sequence has one.
    DeltaRule {
        batch: f64,
        /// Heads of values; each keeps a state matrix.
        heads: f64,
        /// Heads of queries and keys, shared by the heads of values.
        key_heads: f64,
        queries: f64,
        key_dim: f64,
        value_dim: f64,
        /// Bytes of an element of the state.
        state: f64,
    },
    /// Any other kernel; its time follows from its access pattern, bytes and elements.
    Stream {
        access: Access,
        /// Of inputs and outputs, each once.
        bytes: f64,
        /// Of the result; of the input for a reduction.
        elements: f64,
        /// Elements that are reduced or normalized together; 0 where none are.
        #[serde(default)]
        width: f64,
    },
}

/// The classes by which errors and parts are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelClass {
    Gemm,
    GroupedGemm,
    Attention,
    Elementwise,
    Norm,
    Concat,
    Gather,
    Sort,
}

impl KernelClass {
    pub const ALL: [Self; 8] = [
        Self::Gemm,
        Self::GroupedGemm,
        Self::Attention,
        Self::Elementwise,
        Self::Norm,
        Self::Concat,
        Self::Gather,
        Self::Sort,
    ];

    /// The name used in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::GroupedGemm => "grouped_gemm",
            Self::Attention => "attention",
            Self::Elementwise => "elementwise",
            Self::Norm => "norm",
            Self::Concat => "concat",
            Self::Gather => "gather",
            Self::Sort => "sort",
        }
    }
}

impl Kernel {
    pub fn class(&self) -> KernelClass {
        match self {
            Self::Gemm { .. } => KernelClass::Gemm,
            Self::Grouped { .. } => KernelClass::GroupedGemm,
            Self::Attention { .. } | Self::DeltaRule { .. } => KernelClass::Attention,
            Self::CausalConv { .. } => KernelClass::Elementwise,
            Self::Stream { access, .. } => match access {
                Access::Append | Access::AppendSliced | Access::Concat | Access::Copy => {
                    KernelClass::Concat
                }
                Access::Gather => KernelClass::Gather,
                Access::Reduce | Access::Norm | Access::Softmax | Access::SoftmaxLong => {
                    KernelClass::Norm
                }
                Access::Sort | Access::TopK | Access::Scan | Access::Histogram => KernelClass::Sort,
                Access::Solve => KernelClass::Gemm,
                Access::Pointwise
                | Access::Transcendental
                | Access::Broadcast
                | Access::Cast
                | Access::Transposed
                | Access::Widen
                | Access::Depthwise
                | Access::Fill => KernelClass::Elementwise,
            },
        }
    }

    /// Bytes of inputs and outputs, each once; weights of experts as uniform routing reaches them.
    pub fn min_traffic_bytes(&self) -> f64 {
        match *self {
            Self::Gemm {
                groups,
                m,
                n,
                k,
                size,
                ..
            } => groups * ((m * k + m * n) * size.max(2.0) + n * k * size),
            Self::Grouped {
                pairs, n, k, size, ..
            } => self.touched_experts() * n * k * size + pairs * (n + k) * size.max(2.0),
            Self::Attention {
                batch,
                heads,
                kv_heads,
                queries,
                keys,
                key_dim,
                value_dim,
                cached,
                ..
            } => {
                let elements = heads * queries * 2.0 + kv_heads * keys * cached;
                batch * elements * (key_dim + value_dim)
            }
            Self::CausalConv {
                batch,
                queries,
                channels,
                kernel,
            } => batch * channels * 2.0 * 2.0 * (queries + kernel - 1.0),
            Self::DeltaRule {
                batch,
                heads,
                key_heads,
                queries,
                key_dim,
                value_dim,
                state,
            } => {
                let token = 2.0 * (key_heads * key_dim + heads * value_dim);
                let kept = heads * key_dim * value_dim * state;
                batch * (queries * token * 2.0 + 2.0 * kept)
            }
            Self::Stream { bytes, .. } => bytes,
        }
    }

    /// Matrix work; a causal kernel skips keys after the query.
    pub fn matrix_flops(&self) -> f64 {
        match *self {
            Self::Gemm {
                groups, m, n, k, ..
            } => 2.0 * groups * m * n * k,
            Self::Grouped { pairs, n, k, .. } => 2.0 * pairs * n * k,
            Self::Attention {
                batch,
                heads,
                queries,
                keys,
                key_dim,
                value_dim,
                causal,
                ..
            } => {
                // The last query sees all keys, the first all but those of the other queries.
                let share = if causal {
                    1.0 - 0.5 * (queries / keys.max(1.0)).min(1.0)
                } else {
                    1.0
                };
                2.0 * batch * heads * queries * keys * (key_dim + value_dim) * share
            }
            Self::DeltaRule {
                batch,
                heads,
                queries,
                key_dim,
                value_dim,
                ..
            } if queries > 1.0 => {
                let chunks = batch * heads * (queries / CHUNK_TOKENS as f64).ceil();
                chunks * chunk_flops(key_dim as u64, value_dim as u64) as f64
            }
            Self::CausalConv { .. } | Self::DeltaRule { .. } | Self::Stream { .. } => 0.0,
        }
    }

    /// How its weights are stored; `Plain` where there are none.
    pub fn stored(&self) -> Stored {
        match *self {
            Self::Gemm { stored, .. } | Self::Grouped { stored, .. } => stored,
            _ => Stored::Plain,
        }
    }

    /// Experts that uniform routing reaches: E × (1 − (1 − k/E)^tokens).
    pub fn touched_experts(&self) -> f64 {
        match *self {
            Self::Grouped {
                experts,
                tokens,
                pairs,
                chosen,
                ..
            } => {
                let chosen = if chosen > 0.0 {
                    chosen
                } else {
                    pairs / tokens.max(1.0)
                };
                let share = (chosen / experts.max(1.0)).min(1.0);
                experts * (1.0 - (1.0 - share).powf(tokens))
            }
            _ => 0.0,
        }
    }
}
