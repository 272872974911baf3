//! Arguments that name a model or override the config.

/// An override; a word that sets nothing and deletes nothing names the model.
pub(crate) fn model_or_override(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("an override is KEY=VALUE, and NAME is model=NAME".to_owned());
    }
    Ok(if text.contains('=') || text.starts_with('~') {
        text.to_owned()
    } else {
        format!("model={text}")
    })
}
