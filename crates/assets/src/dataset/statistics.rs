use std::{collections::BTreeMap, path::Path};

use llmprof_units::{Bytes, stats::lower_median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    images::image_size,
    samples::{DatasetSamples, SampleContent},
};
use crate::{AssetError, Result};

/// File of the statistics of all parts of a dataset.
pub(super) const FILE: &str = "statistics.json";

/// Least, middle and most of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct SampleSpread {
    /// Smallest value over the samples that have one.
    pub min: u64,
    /// The middle one; the lower of two.
    pub median: u64,
    /// Largest value over the samples that have one.
    pub max: u64,
    /// Sum over the samples that have one.
    pub sum: u64,
}

/// What the samples of a dataset or a variant are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Statistics {
    /// Number of samples in the dataset or variant.
    pub samples: u64,
    /// Bytes of texts and image files.
    pub bytes: u64,
    /// Characters (Unicode) of each text; absent without texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_characters: Option<SampleSpread>,
    /// Tokens of samples that were tokenized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<SampleSpread>,
    /// Width of each image in pixels; absent without images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_width: Option<SampleSpread>,
    /// Height of each image in pixels; absent without images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_height: Option<SampleSpread>,
    /// Images whose size could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub images_of_unknown_size: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Statistics {
    /// Reads every sample, so it takes as long as reading the files.
    pub fn of_samples(samples: &DatasetSamples) -> Result<Self> {
        let mut statistics = Self::default();
        let (mut characters, mut tokens) = (Vec::new(), Vec::new());
        let (mut widths, mut heights) = (Vec::new(), Vec::new());
        for index in 0..samples.len() {
            statistics.samples += 1;
            match samples.sample(index)?.content {
                SampleContent::Text(text) => {
                    statistics.bytes += text.len() as u64;
                    characters.push(text.chars().count() as u64);
                }
                SampleContent::Tokens(list) => tokens.push(list.len() as u64),
                SampleContent::Image(path) => {
                    let file = std::fs::metadata(&path).map_err(AssetError::io("read", &path))?;
                    statistics.bytes += file.len();
                    match image_size(&path).map_err(AssetError::io("read", &path))? {
                        Some(size) => {
                            widths.push(size.width.into());
                            heights.push(size.height.into());
                        }
                        None => statistics.images_of_unknown_size += 1,
                    }
                }
            }
        }
        statistics.text_characters = spread_of(characters);
        statistics.tokens = spread_of(tokens);
        statistics.image_width = spread_of(widths);
        statistics.image_height = spread_of(heights);
        Ok(statistics)
    }

    /// One line, such as `3 samples, 4.2 KiB, 12 to 96 characters (median 40)`.
    pub fn line(&self) -> String {
        let mut parts = vec![llmprof_units::Count(self.samples, "sample").to_string()];
        if self.bytes > 0 {
            parts.push(Bytes(self.bytes).to_string());
        }
        let spreads = [
            (&self.text_characters, "characters"),
            (&self.tokens, "tokens"),
            (&self.image_width, "pixels wide"),
            (&self.image_height, "pixels high"),
        ];
        for (spread, unit) in spreads {
            if let Some(spread) = spread {
                parts.push(format!(
                    "{} to {} {unit} (median {})",
                    spread.min, spread.max, spread.median
                ));
            }
        }
        parts.join(", ")
    }
}

fn spread_of(mut values: Vec<u64>) -> Option<SampleSpread> {
    Some(SampleSpread {
        min: *values.iter().min()?,
        median: lower_median(&mut values)?,
        max: *values.iter().max()?,
        sum: values.iter().sum(),
    })
}

/// The statistics file of a dataset with one part put in; as text.
pub(super) fn with_part(folder: &Path, part: &str, statistics: &Statistics) -> String {
    let path = folder.join(super::ANALYSIS).join(FILE);
    let before = std::fs::read(path).unwrap_or_default();
    // A broken file is replaced: it holds nothing that cannot be computed again.
    let mut parts: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&before).unwrap_or_default();
    let value = serde_json::to_value(statistics).expect("statistics have only string keys");
    parts.insert(part.to_owned(), value);
    let text = serde_json::to_string_pretty(&parts).expect("statistics have only string keys");
    text + "\n"
}
