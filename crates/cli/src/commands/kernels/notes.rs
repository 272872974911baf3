//! A user's `kernel-info.yaml`.

use std::{path::Path, sync::Arc};

use llmprof_config::{
    node::{Node, Value},
    source::Source,
    yaml,
};
use llmprof_record::kernel_name::canonical;
use llmprof_report::compose::{KernelNote, KernelNotes};

use crate::failure::Failure;

/// Reads notes: a list of `{raw_name, friendly_name, source_lib, data_shape, description}`, at the top or under one key.
pub(super) fn read(path: &Path) -> Result<KernelNotes, Failure> {
    let failed = |what: String| Failure::new(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    let source = Arc::new(Source::new(path.display().to_string(), text));
    let node = yaml::load(&source).map_err(|error| failed(error.to_string()))?;
    let Some(entries) = list(&node) else {
        return Err(failed("no list of kernels is in it".to_owned())
            .hint("- raw_name: NAME\n  friendly_name: TEXT".to_owned()));
    };
    let mut notes = KernelNotes::new();
    for (index, entry) in entries.iter().enumerate() {
        let text = |key: &str| entry.get(key).and_then(Node::as_str).map(str::to_owned);
        let Some(name) = text("raw_name") else {
            return Err(failed(format!("entry {} has no `raw_name`", index + 1)));
        };
        let note = KernelNote {
            friendly_name: text("friendly_name"),
            source_library: text("source_lib"),
            description: text("description"),
        };
        notes.insert(canonical(&name), note);
    }
    Ok(notes)
}

fn list(node: &Node) -> Option<&[Node]> {
    match &node.value {
        Value::Dict(dict) => dict.values().find_map(Node::as_list),
        _ => node.as_list(),
    }
}
