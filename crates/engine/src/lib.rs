//! Runs a model on the CPU.
//!
//! The typed blocks of `llmprof-theory` are lowered here to execution, as `theory` lowers them to costs: an [`NativeEngine`]
//! walks the same [`Decoder`](llmprof_theory::Decoder), binds each block to its weights, and records one [`OperatorEvent`] per
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

pub use cache::KvCache;
pub use engine::{EngineOptions, NativeEngine, SUPPORTED_FAMILIES};
pub use error::EngineError;
pub use generate::{GeneratedTokens, GenerationOptions, TokenStep, generate_tokens};
pub use recorder::{OperatorEvent, OperatorInfo, Recorder, now_ns};
pub use sampler::{SamplingOptions, TokenSampler};
pub use weights::WeightSource;
