//! Text files that are read by their content, line by line.

use std::path::Path;

use llmprof_units::bounded_file::{DATA_MAX_BYTES, read_named_text};

/// Errors of reading a text file.
#[derive(Debug, thiserror::Error)]
pub enum TextFileError {
    #[error("cannot read {path}: {source}")]
    Io {
        path: String,
        source: std::io::Error,
    },
    /// A line, from 1, is not of the format.
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
}

/// The whole text of a file.
pub fn read_text(path: &Path) -> Result<String, TextFileError> {
    read_named_text(path, DATA_MAX_BYTES).map_err(|source| TextFileError::Io {
        path: path.display().to_string(),
        source,
    })
}
