//! Why what happened differs from what should have. Pure functions: no file is read or written here.
//!
//! [`statics`] is what a model must cost, on paper. [`analysis::analyze`] takes a trace apart: [`phases`] cut its time,
//! [`attribution`] says where each device event comes from, [`breakdown`] where the time of a device went,
//! [`operators`] and [`kernels`] sum it up by name, [`steps`] finds what returns in it, [`counters`] are
//! those of single launches. [`run::analyze_run`] joins what a run measured with what it should have cost.

pub mod analysis;
pub mod attribution;
pub mod breakdown;
pub mod counters;
pub mod device_events;
pub mod idle;
mod intervals;
pub mod kernels;
pub mod key_averages;
pub mod launches;
pub mod nesting;
pub mod occupancy;
pub mod operator_cost;
pub mod operators;
pub mod phases;
pub mod run;
pub mod scaled;
mod slices;
pub mod statics;
pub mod steps;
pub mod summary;

pub use analysis::{Analysis, analyze};
pub use scaled::{Scaled, scaled};
pub use summary::summary_lines;
