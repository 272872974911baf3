//! What CUPTI and NVTX call in a watched process.

pub(crate) mod cupti;
pub(crate) mod nvtx;
mod ranges;
