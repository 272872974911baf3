//! What a model must cost on a device. Pure code.
//!
//! A [`Model`] is typed [`block`]s with repeat counts, built from a Hugging Face `config.json`. With a [`Workload`] it
//! lowers to [`Operator`]s whose work and traffic are exact; [`Cost`] sums them.

pub mod block;
mod config_text;
mod cost;
mod count;
pub mod device;
mod encoder;
mod error;
mod families;
mod formats;
pub mod kernels;
mod lower;
mod memory;
mod memory_fit;
mod model;
mod operator;
pub mod parallel;
mod quant;
mod query_vision;
mod ranks;
pub mod roofline;
mod routing;
mod step;
mod step_cost;
mod validate;
mod vision;
mod weight;
mod workload;

pub use block::LayerGroup;
pub use config_text::parse_config;
pub use cost::{Cost, Costs, FlopTable, Span};
pub use encoder::{AudioInput, Encoder, EncoderInput};
pub use error::{ModelError, WorkloadError};
pub use families::{COMMON_KEYS, GELU_NEW, family_names};
pub use formats::Formats;
pub use memory::MemoryFootprint;
pub use memory_fit::MemoryFit;
pub use model::{Decoder, Model};
pub use operator::{Kind, Operator, Path, Phase, Shape, Traffic, Work};
pub use quant::{ParseWeightFormatError, WeightFormat};
pub use query_vision::{QueryEncoder, QueryVision};
pub use routing::expected_touched;
pub use step::{Part, SequenceSums, Sequences, Step};
pub use vision::{DeepseekOcrVision, Vision};
pub use weight::{Dims, Tensor};
pub use workload::{
    AttentionConvention, Images, Logits, MlaDecode, Pass, Precision, Routing, Workload,
};
