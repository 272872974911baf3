//! Tests of what is imported and kept, linked once.

mod accelerators;
mod bounded_work;
mod communication;
mod formats;
mod fuzz_replay;
mod kernel_names;
mod kineto_damage;
mod kineto_layouts;
mod kineto_truth;
mod ncu_counters;
mod ncu_report;
mod nsys;
mod scrub;
mod support;
mod torch_memory;
mod wire;
