//! What the machine can do: memory bandwidth by threads and working set, and multiply-adds per second in vectors and tiles.
//!
//! Each measurement takes the best of several short runs: a run that the system disturbs is slower, never faster.

mod bandwidth;
mod fma;
#[cfg(target_arch = "x86_64")]
mod tiles;

pub use bandwidth::{Bandwidth, MemoryPattern, measure_bandwidth};
pub use fma::{FmaPeak, fma_formats, fma_peak};
