//! Tests of the commands, linked once.

#[path = "../../inject/tests/support/build.rs"]
mod injected;
#[path = "../../capture/tests/nvml/build.rs"]
mod nvml;

mod advise;
mod agents;
mod bench;
mod commands;
mod common;
mod compare;
mod cuda_run;
mod direct;
mod docs;
mod fuzz_replay;
mod h200_runs;
mod hostile_text;
mod imports;
mod job_ranks;
mod kernels;
mod launcher;
mod memory;
mod model_names;
mod native;
mod no_room;
mod other_profiles;
mod parquet;
mod plan;
mod power_limit;
mod predict;
mod project;
mod pytorch;
mod record;
mod requests;
mod run_store;
mod schema;
mod shown;
mod simulate;
mod stage2;
mod survival;
mod traced;
mod trtexec;
mod turns;
mod untrusted;
mod vllm_live;
mod weights;
