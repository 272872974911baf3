//! Prompts as text: the model's own tokenizer, and the tokens that end a text.

use std::path::Path;

use serde_json::{Map, Value};

use crate::{
    runner::protocol::{Failure, FailureKind},
    tokenizer::{TOKENIZER_FILE, TokenizerProcess},
};

/// Turns text into token ids and back.
pub(super) struct TextTokenizer(TokenizerProcess);

impl TextTokenizer {
    /// The tokenizer of `asked`, a directory or file that must have one, else that of the model's directory where it has
    /// one.
    pub(super) fn find_tokenizer(
        asked: Option<&Path>,
        model: Option<&Path>,
    ) -> Result<Option<Self>, Failure> {
        let path = match (asked, model) {
            (Some(path), _) => path,
            (None, Some(model)) if model.join(TOKENIZER_FILE).is_file() => model,
            (None, _) => return Ok(None),
        };
        TokenizerProcess::start(path)
            .map(|tokenizer| Some(Self(tokenizer)))
            .map_err(|why| Failure::new(FailureKind::Model, why))
    }

    /// The ids of a prompt, with the special tokens that the tokenizer adds. `name` identifies the prompt.
    pub(super) fn encode_prompt(&self, text: &str, name: &str) -> Result<Vec<u32>, Failure> {
        let ids = self.0.encode(text, true).map_err(|error| {
            let kind = match self.0.failure() {
                Some(_) => FailureKind::Model,
                None => FailureKind::BadRequest,
            };
            Failure::new(kind, format!("cannot tokenize `{name}`: {error}"))
        })?;
        if ids.is_empty() {
            return Err(Failure::new(
                FailureKind::BadRequest,
                format!("`{name}` has no tokens"),
            ));
        }
        Ok(ids)
    }

    /// The text of some ids without and with special tokens; none where they have no text.
    pub(super) fn decode_ids(&self, ids: &[u32]) -> Option<(String, String)> {
        let decoded = self.0.decode(ids).ok()?;
        Some((decoded.text, decoded.raw_text))
    }
}

/// The ids that end a text, as the model's config has them: one, a list, or none.
pub(super) fn end_tokens(config: &Map<String, Value>) -> Vec<u32> {
    let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
    match config.get("eos_token_id") {
        Some(Value::Array(ids)) => ids.iter().filter_map(id).collect(),
        Some(value) => id(value).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn end_tokens_are_one_or_several() {
        let of = |value: Value| {
            let config = Map::from_iter([("eos_token_id".to_owned(), value)]);
            end_tokens(&config)
        };
        assert_eq!(of(json!(2)), [2]);
        assert_eq!(of(json!([2, 7])), [2, 7]);
        assert!(of(json!(null)).is_empty() && of(json!(-1)).is_empty());
    }
}
