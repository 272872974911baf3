//! The model of a run: its design, and what theory makes of it.

use std::path::PathBuf;

use llmprof_theory::{Model, ModelError};
use llmprof_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A model as a run knew it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(try_from = "StoredModel", into = "StoredModel")]
pub struct RecordedModel {
    /// With the keys of a Hugging Face config.
    pub design: Map<String, Value>,
    /// Absent where theory does not know the family: such a model can be run, not counted.
    pub model: Option<Model>,
}

/// Which weights a run had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct RecordedWeights {
    /// The directory they were read from; absent for random ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Commit of that directory: of the Hugging Face cache, or of a git checkout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// SHA-256 of the file that lists the tensors: the index of several files, or the header of the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_sha256: Option<String>,
    /// Size of the weight files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
}

#[derive(Clone, Serialize, JsonSchema, Deserialize)]
#[schemars(rename = "RecordedModel")]
struct StoredModel {
    /// With the keys of a Hugging Face config.
    design: Map<String, Value>,
    /// Read as this family, whatever the design says; absent for a model that was not counted.
    family: Option<String>,
}

impl From<RecordedModel> for StoredModel {
    fn from(model: RecordedModel) -> Self {
        Self {
            family: model.model.map(|model| model.family.to_owned()),
            design: model.design,
        }
    }
}

impl TryFrom<StoredModel> for RecordedModel {
    type Error = ModelError;

    fn try_from(stored: StoredModel) -> Result<Self, ModelError> {
        let model = stored
            .family
            .map(|family| Model::from_config(&Value::Object(stored.design.clone()), Some(&family)))
            .transpose()?;
        Ok(Self {
            design: stored.design,
            model,
        })
    }
}

impl RecordedModel {
    /// Why theory does not count it; `None` where it does.
    pub fn uncounted(&self) -> Option<ModelError> {
        if self.model.is_some() {
            return None;
        }
        Model::from_config(&Value::Object(self.design.clone()), None).err()
    }
}
