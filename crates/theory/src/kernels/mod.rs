//! Kernels and how long they take on a device: what predictions of a way of running are made of.

pub mod calibrate;
mod curves;
mod kernel;
mod traced;

pub use curves::{KernelClock, KernelCurves, KernelTime};
pub use kernel::{Access, Kernel, KernelClass};
pub use traced::{TracedKernel, TracedModel, TracedStep};
