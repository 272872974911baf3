//! YAML files that people write, read into types, with errors that name the file and the line.

use std::path::Path;

use llmprof_config::{emit, node::Node, source::SourceText, typed, yaml};
use llmprof_units::bounded_file::{CONFIG_MAX_BYTES, read_text_bounded};
use serde::{Serialize, de::DeserializeOwned};

use crate::{AssetError, Result};

/// A file as a tree, with the place of each value.
pub(crate) fn read_tree(path: &Path) -> Result<Node> {
    let text = read_text_bounded(path, CONFIG_MAX_BYTES).map_err(AssetError::io("read", path))?;
    let source = SourceText::new(path.to_string_lossy(), text);
    yaml::load_config(&source).map_err(|error| AssetError::BadFile {
        path: path.to_owned(),
        line: error.origin().map_or(0, |origin| origin.line_column().0),
        message: error.to_string(),
    })
}

/// A file as a value.
pub(crate) fn read_document<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let tree = read_tree(path)?;
    typed::read_typed(&tree).map_err(|error| AssetError::BadFile {
        path: path.to_owned(),
        line: error
            .origin
            .as_ref()
            .map_or(0, |origin| origin.line_column().0),
        message: error.to_string(),
    })
}

pub(crate) fn to_yaml<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_string(value).expect("these types have only string keys");
    // JSON is YAML: what one writer escapes the other reads.
    let source = SourceText::new("value", json);
    let node = yaml::load_config(&source).expect("JSON is YAML");
    emit::to_yaml(&node)
}
