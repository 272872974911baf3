//! Tests of configuration, linked once.

mod common;
mod corpus;
mod fuzz_replay;
mod grammar;
mod grammar_properties;
mod live_hydra;
mod omegaconf;
