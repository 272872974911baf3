//! The part of a dataset's README that can be told from its files; people write the rest.

use std::fs;

use super::{Dataset, SOURCE, VariantMetadata, tree};
use crate::{AssetError, Changes, Result};

const BEGIN: &str = "<!-- llmprof: what is here, written by `llmprof dataset` -->";
const END: &str = "<!-- llmprof: end -->";

/// A README for a new dataset.
pub(super) fn new(dataset: &Dataset, source_url: &str, license: &str) -> Result<String> {
    let name = &dataset.name;
    Ok(format!(
        "# {name}\n\nSource: {source_url}\n\nLicense: {license}\n\n\
         ## How to obtain it\n\nDownload it to `$DATASETS_ROOT` and run `llmprof bootstrap datasets --yes`, which links `source-data` to it. \
         `source-data` is read-only: prepared data are variants beside it.\n\n\
         ## What is here\n\n{}\n\n\
         ## Usage\n\n    llmprof run dataset={name}\n    llmprof dataset variant {name} --samples 100\n    \
         llmprof run dataset={name} dataset.variant=subset-100\n",
        own_part(dataset)?
    ))
}

/// Brings the README's own part up to date, where it has one.
pub(super) fn refresh_readme(dataset: &Dataset, changes: &mut Changes) -> Result<()> {
    let path = dataset.folder.join("README.md");
    let Ok(text) = fs::read_to_string(&path) else {
        return Ok(());
    };
    if let Some((start, end)) = own_span(&text) {
        let text = format!("{}{}{}", &text[..start], own_part(dataset)?, &text[end..]);
        changes.own_file(&path, text);
    }
    Ok(())
}

/// Whether the README is up to date; `None` if it has no generated part.
pub(super) fn is_current(dataset: &Dataset) -> Result<Option<bool>> {
    let path = dataset.folder.join("README.md");
    let text = fs::read_to_string(&path).map_err(AssetError::io("read", &path))?;
    let Some((start, end)) = own_span(&text) else {
        return Ok(None);
    };
    Ok(Some(text[start..end] == own_part(dataset)?))
}

fn own_span(text: &str) -> Option<(usize, usize)> {
    let start = text.find(BEGIN)?;
    let end = start + text[start..].find(END)? + END.len();
    Some((start, end))
}

fn own_part(dataset: &Dataset) -> Result<String> {
    let tree = tree::first_level(&dataset.source(), SOURCE)?;
    let mut text = format!("{BEGIN}\n\n```\n{tree}```\n");
    let variants = dataset.variants()?;
    if !variants.is_empty() {
        text += "\n| variant | samples | made from | how |\n|---|---|---|---|\n";
        for name in variants {
            let row = match VariantMetadata::read_metadata(&dataset.folder.join(&name)) {
                Ok(facts) => format!(
                    "| `{name}` | {} | {} | {} |\n",
                    facts.size.samples, facts.parent, facts.transform
                ),
                Err(_) => format!("| `{name}` | | | |\n"),
            };
            text += &row;
        }
    }
    let subsets = dataset.subsets();
    if !subsets.is_empty() {
        text += &format!("\nFile lists: {}.\n", subsets.join(", "));
    }
    Ok(text + "\n" + END)
}
