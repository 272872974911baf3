//! What `dataset list` and `dataset show` say.

use std::{collections::BTreeMap, fs, path::PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::{Dataset, SOURCE, Statistics, samples::DatasetSamples};
use crate::Result;

/// A dataset of the project.
#[derive(Serialize, JsonSchema)]
pub struct DatasetFacts {
    /// Name of the dataset, which is its folder's below `datasets/`.
    name: String,
    /// Where `source-data` links to; null where it is a folder of the project.
    source: Option<PathBuf>,
    /// Whether the source data are there.
    is_there: bool,
    /// Variants beside the source data.
    variants: Vec<String>,
    /// Names of the file lists in `subsets/`, without `.txt`.
    subsets: Vec<String>,
    /// Statistics of the source data and of each variant that can be read; `dataset show` only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    statistics: BTreeMap<String, Statistics>,
}

impl Dataset {
    pub fn facts(&self) -> Result<DatasetFacts> {
        let source = self.source();
        Ok(DatasetFacts {
            name: self.name.clone(),
            source: fs::read_link(&source).ok(),
            is_there: source.exists(),
            variants: self.variants()?,
            subsets: self.subsets(),
            statistics: BTreeMap::new(),
        })
    }

    /// Reads every sample of the source data and of all variants.
    pub fn facts_with_statistics(&self) -> Result<DatasetFacts> {
        let mut facts = self.facts()?;
        for (part, statistics) in self.statistics()? {
            facts
                .statistics
                .extend(statistics.ok().map(|statistics| (part, statistics)));
        }
        Ok(facts)
    }

    /// The same as text; what cannot be read says why.
    pub fn description(&self) -> Result<String> {
        let mut text = format!("{}: {}\n", self.name, self.place());
        for (part, statistics) in self.statistics()? {
            let said =
                statistics.map_or_else(|error| error.to_string(), |statistics| statistics.line());
            text += &format!("  {part}: {said}\n");
        }
        let subsets = self.subsets();
        if !subsets.is_empty() {
            text += &format!("  file lists: {}\n", subsets.join(", "));
        }
        Ok(text)
    }

    fn statistics(&self) -> Result<Vec<(String, Result<Statistics>)>> {
        let parts = [SOURCE.to_owned()].into_iter().chain(self.variants()?);
        let statistics = |part: &str| -> Result<Statistics> {
            Statistics::of_samples(&DatasetSamples::find_below(&self.variant_folder(part)?)?)
        };
        Ok(parts
            .map(|part| {
                let statistics = statistics(&part);
                (part, statistics)
            })
            .collect())
    }

    /// Where the source data are.
    pub fn place(&self) -> String {
        let source = self.source();
        match (fs::read_link(&source), source.exists()) {
            (Ok(target), true) => target.display().to_string(),
            (Ok(target), false) => format!("{} (does not exist)", target.display()),
            (Err(_), true) => "a folder of the project".to_owned(),
            (Err(_), false) => "missing".to_owned(),
        }
    }
}
