//! Everything with a side effect: starting processes, ending them, and what they leave behind.

pub mod calibration;
pub mod clock;
pub mod counters;
pub mod dataset;
pub mod doctor;
mod git;
pub mod host;
pub mod host_stacks;
pub mod native;
pub mod process;
pub mod profiler;
pub mod pytorch;
pub mod runner;
mod scratch;
pub mod session;
pub mod telemetry;
pub mod tokenizer;
