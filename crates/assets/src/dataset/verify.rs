use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Dataset, SOURCE, SUBSETS, VariantMetadata, metadata, readme, samples::DatasetSamples, variant,
};
use crate::Result;

/// Something about a dataset that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[error("{dataset}: {part}: {what}")]
pub struct Fault {
    /// Name of the dataset that has the fault.
    pub dataset: String,
    /// The part of it: `source-data`, a variant, a file list, `README.md`.
    pub part: String,
    /// The fault as a sentence, such as a file that is missing.
    pub what: String,
}

/// Checks the link, the facts, every variant against its facts, every file list, and the README.
pub fn verify(dataset: &Dataset) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    let mut wrong = |part: &str, what: String| {
        faults.push(Fault {
            dataset: dataset.name.clone(),
            part: part.to_owned(),
            what,
        });
    };
    let source = dataset.source();
    match source.symlink_metadata() {
        Err(_) => wrong(
            SOURCE,
            "is missing; `llmprof bootstrap datasets` makes it".to_owned(),
        ),
        Ok(_) if !source.exists() => wrong(
            SOURCE,
            format!(
                "points at {}, which does not exist; `llmprof bootstrap datasets` finds it again",
                source.read_link().unwrap_or_default().display()
            ),
        ),
        Ok(_) => {
            if let Err(error) = DatasetSamples::find_below(&source) {
                wrong(SOURCE, error.to_string());
            }
        }
    }
    match metadata::stated_name(&dataset.folder) {
        Ok(name) if name.eq_ignore_ascii_case(&dataset.name) => {}
        Ok(name) => wrong(super::METADATA, format!("says its name is `{name}`")),
        Err(error) => wrong(super::METADATA, error.to_string()),
    }
    for name in dataset.variants()? {
        if let Some(what) = variant_fault(dataset, &name) {
            wrong(&name, what);
        }
    }
    for name in dataset.subsets() {
        let list = dataset.folder.join(SUBSETS).join(format!("{name}.txt"));
        if let Err(error) = DatasetSamples::read_list(&source, &list, &[]) {
            wrong(&format!("{SUBSETS}/{name}.txt"), error.to_string());
        }
    }
    match readme::is_current(dataset) {
        Ok(Some(true) | None) => {}
        Ok(Some(false)) => wrong(
            "README.md",
            "its tree is out of date; `llmprof dataset add` writes it anew".to_owned(),
        ),
        Err(error) => wrong("README.md", error.to_string()),
    }
    Ok(faults)
}

fn variant_fault(dataset: &Dataset, name: &str) -> Option<String> {
    let folder = dataset.folder.join(name);
    let facts = match VariantMetadata::read_metadata(&folder) {
        Ok(facts) => facts,
        Err(error) => return Some(error.to_string()),
    };
    if facts.parent != SOURCE && !dataset.folder.join(&facts.parent).is_dir() {
        return Some(format!("its parent `{}` is not there", facts.parent));
    }
    if !variant::is_whole(&folder, &facts) {
        return Some("its data are not those it was made with (sha256 differs)".to_owned());
    }
    let samples = dataset
        .variant_folder(name)
        .and_then(|root| Ok(DatasetSamples::find_below(&root)?));
    let samples = match samples {
        Ok(samples) => samples,
        Err(error) => return Some(error.to_string()),
    };
    if samples.len() as u64 != facts.size.samples {
        return Some(format!(
            "has {} samples, its facts say {}",
            samples.len(),
            facts.size.samples
        ));
    }
    (0..samples.len()).find_map(|index| samples.sample(index).err().map(|error| error.to_string()))
}
