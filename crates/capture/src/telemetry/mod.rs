//! What the machine did while a model ran: utilization, frequency, memory, energy, of processors and GPUs.
//!
//! A [`Sampler`] reads counters of the kernel and of NVML or AMD SMI at a fixed rate in threads of its own and returns them as
//! [`Samples`](llmprof_record::samples::Samples) on the run's clock. What cannot be read on this machine is one [`Issue`](llmprof_record::issue::Issue) each and
//! leaves its column empty.

mod amd_smi;
mod frequency;
mod kept;
pub mod nvml;
mod pace;
mod procfs;
mod quota;
mod rapl;
mod sampler;
mod sources;
mod worker;

pub use nvml::Gpus;
pub use sampler::{Sampler, Settings, TelemetryError};
