use std::{
    fmt::Write,
    io,
    path::{Path, PathBuf},
};

use llmprof_units::Count;

/// Files that a message names before it only counts.
const NAMED_FILES: usize = 20;

/// Why data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// There is nothing in it.
    #[error("the dataset is empty: {what}")]
    Empty {
        /// What has nothing in it.
        what: String,
    },
    /// The list of files is nowhere.
    #[error("there is no file list {}; looked for {}", .list.display(), list_paths(.tried))]
    NoFileList {
        /// Path as the request gave it, relative or absolute.
        list: PathBuf,
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },
    /// The list of files names some that are not there.
    #[error("{} of {} that {} names are missing or no files:{}", .missing.len(), Count(*.total as u64, "file"), .list.display(), path_lines(.missing))]
    Missing {
        list: PathBuf,
        /// Every one that is missing.
        missing: Vec<PathBuf>,
        total: usize,
    },
    /// Files that hold nothing to start from.
    #[error("there is no text in {} of the dataset:{}", Count(.files.len() as u64, "file"), path_lines(.files))]
    Blank { files: Vec<PathBuf> },
    /// A file is not text.
    #[error("{} is not UTF-8 text (byte {at}): convert it, or take it out of the dataset", .path.display())]
    NotText {
        path: PathBuf,
        /// The first byte that is wrong.
        at: usize,
    },
    /// A line of a file is not a sample.
    #[error("{}:{line}: {what}", .path.display())]
    BadLine {
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        what: String,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file whose lines cannot be unpacked.
    #[error("cannot read {}: {why}", .path.display())]
    Unpack {
        path: PathBuf,
        why: String,
        hint: String,
    },
    /// A sample was asked for that is not there.
    #[error("there is no sample {index}: the dataset has {count}")]
    NoSuchSample { index: usize, count: usize },
}

impl SampleError {
    pub(super) fn cannot_read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Read { path, source }
    }
}

impl From<SampleError> for crate::AssetError {
    fn from(error: SampleError) -> Self {
        let hint = match &error {
            SampleError::Unpack { hint, .. } => Some(hint.clone()),
            _ => None,
        };
        Self::Refused {
            message: error.to_string(),
            hint,
        }
    }
}

fn list_paths(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    shown.join(" and ")
}

fn path_lines(paths: &[PathBuf]) -> String {
    let mut text = String::new();
    for path in paths.iter().take(NAMED_FILES) {
        let _ = write!(text, "\n  {}", path.display());
    }
    if let Some(more) = paths
        .len()
        .checked_sub(NAMED_FILES)
        .filter(|&more| more > 0)
    {
        let _ = write!(text, "\n  and {more} more");
    }
    text
}
