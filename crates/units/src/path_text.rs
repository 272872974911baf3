//! Paths in JSON. A file name need not be UTF-8; JSON must be. serde refuses such a path, and with it the whole document that holds
//! it. Here bytes that are not UTF-8 become `\u{fffd}`. For paths that people read; a path that is opened again must be UTF-8 to begin with.

use std::path::Path;

use serde::Serializer;

/// Writes a path as text; use it with `#[serde(serialize_with = "path_text::serialize")]`.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// The same for a path that may be absent.
pub fn serialize_some<S: Serializer>(
    path: &Option<std::path::PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serialize(path, serializer),
        None => serializer.serialize_none(),
    }
}
