//! Reading `top-kernels.yaml`.

use std::{path::Path, sync::Arc};

use llmprof_config::{source::SourceText, typed, yaml};
use llmprof_record::kernel_list::ListedKernel;
use llmprof_units::bounded_file::{CONFIG_MAX_BYTES, read_text_bounded};
use serde::Deserialize;

use crate::failure::Failure;

#[derive(Debug, Deserialize)]
struct List {
    kernels: Vec<ListedKernel>,
}

/// Reads a list that `kernels top` wrote, or a person edited.
pub(super) fn read(path: &Path) -> Result<Vec<ListedKernel>, Failure> {
    let failed = |what: String| Failure::new(format!("{}: {what}", path.display()));
    let text = read_text_bounded(path, CONFIG_MAX_BYTES)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    let source = Arc::new(SourceText::new(path.display().to_string(), text));
    let node = yaml::load_config(&source).map_err(|error| failed(error.to_string()))?;
    let list: List = typed::read_typed(&node).map_err(|error| failed(error.to_string()))?;
    if list.kernels.is_empty() {
        return Err(failed("`kernels` is empty".to_owned()));
    }
    Ok(list.kernels)
}
