//! Tests of capturing, linked once.

mod amd_smi;
mod counter_plan;
mod host_stacks;
mod nvml;
mod power_limit;
mod pytorch;
mod worker;
