//! What the machine did while a model ran: utilization, frequency, memory, energy.
//!
//! A [`Sampler`] reads counters of the kernel at a fixed rate in a thread of its own and returns them as [`Samples`]
//! on the run's clock. What cannot be read on this machine is one [`Issue`](llmprof_record::issue::Issue) each and
//! leaves its column empty.

mod frequency;
mod procfs;
mod rapl;
mod sampler;
mod samples;
mod sources;

pub use sampler::{Sampler, TelemetryError};
pub use samples::{Sample, Samples};
