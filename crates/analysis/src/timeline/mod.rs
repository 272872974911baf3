//! What a device did when: its events, the calls that launched them, and what it waited for.

pub(crate) mod autotune;
pub mod breakdown;
mod data_loading;
pub mod device_events;
pub(crate) mod extent;
pub mod host_gaps;
pub mod idle;
pub(crate) mod intervals;
pub(crate) mod launch_times;
pub mod launches;
pub(crate) mod nesting;
pub mod occupancy;
pub(crate) mod open_ranges;
pub(crate) mod slices;
pub mod source_lines;
