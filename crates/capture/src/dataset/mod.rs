//! Synthetic prompts, and which samples of a dataset are used, in which order. Samples of files are read by `llmprof-assets`.

mod error;
mod python_random;
mod sampling;
mod synthetic;

pub use error::{DatasetError, Unreadable};
pub use sampling::Epochs;
pub use synthetic::{Lengths, Synthetic, Vocabulary};

use std::path::PathBuf;

use crate::runner::protocol::Prompt;

/// Prompts to choose from. There is at least one.
#[expect(clippy::len_without_is_empty, reason = "they are never empty")]
pub trait Prompts {
    fn len(&self) -> usize;

    /// The prompt of this number.
    fn read_sample(&self, index: usize) -> Result<DatasetSample, SampleError>;
}

/// Why one prompt cannot be had, in the words of whoever has it.
pub type SampleError = Box<dyn std::error::Error + Send + Sync>;

/// One prompt of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetSample {
    /// Names it: `synthetic-3`, or its path below the dataset's root.
    pub id: String,
    pub prompt: Prompt,
    /// The file it is from.
    pub file: Option<PathBuf>,
    /// The image that it shows to the model.
    pub image: Option<ImageFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    pub path: PathBuf,
    pub width: u64,
    pub height: u64,
    pub bytes: u64,
}
