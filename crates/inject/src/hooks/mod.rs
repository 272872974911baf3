//! Functions that CUPTI and NVTX call in the target process.

pub(crate) mod cupti;
pub(crate) mod nvtx;
mod ranges;
