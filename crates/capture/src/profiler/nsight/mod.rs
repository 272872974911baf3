//! Nsight Systems and Nsight Compute as subprocesses.
//!
//! [`tool`] finds them, [`available`] checks names against the installed tool, [`nsys`] and [`ncu`] make their command lines
//! (pure), [`counter_plan`] chooses launches, [`progress`] counts them while ncu profiles, and [`verdict`] says what came of a
//! tool that ended, in its own words.

pub mod available;
pub mod counter_plan;
pub mod importer;
pub mod ncu;
pub mod nsys;
pub mod progress;
pub mod tool;
pub mod verdict;

pub use available::Available;
pub use counter_plan::{ChosenLaunch, CounterPlan, CoverageRequest};
pub use tool::{Tool, ToolError, Version};
