//! Tests of capturing, linked once.

#[path = "nvml/build.rs"]
mod build;

mod amd_smi;
mod counter_plan;
mod host_stacks;
mod nvml;
mod power_limit;
mod pytorch;
mod worker;
