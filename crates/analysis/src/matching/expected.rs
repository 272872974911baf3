//! What theory says about one call of an operator.

use llmprof_theory::floor::OperatorFloor;
use llmprof_theory::{Kind, Shape};
use llmprof_units::{Basis, DType};

/// What theory says about one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    pub(crate) flops: u64,
    pub(crate) compulsory: u64,
    pub(crate) unfused: u64,
    pub(crate) floor: Option<OperatorFloor>,
    pub(crate) basis: Basis,
    /// Number of its path, and of its path without the layer.
    pub(crate) path: u32,
    pub(crate) place: u32,
}
