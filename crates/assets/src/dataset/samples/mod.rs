//! What is in a folder of data: texts (`.txt`, `.md`), lines of JSON (`.jsonl`, `.json`, compressed or not), rows of tables (`.csv`,
//! `.parquet`), images, or the pages of an OmniDocBench.

mod error;
mod find;
mod line;
mod parquet_rows;
mod unpack;

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

pub use error::SampleError;
use unpack::UnpackedLines;

/// Samples to choose from. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetSamples {
    list: Vec<Located>,
}

/// One sample, not read yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Located {
    /// Its path below the root, or the id that its line states.
    id: String,
    place: SampleLocation,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SampleLocation {
    Text(PathBuf),
    Image(PathBuf),
    /// A line of a file: its number from 1, and its bytes there or where it was unpacked.
    Line {
        file: Arc<PathBuf>,
        unpacked: Option<UnpackedLines>,
        number: u64,
        start: u64,
        length: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSample {
    /// Names it: its path below the root, or the id that its line states.
    pub id: String,
    pub content: SampleContent,
    /// The file it is from.
    pub file: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SampleContent {
    Text(String),
    /// A text that was tokenized before.
    Tokens(Vec<u32>),
    Image(PathBuf),
}

impl DatasetSamples {
    /// Everything below `root`, by name; or `root` itself where it is a file. Texts go before images: where there are both, only
    /// texts are samples. An `OmniDocBench.json` in `root` names its pages, in its order.
    pub fn find_below(root: &Path) -> Result<Self, SampleError> {
        let list = find::find_samples(root)?;
        Self::new(list, || {
            format!(
                "there is no .txt, .md, .jsonl, .json, .csv, .parquet or image file in {} (.gz and .zst of lines are read)",
                root.display()
            )
        })
    }

    /// What a list names, one a line, in its order; blank lines are skipped. Entries are files below `root`, or ids of samples
    /// there. A relative list is looked for in one of `places` after the other.
    pub fn read_list(root: &Path, list: &Path, places: &[&Path]) -> Result<Self, SampleError> {
        let (list, samples) = find::find_listed(root, list, places)?;
        Self::new(samples, || format!("{} names no file", list.display()))
    }

    fn new(list: Vec<Located>, what: impl FnOnce() -> String) -> Result<Self, SampleError> {
        if list.is_empty() {
            return Err(SampleError::Empty { what: what() });
        }
        let blank: Vec<PathBuf> = list
            .iter()
            .filter_map(|sample| match &sample.place {
                SampleLocation::Text(path) | SampleLocation::Image(path) => Some(path),
                SampleLocation::Line { .. } => None,
            })
            .filter(|path| std::fs::metadata(path).is_ok_and(|file| file.len() == 0))
            .cloned()
            .collect();
        if blank.is_empty() {
            Ok(Self { list })
        } else {
            Err(SampleError::Blank { files: blank })
        }
    }

    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|sample| sample.id.as_str())
    }

    /// Reads the sample of this number.
    pub fn sample(&self, index: usize) -> Result<StoredSample, SampleError> {
        let Located { id, place } = self.list.get(index).ok_or(SampleError::NoSuchSample {
            index,
            count: self.list.len(),
        })?;
        let (id, content, file) = match place {
            SampleLocation::Text(path) => (
                id.clone(),
                SampleContent::Text(find::read_text(path)?),
                path.clone(),
            ),
            SampleLocation::Image(path) => {
                (id.clone(), SampleContent::Image(path.clone()), path.clone())
            }
            SampleLocation::Line {
                file,
                unpacked,
                number,
                start,
                length,
            } => {
                let bytes = match unpacked {
                    Some(unpacked) => unpacked.read_part(*start, *length),
                    None => read_part(file, *start, *length),
                };
                let bytes = bytes.map_err(SampleError::cannot_read(file))?;
                let line = line::read_line(&bytes, file, *number)?;
                (
                    line.id.unwrap_or_else(|| id.clone()),
                    line.content,
                    file.to_path_buf(),
                )
            }
        };
        Ok(StoredSample { id, content, file })
    }
}

fn read_part(path: &Path, start: u64, length: u64) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}
