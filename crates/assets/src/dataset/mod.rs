//! Datasets of a project: `datasets/NAME` with the link `source-data`, prepared variants beside it, facts and a README.

mod add;
mod choose;
mod facts;
mod format;
mod images;
mod metadata;
#[cfg(feature = "parquet")]
mod parquet_writer;
mod readme;
mod sample_page;
mod sample_row;
pub mod samples;
mod statistics;
mod tokens;
mod tree;
mod variant;
mod verify;

use std::{
    fs,
    path::{Path, PathBuf},
};

pub use add::{NewDataset, add};
pub use facts::DatasetFacts;
pub use format::SampleFormat;
pub use images::{ImageSize, image_size};
pub use metadata::{VariantMetadata, VariantSize};
pub use sample_row::{SampleRow, SampleValue};
pub use statistics::Statistics;
pub use tokens::{Encode, SampleTokenizer};
pub use variant::{SampleSelection, VariantRequest, variants};
pub use verify::{Fault, verify};

use crate::{AssetError, Result};

/// The link to the data as it came. Nothing is ever written below it.
pub const SOURCE: &str = "source-data";
/// Folder of a variant's data.
pub const DATA: &str = "data";
pub const SUBSETS: &str = "subsets";
/// Facts of a dataset or of a variant.
pub const METADATA: &str = "metadata.yaml";
pub const ANALYSIS: &str = "analysis";

/// A dataset of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Its name, which is its folder's.
    pub name: String,
    pub folder: PathBuf,
}

impl Dataset {
    /// All datasets of a project, by name.
    pub fn list(project: &Path) -> Result<Vec<Self>> {
        let folder = project.join("datasets");
        let names = list_folders(&folder)?;
        Ok(names
            .into_iter()
            .map(|name| Self {
                folder: folder.join(&name),
                name,
            })
            .collect())
    }

    /// The dataset of that name.
    pub fn open(project: &Path, name: &str) -> Result<Self> {
        let all = Self::list(project)?;
        let known = all.iter().map(|dataset| dataset.name.clone()).collect();
        let dataset = all.into_iter().find(|dataset| dataset.name == name);
        dataset.ok_or(AssetError::Unknown {
            what: "dataset",
            name: name.to_owned(),
            known,
        })
    }

    /// The data as it came.
    pub fn source(&self) -> PathBuf {
        self.folder.join(SOURCE)
    }

    /// Prepared variants: folders with facts of their own.
    pub fn variants(&self) -> Result<Vec<String>> {
        let mut names = list_folders(&self.folder)?;
        names.retain(|name| name != SOURCE && self.folder.join(name).join(METADATA).is_file());
        Ok(names)
    }

    /// File lists: their names without `.txt`.
    pub fn subsets(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join(SUBSETS))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".txt").map(str::to_owned))
            .collect();
        names.sort();
        names
    }

    /// The folder that samples of a variant are read from; of the data as it came for `source-data`.
    pub fn variant_folder(&self, variant: &str) -> Result<PathBuf> {
        match variant {
            SOURCE => Ok(self.source()),
            variant => variant_root(&self.source(), variant),
        }
    }
}

/// Where the samples of a variant are: the folder beside `source-data`, or, for a root of another name, inside of it; its
/// `data` folder where it has one.
pub fn variant_root(root: &Path, variant: &str) -> Result<PathBuf> {
    check_name(variant, "variant")?;
    let beside = root.parent().map(|parent| parent.join(variant));
    let inside = root.join(variant);
    let is_source = root.file_name().is_some_and(|name| name == SOURCE);
    let places: Vec<PathBuf> = if is_source {
        beside.into_iter().collect()
    } else {
        [Some(inside), beside].into_iter().flatten().collect()
    };
    let Some(folder) = places.iter().find(|place| place.is_dir()) else {
        let known = places
            .iter()
            .filter_map(|place| list_folders(place.parent()?).ok())
            .flatten()
            .filter(|name| ![SOURCE, ANALYSIS, SUBSETS].contains(&name.as_str()))
            .collect();
        let place = places[0].parent().unwrap_or(root);
        return Err(AssetError::Unknown {
            what: "variant",
            name: format!("{variant}` in `{}", place.display()),
            known,
        });
    };
    let data = folder.join(DATA);
    Ok(if data.is_dir() { data } else { folder.clone() })
}

/// Refuses a name that is not one plain part of a path.
pub(crate) fn check_name(name: &str, what: &str) -> Result<()> {
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    let fits = name.chars().all(letters) && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if fits {
        return Ok(());
    }
    Err(AssetError::refused(
        format!("`{name}` cannot be the name of a {what}"),
        "letters, digits, `-`, `_`, `+` and `.`, beginning with a letter or digit",
    ))
}

/// Names of the folders in a folder, without hidden ones; empty if it does not exist.
fn list_folders(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(AssetError::io("read", folder)(error)),
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    Ok(names)
}
