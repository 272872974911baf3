//! What the fuzz targets do. `crates/*/tests/fuzz_replay.rs` does the same with the seeds and damaged copies of them.

pub mod config;
pub mod importers;
pub mod load;
pub mod mutate;
pub mod other_inputs;
pub mod run_directory;
pub mod seeds;
