//! What a model is fed: synthetic prompts, or texts from files; and which of them are used, in which order.

mod error;
mod files;
mod python_random;
mod sampling;
mod synthetic;

use std::path::{Path, PathBuf};

pub use error::DatasetError;
pub use files::Files;
pub use sampling::Epochs;
pub use synthetic::{Lengths, Synthetic};

use crate::runner::protocol::Prompt;
use llmprof_record::plan::SamplingPlan;

/// Prompts to choose from. It holds at least one.
#[derive(Clone, Debug, PartialEq)]
pub enum Dataset {
    Synthetic(Synthetic),
    /// Texts, one file each.
    Files(Files),
}

/// One prompt of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetSample {
    /// Names it: `synthetic-3`, or its path below the dataset's root.
    pub id: String,
    pub prompt: Prompt,
    /// The file it is from.
    pub file: Option<PathBuf>,
}

impl Dataset {
    pub fn synthetic(prompts: Synthetic) -> Result<Self, DatasetError> {
        prompts.check()?;
        Ok(Self::Synthetic(prompts))
    }

    /// Texts below `root`: those that `filelist` names, else every `.txt` and `.md` file.
    ///
    /// A relative `filelist` is looked for in `cwd` and then in `root`; its entries are relative to `root`. Files that
    /// are named and missing are an error that lists them all.
    pub fn files(root: &Path, filelist: Option<&Path>, cwd: &Path) -> Result<Self, DatasetError> {
        let files = match filelist {
            Some(list) => Files::listed(root, list, cwd)?,
            None => Files::found(root)?,
        };
        Ok(Self::Files(files))
    }

    /// How many prompts there are.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        match self {
            Self::Synthetic(prompts) => prompts.samples,
            Self::Files(files) => files.len(),
        }
    }

    /// The prompt of this number.
    pub fn sample(&self, index: usize) -> Result<DatasetSample, DatasetError> {
        let count = self.len();
        if index >= count {
            return Err(DatasetError::NoSuchSample { index, count });
        }
        match self {
            Self::Synthetic(prompts) => Ok(DatasetSample {
                id: format!("synthetic-{index}"),
                prompt: Prompt::Tokens(prompts.prompt(index)),
                file: None,
            }),
            Self::Files(files) => files.sample(index),
        }
    }

    /// Which prompts are used in which epoch, by their numbers.
    pub fn epochs(&self, sampling: &SamplingPlan) -> Epochs {
        Epochs::new(self.len(), sampling)
    }
}
