use std::{path::PathBuf, sync::Arc};

use llmprof_units::{
    bounded_file::{TOKENIZER_MAX_BYTES, read_bounded},
    hex_text,
};
use sha2::{Digest, Sha256};

use super::metadata::TokenizerFile;
use crate::{AssetError, Result};

/// The ids of a text without the special tokens that a prompt's template would add, or why there are none.
pub type Encode = Arc<dyn Fn(&str) -> std::result::Result<Vec<u32>, String> + Send + Sync>;

#[derive(Clone)]
pub struct SampleTokenizer {
    /// `tokenizer.json`; its folder names the variant.
    pub file: PathBuf,
    pub encode: Encode,
}

impl SampleTokenizer {
    pub(super) fn tokenizer_facts(&self) -> Result<TokenizerFile> {
        let bytes = read_bounded(&self.file, TOKENIZER_MAX_BYTES)
            .map_err(AssetError::io("read", &self.file))?;
        Ok(TokenizerFile {
            file: self.file.clone(),
            sha256: hex_text(&Sha256::digest(&bytes)),
        })
    }

    pub(super) fn encode_text(&self, text: &str, id: &str) -> Result<Vec<u32>> {
        (self.encode)(text).map_err(|error| {
            AssetError::refused(
                format!("sample {id} cannot be tokenized: {error}"),
                "another tokenizer",
            )
        })
    }
}
