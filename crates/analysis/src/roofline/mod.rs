//! How close a phase came to the device's peaks.

mod residence;
mod theory;
mod utilization;

pub use residence::Residence;
pub(crate) use theory::{DecoderWork, ExpertsRead, Theory};
pub use utilization::{DtypeWork, Utilization};
