use std::io;

use thiserror::Error;

/// Why a device could not be had.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// No file describes a device of that name.
    #[error(
        "no device is called `{wanted}`{}; for another device write a file (start from `custom_npu`, which documents every key)",
        suggest_similar(near)
    )]
    Unknown {
        /// The name as it was given.
        wanted: String,
        /// Names that look like it.
        near: Vec<String>,
    },
    /// Two files claim one driver name.
    #[error("the driver name `{driver_name}` is claimed by {first} and {second}")]
    Ambiguous {
        driver_name: String,
        first: String,
        second: String,
    },
    /// Not YAML of the schema: the message has line, column and key.
    #[error("device file {file}: {problem}")]
    Syntax { file: String, problem: String },
    /// A value that cannot be.
    #[error("device file {file}: {key}: {problem}")]
    Invalid {
        file: String,
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file or directory that cannot be read.
    #[error("cannot read device files in {path}: {error}")]
    Unreadable { path: String, error: io::Error },
}

fn suggest_similar(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!(" (did you mean {}?)", near.join(", "))
    }
}
