//! Counting tokens of text, where a server does not.

use std::{path::Path, sync::Arc};

use tokenizers::Tokenizer;

use llmprof_load::client::CountTokens;

/// A counter from a `tokenizer.json`, or from the folder that holds one. The message of a failure names the file.
pub(super) fn load(path: &Path) -> Result<CountTokens, String> {
    let file = if path.is_dir() {
        path.join("tokenizer.json")
    } else {
        path.to_owned()
    };
    let tokenizer = Tokenizer::from_file(&file)
        .map_err(|error| format!("cannot read the tokenizer {}: {error}", file.display()))?;
    Ok(Arc::new(move |text| {
        // Special tokens are not generated as text.
        tokenizer
            .encode_fast(text, false)
            .map_or(0, |encoding| encoding.len() as u64)
    }))
}
