//! Paths in JSON. A file name need not be UTF-8; JSON must be. serde refuses such a path, which is no reason to lose all that stands beside
//! it: bytes that are no text become `\u{fffd}`. For paths that people read; a path that is opened again must be UTF-8 to begin with.

use std::path::Path;

use serde::Serializer;

/// For `#[serde(serialize_with = "path_text::serialize")]`.
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
