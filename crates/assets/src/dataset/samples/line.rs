//! One line of a `.jsonl` file: `{"text": …}`, `{"tokens": […]}`, `{"image": PATH}`, each with an `id` if it likes, or a string.

use std::path::Path;

use serde_json::Value;

use super::{SampleContent, SampleError};

pub(super) struct SampleLine {
    pub(super) id: Option<String>,
    pub(super) content: SampleContent,
}

/// Keys that hold a text, the first that is there counts.
const TEXT_KEYS: [&str; 3] = ["text", "prompt", "content"];

pub(super) fn read_line(bytes: &[u8], file: &Path, number: u64) -> Result<SampleLine, SampleError> {
    let bad = |what: String| SampleError::BadLine {
        path: file.to_owned(),
        line: number,
        what,
    };
    // serde counts lines of what it is given, which is one line of the file.
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        bad(error
            .to_string()
            .replace(" at line 1 column ", " at column "))
    })?;
    let mut object = match value {
        Value::String(text) => {
            return Ok(SampleLine {
                id: None,
                content: SampleContent::Text(text),
            });
        }
        Value::Object(object) => object,
        _ => return Err(bad("neither an object nor a string".to_owned())),
    };
    // Rows of tables have every column.
    object.retain(|_, value| !value.is_null());
    let id = match object.get("id") {
        None => None,
        Some(Value::String(id)) => Some(id.clone()),
        Some(Value::Number(id)) => Some(id.to_string()),
        Some(_) => return Err(bad("`id` is neither a string nor a number".to_owned())),
    };
    let text = TEXT_KEYS
        .iter()
        .find_map(|key| Some((key, object.get(*key)?)));
    let content = if let Some(tokens) = object.get("tokens") {
        let tokens: Vec<u32> = serde_json::from_value(tokens.clone())
            .map_err(|error| bad(format!("`tokens` is not a list of token ids: {error}")))?;
        if tokens.is_empty() {
            return Err(bad("`tokens` is empty".to_owned()));
        }
        SampleContent::Tokens(tokens)
    } else if let Some(image) = object.get("image") {
        let image = image
            .as_str()
            .ok_or_else(|| bad("`image` is not a path".to_owned()))?;
        let path = file.parent().unwrap_or(file).join(image);
        if !path.is_file() {
            return Err(bad(format!("there is no image {}", path.display())));
        }
        SampleContent::Image(path)
    } else if let Some((key, text)) = text {
        match text.as_str() {
            Some("") => return Err(bad(format!("`{key}` is empty"))),
            Some(text) => SampleContent::Text(text.to_owned()),
            None => return Err(bad(format!("`{key}` is not a string"))),
        }
    } else {
        let names: Vec<&str> = object.keys().map(String::as_str).collect();
        return Err(bad(format!(
            "there is no `text`, `prompt`, `content`, `tokens` or `image`; it has: {}",
            names.join(", ")
        )));
    };
    Ok(SampleLine { id, content })
}
