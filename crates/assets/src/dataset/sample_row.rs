//! A sample of a variant, whatever the format of its file.

use schemars::JsonSchema;
use serde::Serialize;

/// The prompt of a sample, as text or as token ids.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SampleValue {
    /// Text of the prompt.
    Text(String),
    /// Token ids of the prompt.
    Tokens(Vec<u32>),
    /// Path of an image; a relative one begins at the folder of this file.
    Image(String),
}

impl SampleValue {
    /// The key of the value in a line, and the name of its column in a table.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Tokens(_) => "tokens",
            Self::Image(_) => "image",
        }
    }
}

/// A sample of a variant, as a line of JSON or a row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SampleRow {
    /// Text, token ids or image.
    #[serde(flatten)]
    pub(super) value: SampleValue,
    /// Id of the sample in the source data.
    pub(super) id: String,
}
