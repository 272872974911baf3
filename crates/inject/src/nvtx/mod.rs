//! NVTX: ranges, marks and names, taken from NVTX itself and not through CUPTI.

pub(crate) mod attributes;
pub(crate) mod domains;
pub(crate) mod log;
pub(crate) mod ranges;
mod threads;
