//! What a phase shows of the model's work: GEMMs, forward passes, and the shapes of both.

use std::ops::Range;

use llmprof_record::trace::StrId;
use llmprof_units::DType;
use rustc_hash::FxHashSet;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gemm {
    pub(crate) row: usize,
    pub(crate) groups: i64,
    pub(crate) m: i64,
    pub(crate) n: i64,
    pub(crate) k: i64,
    pub(crate) dtype: DType,
    pub(crate) work: Range<usize>,
    pub(crate) device_ns: i64,
}

impl Gemm {
    pub(crate) fn flops(&self) -> f64 {
        2.0 * self.groups as f64 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Elements of both factors and the result.
    pub(crate) fn elements(&self) -> f64 {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        self.groups as f64 * (m * k + k * n + m * n)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    /// The row of the lookup.
    pub(crate) row: usize,
    pub(crate) vocabulary: i64,
    pub(crate) hidden: i64,
    pub(crate) sequences: i64,
    /// New tokens of each sequence.
    pub(crate) tokens: i64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ModelShapes {
    /// Rows and columns of the second factors of GEMMs.
    pub(super) weights: Vec<(i64, i64)>,
    /// Groups, rows and columns of those of batched GEMMs: experts.
    pub(super) grouped_weights: FxHashSet<(i64, i64, i64)>,
    /// GEMMs in FP32 of one kernel each, with its name and grid.
    pub(super) wide_gemms: Vec<(StrId, [u32; 3], Gemm)>,
    /// Rows, columns and depth of the GEMMs of prompt passes.
    pub(super) prompt_gemms: FxHashSet<(i64, i64, i64)>,
    /// Sequences of a pass, at most.
    pub(super) sequences: i64,
    /// Columns of the widest GEMM.
    pub(super) widest: i64,
    /// Width of the residual stream; 0 where no embedding is looked up.
    pub(super) hidden: i64,
    /// Tokens of each sequence after the last step; 0 where the trace has no prompt pass.
    pub(super) tokens: i64,
    /// A KV cache that is written in place.
    pub(super) cache: Option<FixedCache>,
}

/// Keys or values of one layer, for all sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FixedCache {
    pub(super) sequences: i64,
    /// Positions of each sequence, filled or not.
    pub(super) positions: i64,
    /// Elements of one position: KV heads × head width.
    pub(super) width: i64,
}

impl ModelShapes {
    /// The smallest weight, or matrix of one expert, that a kernel over `elements` in blocks of `block` covers exactly.
    pub(super) fn matrix_with_elements(&self, elements: i64, block: i64) -> Option<Vec<i64>> {
        let covers = |size: i64| size <= elements && elements - size < block;
        let single = self.weights.iter().copied();
        let grouped = self.grouped_weights.iter().map(|&(_, n, k)| (n, k));
        let alike = single
            .chain(grouped)
            .filter(|&(n, k)| covers(n.saturating_mul(k)));
        alike.min().map(|(n, k)| vec![n, k])
    }

    /// The weight that a kernel over `elements` in blocks of `block` covers exactly. The weights of all experts of a layer together
    /// count as one.
    pub(super) fn weight_with_elements(&self, elements: i64, block: i64) -> Option<Vec<i64>> {
        let covers = |size: i64| size <= elements && elements - size < block;
        let mut single = self.weights.iter();
        if let Some(&(n, k)) = single.find(|(n, k)| covers(n.saturating_mul(*k))) {
            return Some(vec![n, k]);
        }
        let mut grouped: Vec<_> = self.grouped_weights.iter().copied().collect();
        grouped.sort_unstable();
        let mut grouped = grouped.into_iter();
        let (groups, n, k) =
            grouped.find(|(groups, n, k)| covers(groups.saturating_mul(n.saturating_mul(*k))))?;
        Some(vec![groups, n, k])
    }
}
