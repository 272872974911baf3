use std::path::{Path, PathBuf};

use llmprof_units::hex_text;
use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

use super::metadata::TokenizerFile;
use crate::{AssetError, Result};

/// A tokenizer and the file it is from.
pub(super) struct Loaded {
    tokenizer: Tokenizer,
    pub(super) file: TokenizerFile,
}

/// Reads `tokenizer.json`, given as a file or as the folder that has it.
pub(super) fn load(path: &Path) -> Result<Loaded> {
    let file: PathBuf = if path.is_dir() {
        path.join("tokenizer.json")
    } else {
        path.to_owned()
    };
    let bytes = std::fs::read(&file).map_err(AssetError::io("read", &file))?;
    let tokenizer = Tokenizer::from_bytes(&bytes)
        .map_err(|error| AssetError::bad(&file, format!("not a tokenizer: {error}")))?;
    Ok(Loaded {
        tokenizer,
        file: TokenizerFile {
            file,
            sha256: hex_text(&Sha256::digest(&bytes)),
        },
    })
}

impl Loaded {
    /// The ids of a text, without the special tokens that a prompt's template would add.
    pub(super) fn encode(&self, text: &str, id: &str) -> Result<Vec<u32>> {
        let encoded = self.tokenizer.encode(text, false).map_err(|error| {
            AssetError::refused(
                format!("sample {id} cannot be tokenized: {error}"),
                "another tokenizer",
            )
        })?;
        Ok(encoded.get_ids().to_vec())
    }
}
