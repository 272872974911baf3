//! Kernels: what is launched and how large it is. How long they take is not known here.

mod kernel;
mod sample;
mod traced;

pub use kernel::{Access, Kernel, KernelClass, Stored};
pub use sample::KernelSample;
pub use traced::{TracedKernel, TracedModel, TracedStep};
