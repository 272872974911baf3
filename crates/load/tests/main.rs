//! Tests of the load generator, linked once.

mod faults;
mod fuzz_replay;
mod results;
mod support;
mod tls;
mod truth;
mod vllm_fixtures;
