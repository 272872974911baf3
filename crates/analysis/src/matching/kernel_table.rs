//! Which kernels do the work of which operators.
//!
//! A device trace without modules does not say which operator a kernel belongs to, but its name says what it does.
//! [`WorkGroup`]s are the finest sets of operators that kernels can then be separated by: an elementwise kernel may be a
//! part of a norm, a rotation, an activation or a residual addition. A kernel of a purpose that no operator of the phase
//! has is extra work.

use llmprof_record::kernel_name::Category;
use llmprof_theory::Kind;

/// Operators whose kernels look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorkGroup {
    Products,
    Attention,
    /// Embeddings and other reads of table rows.
    Lookups,
    /// Norms, rotary embeddings, activations and additions.
    Elementwise,
    Convolutions,
    /// Copies that change only the layout.
    Reorders,
}

impl WorkGroup {
    /// All groups; an event's number in the waterfall is the place of its group here.
    pub(crate) const ALL: [Self; 6] = [
        Self::Products,
        Self::Attention,
        Self::Lookups,
        Self::Elementwise,
        Self::Convolutions,
        Self::Reorders,
    ];

    /// The name in JSON and tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Products => "gemm",
            Self::Attention => "attention",
            Self::Lookups => "embedding",
            Self::Elementwise => "elementwise",
            Self::Convolutions => "convolutions",
            Self::Reorders => "layout",
        }
    }

    /// The kind that represents the group where one kind is needed.
    pub(crate) fn typical_kind(self) -> Kind {
        match self {
            Self::Products => Kind::Linear,
            Self::Attention => Kind::Attention,
            Self::Lookups => Kind::Embedding,
            Self::Elementwise => Kind::Norm,
            Self::Convolutions => Kind::Conv2d,
            Self::Reorders => Kind::Reorder,
        }
    }

    /// The group of an operator.
    pub(crate) fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Linear | Kind::Route | Kind::Experts => Self::Products,
            Kind::Attention | Kind::DeltaRule => Self::Attention,
            Kind::Embedding | Kind::PositionEmbedding => Self::Lookups,
            Kind::Norm
            | Kind::RopeTable
            | Kind::Rope
            | Kind::Activation
            | Kind::Add
            | Kind::Scale => Self::Elementwise,
            Kind::Conv2d | Kind::Conv1d => Self::Convolutions,
            Kind::Reorder => Self::Reorders,
        }
    }
}

/// What kernels of a category do for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelPurpose {
    /// The operators of a group.
    Operators(WorkGroup),
    /// Work that the model does not need: casts, concatenations, masks, index work.
    Extra,
    /// The name does not tell.
    Unknown,
}

/// The purpose of a kernel, by its category and name.
pub(crate) fn kernel_purpose(category: Category, name: &str) -> KernelPurpose {
    match category {
        Category::Gemm | Category::Gemv | Category::Moe => {
            KernelPurpose::Operators(WorkGroup::Products)
        }
        Category::Attention | Category::Softmax | Category::Cache | Category::Recurrence => {
            KernelPurpose::Operators(WorkGroup::Attention)
        }
        Category::Embedding => KernelPurpose::Operators(WorkGroup::Lookups),
        // torch looks embeddings up with its kernels for `index_select`: few rows with one, many with the other.
        Category::Index
            if name.to_ascii_lowercase().contains("indexselect")
                || name.contains("vectorized_gather_kernel") =>
        {
            KernelPurpose::Operators(WorkGroup::Lookups)
        }
        Category::Elementwise | Category::Norm | Category::Rope | Category::Reduce => {
            KernelPurpose::Operators(WorkGroup::Elementwise)
        }
        Category::Conv => KernelPurpose::Operators(WorkGroup::Convolutions),
        Category::Copy
        | Category::Cat
        | Category::Index
        | Category::Scan
        | Category::Sort
        | Category::Sampling
        | Category::Quantize
        | Category::Random
        | Category::Resample
        | Category::Communication
        | Category::Autotune
        | Category::Memset
        | Category::View => KernelPurpose::Extra,
        Category::Graph | Category::Other => KernelPurpose::Unknown,
    }
}

/// Whether kernels of a category can do an operator of `kind`, or one step of it if nothing is fused.
pub(crate) fn can_implement(kind: Kind, category: Category) -> bool {
    match kind {
        // A bias is added elementwise; a product that is split along k is summed up.
        Kind::Linear => matches!(
            category,
            Category::Gemm | Category::Gemv | Category::Elementwise | Category::Reduce
        ),
        Kind::Route => matches!(
            category,
            Category::Gemm
                | Category::Gemv
                | Category::Moe
                | Category::Softmax
                | Category::Sort
                | Category::Elementwise
                | Category::Reduce
        ),
        Kind::Experts => matches!(
            category,
            Category::Gemm
                | Category::Gemv
                | Category::Moe
                | Category::Elementwise
                | Category::Reduce
        ),
        // Without a fused kernel: product, softmax, product.
        Kind::Attention => matches!(
            category,
            Category::Attention
                | Category::Softmax
                | Category::Cache
                | Category::Gemm
                | Category::Gemv
        ),
        // Without a fused kernel: products by chunks, or elementwise kernels token by token, with casts and norms of queries and keys.
        Kind::DeltaRule => matches!(
            category,
            Category::Recurrence
                | Category::Gemm
                | Category::Gemv
                | Category::Scan
                | Category::Elementwise
                | Category::Reduce
        ),
        Kind::Embedding | Kind::PositionEmbedding => {
            matches!(
                category,
                Category::Embedding | Category::Index | Category::Elementwise
            )
        }
        Kind::Norm => matches!(
            category,
            Category::Norm | Category::Elementwise | Category::Reduce
        ),
        // Angles are the product of positions and frequencies.
        Kind::RopeTable => matches!(
            category,
            Category::Elementwise | Category::Rope | Category::Gemm | Category::Gemv
        ),
        Kind::Rope => matches!(category, Category::Rope | Category::Elementwise),
        Kind::Activation | Kind::Add | Kind::Scale => category == Category::Elementwise,
        Kind::Conv2d | Kind::Conv1d => matches!(
            category,
            Category::Conv | Category::Gemm | Category::Elementwise
        ),
        Kind::Reorder => matches!(category, Category::Copy | Category::Cat),
    }
}
