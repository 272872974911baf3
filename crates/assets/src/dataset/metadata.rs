use std::path::{Path, PathBuf};

use llmprof_units::path_text;
use serde::{Deserialize, Serialize};

use super::SampleFormat;
use crate::{AssetError, Result, document};

/// `metadata.yaml` of a variant: where it came from and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantMetadata {
    /// `source-data`, or the variant that it was made from.
    pub parent: String,
    /// The day it was made.
    pub created: String,
    /// What was done, for people.
    pub transform: String,
    /// Seed of a random choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The tokenizer's file and its hash, where texts were tokenized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerFile>,
    /// What its only file is, `data/samples.FORMAT`.
    #[serde(default)]
    pub format: SampleFormat,
    /// Number of samples and tokens, and the space on disk.
    pub size: VariantSize,
    /// Hash of the file of samples; absent for variants that somebody else made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The tokenizer that made the token ids, known by the hash of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerFile {
    /// Path of the tokenizer's file as the request named it.
    #[serde(serialize_with = "path_text::serialize")]
    pub file: PathBuf,
    /// SHA-256 of the tokenizer's file, in hexadecimal.
    pub sha256: String,
}

/// How much a variant is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantSize {
    /// Number of samples in the variant.
    pub samples: u64,
    /// Space on disk in megabytes of 10⁶ bytes.
    #[serde(default)]
    pub disk_mb: f64,
    /// Tokens of all samples, where they were tokenized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl VariantMetadata {
    pub(super) fn read_metadata(folder: &Path) -> Result<Self> {
        document::read_document(&folder.join(super::METADATA))
    }

    /// Whether two variants hold the same, whenever they were made.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.parent == other.parent
            && self.transform == other.transform
            && self.seed == other.seed
            && self.tokenizer == other.tokenizer
            && self.format == other.format
    }
}

/// The `name` that a dataset's own facts state; everything else there is for people.
pub(super) fn stated_name(folder: &Path) -> Result<String> {
    let path = folder.join(super::METADATA);
    let tree = document::read_tree(&path)?;
    let name = tree.get("name").and_then(|name| name.as_str());
    name.map(str::to_owned)
        .ok_or_else(|| AssetError::bad(&path, "there is no `name`"))
}
