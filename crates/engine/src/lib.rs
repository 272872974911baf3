//! Runs a model on the CPU.
//!
//! The typed blocks of `llmprof-theory` are lowered here to execution, as `theory` lowers them to costs: an [`Engine`]
//! walks the same [`Decoder`](llmprof_theory::Decoder), binds each block to its weights, and records one [`Event`] per
//! operator that theory counts. Weights are f32 or bf16; everything else is computed in f32.

mod buffer;
mod cache;
pub mod cpu_bench;
mod engine;
mod error;
mod generate;
mod kernel;
mod model;
mod recorder;
mod sampler;
mod weights;

pub use cache::Cache;
pub use engine::{Engine, Options, SUPPORTED_FAMILIES};
pub use error::EngineError;
pub use generate::{Generated, Generation, TokenStep, generate_tokens};
pub use recorder::{Event, OperatorInfo, Recorder, now_ns};
pub use sampler::{Sampler, Sampling};
pub use weights::Source;
