use std::path::PathBuf;

/// Why a dataset cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// There is nothing in it.
    #[error("the dataset is empty: {what}")]
    Empty {
        /// What has nothing in it.
        what: String,
    },
    /// A size makes no sense.
    #[error("synthetic prompts need {0}")]
    BadSize(&'static str),
}

/// One sample that cannot be read. The others can be used without it.
#[derive(Debug, thiserror::Error)]
#[error("sample {id}: {why}")]
pub struct Unreadable {
    pub id: String,
    pub file: PathBuf,
    pub why: String,
}
