//! Named baselines of a project: `baselines/NAME.json`, small enough to commit.

use std::path::{Path, PathBuf};

use llmprof_analysis::compare::RunFacts;
use llmprof_record::store::write_atomically;
use llmprof_units::bounded_file::{INDEX_MAX_BYTES, read_bounded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{clock, failure::Failure, outputs};

const FOLDER: &str = "baselines";
pub(crate) const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize, JsonSchema, Deserialize)]
pub(crate) struct Baseline {
    /// Version of this layout.
    schema_version: u32,
    /// When it was saved, UTC.
    created: String,
    /// Version of llmprof that saved it.
    llmprof: String,
    /// Runs of the side.
    runs: Vec<RunFacts>,
}

fn file(root: &Path, name: &str) -> Result<PathBuf, Failure> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
        return Err(Failure::new(format!("`{name}` cannot name a baseline"))
            .hint("letters, digits, `-`, `_` and `.`: main, v1.2, h200-bf16".to_owned()));
    }
    Ok(root.join(FOLDER).join(format!("{name}.json")))
}

/// Keeps the runs of a side; an older baseline of that name is replaced.
pub(super) fn save(root: &Path, name: &str, runs: &[RunFacts]) -> Result<PathBuf, Failure> {
    let path = file(root, name)?;
    let folder = root.join(FOLDER);
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::new(format!("cannot create {}: {error}", folder.display())))?;
    let mut runs = runs.to_vec();
    // Phases of the first profiled run stand for the side; of others they would only make the file large.
    let first = runs.iter().position(|run| !run.phases.is_empty());
    for (number, run) in runs.iter_mut().enumerate() {
        if Some(number) != first {
            run.phases.clear();
        }
    }
    let baseline = Baseline {
        schema_version: SCHEMA_VERSION,
        created: clock::now(),
        llmprof: crate::VERSION.to_owned(),
        runs,
    };
    write_atomically(&path, outputs::text(&baseline)?.as_bytes())?;
    Ok(path)
}

pub(super) fn load(root: &Path, name: &str) -> Result<Vec<RunFacts>, Failure> {
    let path = file(root, name)?;
    let text = read_bounded(&path, INDEX_MAX_BYTES).map_err(|error| {
        let known = names(root);
        let hint = if known.is_empty() {
            format!("`llmprof compare RUN --save-baseline {name}` makes it")
        } else {
            format!("known: {}", known.join(", "))
        };
        Failure::new(format!("cannot read baseline {}: {error}", path.display())).hint(hint)
    })?;
    let damaged = |why: String| Failure::new(format!("{} is damaged: {why}", path.display()));
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if value["schema_version"] != SCHEMA_VERSION {
        return Err(Failure::new(format!(
            "{} has layout version {}, and this llmprof reads version {SCHEMA_VERSION}",
            path.display(),
            value["schema_version"]
        ))
        .hint(format!(
            "make it again: llmprof compare RUN --save-baseline {name}"
        )));
    }
    let mut baseline: Baseline =
        serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
    for run in &mut baseline.runs {
        run.label = format!("baseline {name}");
    }
    if baseline.runs.is_empty() {
        return Err(damaged("it has no run".to_owned()));
    }
    Ok(baseline.runs)
}

fn names(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join(FOLDER)).into_iter().flatten();
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_suffix(".json").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}
