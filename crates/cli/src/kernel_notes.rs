//! A user's `kernel-info.yaml`: what kernels are, joined by canonical name.

use std::{path::Path, sync::Arc};

use llmprof_config::{
    node::{Node, Value},
    source::SourceText,
    yaml,
};
use llmprof_record::{kernel_name::canonical, store::Folder};
use llmprof_report::compose::{KernelNote, KernelNotes};
use llmprof_units::bounded_file::{CONFIG_MAX_BYTES, read_text_bounded};

use crate::failure::Failure;

/// The copy that a run keeps: its reports are made from it, wherever the run is moved.
pub(crate) const KEPT: &str = "ncu/kernel-info.yaml";

/// Reads a user's file; the answer has its text too.
pub(crate) fn read(path: &Path) -> Result<(KernelNotes, String), Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
    };
    let text = read_text_bounded(path, CONFIG_MAX_BYTES).map_err(|error| unreadable(&error))?;
    Ok((parse(&path.display().to_string(), &text)?, text))
}

/// The notes that a run kept; none where it has no such file. A link is not one of its files.
pub(crate) fn of_run(run: &Path) -> Result<KernelNotes, Failure> {
    let name = run.join(KEPT).display().to_string();
    let unreadable = |error: std::io::Error| Failure::new(format!("cannot read {name}: {error}"));
    let folder = Folder::open(run).map_err(unreadable)?;
    if !folder.has_file(KEPT) {
        return Ok(KernelNotes::new());
    }
    let bytes = folder.read(KEPT, CONFIG_MAX_BYTES).map_err(unreadable)?;
    parse(&name, &String::from_utf8_lossy(&bytes))
}

/// A list of `{raw_name, friendly_name, source_lib, data_shape, description}`, at the top or under one key.
fn parse(name: &str, text: &str) -> Result<KernelNotes, Failure> {
    let failed = |what: String| Failure::new(format!("{name}: {what}"));
    let source = Arc::new(SourceText::new(name.to_owned(), text.to_owned()));
    let node = yaml::load_config(&source).map_err(|error| failed(error.to_string()))?;
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
            source_lib: text("source_lib"),
            data_shape: entry.get("data_shape").map(shapes).unwrap_or_default(),
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

/// Shapes by kind (`generic`, `fixed`, `tiled`), or one text.
fn shapes(node: &Node) -> Vec<String> {
    let Some(kinds) = node.as_dict() else {
        return shape(node).into_iter().collect();
    };
    kinds
        .iter()
        .filter_map(|(kind, value)| Some(format!("{} {}", kind.as_str()?, shape(value)?)))
        .collect()
}

/// A shape as it was written. YAML has no tuples: `[(M, K), "->", (M,)]` is a list of `(M`, `K)`, `->`, `(M` and `)`.
fn shape(node: &Node) -> Option<String> {
    let Some(parts) = node.as_list() else {
        let text = node.as_str().map(str::to_owned);
        return text.or_else(|| node.as_i64().map(|number| number.to_string()));
    };
    let parts: Vec<String> = parts.iter().filter_map(shape).collect();
    if parts.is_empty() {
        return None;
    }
    let text = parts.join(", ").replace(", ->, ", " → ");
    Some(text.replace(", )", ",)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_people_write_them() {
        let text = "kernels:\n- raw_name: 'void gemm<(int)7>(float *)'\n  friendly_name: GEMM\n  source_lib: cuBLAS\n  data_shape:\n    \
                    generic:\n      - [(M, K), (K,), \"->\", (M,)]\n    fixed: null\n    tiled:\n      - [(32, 128), (128, 32), \"->\", (32, 32)]\n\
                    - raw_name: other\n  data_shape: (N,)\n";
        let notes = parse("kernel-info.yaml", text).unwrap();
        // Nsight Compute writes the same name without casts.
        let gemm = &notes[&canonical("void gemm<7>(float *)")];
        assert_eq!(gemm.friendly_name.as_deref(), Some("GEMM"));
        assert_eq!(
            gemm.data_shape,
            [
                "generic (M, K), (K,) → (M,)",
                "tiled (32, 128), (128, 32) → (32, 32)"
            ]
        );
        assert_eq!(notes["other"].data_shape, ["(N,)"]);
        let said = |text: &str| parse("x.yaml", text).unwrap_err().to_string();
        assert!(said("text").contains("no list of kernels is in it"));
        assert!(said("- friendly_name: x").contains("entry 1 has no `raw_name`"));
    }
}
