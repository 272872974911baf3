use std::{collections::BTreeMap, path::Path};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the source code of a model is: a name for people, or folders and remarks under names of the user's choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(untagged)]
pub enum CodeSource {
    /// A repository, such as `org/name`.
    Name(String),
    /// Folders have keys that end in `dir`; anything else is a remark.
    Map(BTreeMap<String, Option<String>>),
}

impl CodeSource {
    /// The folders, by their keys.
    pub fn folders(&self) -> impl Iterator<Item = (&str, &Path)> {
        let map = match self {
            Self::Name(_) => None,
            Self::Map(map) => Some(map),
        };
        map.into_iter().flatten().filter_map(|(key, value)| {
            let folder = value.as_deref().filter(|_| key.ends_with("dir"))?;
            Some((key.as_str(), Path::new(folder)))
        })
    }
}
