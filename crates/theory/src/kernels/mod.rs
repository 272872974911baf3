//! Kernels and how long they take on a device: what predictions of a way of running are made of.

mod axis;
pub mod calibrate;
mod curves;
mod kernel;
mod serving;
mod traced;

pub use curves::{KernelClock, KernelCurves, KernelTime};
pub use kernel::{Access, Kernel, KernelClass, Stored};
pub(crate) use serving::{ServingClock, ServingEngine, TableNeeds};
pub use traced::{TracedKernel, TracedModel, TracedStep};
