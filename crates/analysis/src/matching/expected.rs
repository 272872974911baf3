//! Work of one operator call as theory counts it.

use llmprof_theory::roofline::OperatorRoofline;
use llmprof_theory::{Kind, Shape};
use llmprof_units::{Basis, DType};

/// Work of one operator call as theory counts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    pub(crate) flops: u64,
    pub(crate) min_dram_bytes: u64,
    pub(crate) unfused: u64,
    pub(crate) roofline: Option<OperatorRoofline>,
    pub(crate) basis: Basis,
    /// Number of its path, and of its path without the layer.
    pub(crate) path: u32,
    pub(crate) place: u32,
}
