//! Nsight Systems and Nsight Compute as subprocesses.
//!
//! [`tool`] finds them, [`nsys`] and [`ncu`] make their command lines (pure), [`counter_plan`] chooses launches, and
//! [`verdict`] says what came of a tool that ended, in its own words.

pub mod counter_plan;
pub mod ncu;
pub mod nsys;
pub mod tool;
pub mod verdict;

pub use counter_plan::{ChosenLaunch, CounterPlan, Wanted};
pub use tool::{Tool, ToolError, Version};
