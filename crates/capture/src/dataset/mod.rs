//! Synthetic prompts, and which samples of a dataset are used, in which order. Samples of files are read by `llmprof-assets`.

mod error;
mod python_random;
mod sampling;
mod synthetic;

pub use error::DatasetError;
pub use sampling::Epochs;
pub use synthetic::{Lengths, Synthetic};
