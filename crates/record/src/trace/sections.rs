//! The layout of a trace file: its header, its directory, and the columns that the directory names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::DeviceProperties;
use super::column::{Column, Element};
use crate::issue::Issue;
use crate::mapped::{self, Mapped};
use crate::store::Folder;

/// The version of the layout. A reader takes its own version only.
pub(crate) const FORMAT_VERSION: u32 = 1;

pub(super) const MAGIC: [u8; 8] = *b"LLMPROFT";
pub(super) const HEADER_BYTES: usize = 64;
pub(super) const ALIGNMENT: usize = 64;

/// Why a trace file could not be read or written.
#[derive(Debug, Error)]
pub enum TraceFileError {
    /// The file system said no.
    #[error("cannot {action} the trace file {path}: {source}")]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// It is some other file.
    #[error("{path} is not a trace file: it does not begin with `LLMPROFT`")]
    NotATrace { path: PathBuf },
    /// It was written by another version.
    #[error(
        "{path} has layout version {version}, and this program reads version {FORMAT_VERSION}; import the raw profile again"
    )]
    Version { path: PathBuf, version: u32 },
    /// It ends before it should, or its bytes are not what was written.
    #[error("{path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
}

#[derive(Serialize, Deserialize)]
pub(super) struct Directory {
    pub(super) sections: Vec<Section>,
    pub(super) devices: Vec<DeviceProperties>,
    pub(super) clock_origin_ns: Option<Nanos>,
    pub(super) events_read: u64,
    pub(super) metadata: std::collections::BTreeMap<String, String>,
    pub(super) issues: Vec<Issue>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Section {
    pub(super) table: String,
    pub(super) column: String,
    #[serde(rename = "type")]
    pub(super) element: String,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Sixteen hexadecimal digits: JSON numbers lose the upper bits of a u64 in many readers.
    pub(super) checksum: String,
}

/// A 64-bit checksum: over little-endian 64-bit words, the last one padded with zeros,
/// `h = (rotate_left(h, 5) ^ word) × 0x9E3779B97F4A7C15`, beginning with the number of bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let step =
        |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (words, tail) = bytes.as_chunks::<8>();
    let mut hash = bytes.len() as u64;
    for word in words {
        hash = step(hash, u64::from_le_bytes(*word));
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = step(hash, u64::from_le_bytes(word));
    }
    hash
}

/// The columns of an open trace file by name.
pub(crate) struct Sections {
    path: PathBuf,
    file: Arc<Mapped>,
    pub(super) directory: Directory,
}

impl Sections {
    pub(super) fn open(folder: &Folder, name: &Path, path: &Path) -> Result<Self, TraceFileError> {
        let io = |source| TraceFileError::Io {
            action: "open",
            path: path.to_owned(),
            source,
        };
        let damaged = |what: &str| TraceFileError::Damaged {
            path: path.to_owned(),
            what: what.to_owned(),
        };
        let opened = folder.open_file(name).map_err(io)?;
        let metadata = opened.metadata().map_err(io)?;
        if metadata.len() < MAGIC.len() as u64 {
            return Err(TraceFileError::NotATrace {
                path: path.to_owned(),
            });
        }
        let file = mapped::map(&opened).map_err(io)?;
        if file[..8] != MAGIC {
            return Err(TraceFileError::NotATrace {
                path: path.to_owned(),
            });
        }
        let Some(header) = file.first_chunk::<HEADER_BYTES>() else {
            return Err(damaged("it ends inside the header"));
        };
        let version = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        if version != FORMAT_VERSION {
            return Err(TraceFileError::Version {
                path: path.to_owned(),
                version,
            });
        }
        let word =
            |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let (offset, bytes) = (word(16), word(24));
        let directory = usize::try_from(offset)
            .ok()
            .zip(
                offset
                    .checked_add(bytes)
                    .and_then(|end| usize::try_from(end).ok()),
            )
            .and_then(|(begin, end)| file.get(begin..end))
            .ok_or_else(|| damaged("it ends before its directory does"))?;
        if checksum(directory) != word(32) {
            return Err(damaged("the checksum of the directory differs"));
        }
        let directory: Directory = serde_json::from_slice(directory)
            .map_err(|error| damaged(&format!("the directory is not readable: {error}")))?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            directory,
        })
    }

    pub(super) fn has(&self, table: &str) -> bool {
        let mut sections = self.directory.sections.iter();
        sections.any(|section| section.table == table)
    }

    /// The column `column` of `table`, checked against its checksum.
    pub(crate) fn column<T: Element>(
        &self,
        table: &'static str,
        column: &'static str,
    ) -> Result<Column<T>, TraceFileError> {
        let section = self
            .directory
            .sections
            .iter()
            .find(|section| section.table == table && section.column == column)
            .ok_or_else(|| self.broken(table, &format!("the column `{column}` is missing")))?;
        if section.element != T::TYPE {
            return Err(self.broken(
                table,
                &format!(
                    "`{column}` is {} where {} is expected",
                    section.element,
                    T::TYPE
                ),
            ));
        }
        let begin = usize::try_from(section.offset).ok();
        let end = section
            .offset
            .checked_add(section.bytes)
            .and_then(|end| usize::try_from(end).ok());
        let view = begin
            .zip(end)
            .and_then(|(begin, end)| Column::<T>::mapped(&self.file, begin, end))
            .ok_or_else(|| {
                self.broken(
                    table,
                    &format!("`{column}` lies outside of the file or is misaligned"),
                )
            })?;
        if format!("{:016x}", checksum(view.bytes())) != section.checksum {
            return Err(self.broken(table, &format!("the checksum of `{column}` differs")));
        }
        Ok(view)
    }

    pub(crate) fn uneven(&self, table: &'static str, column: &'static str) -> TraceFileError {
        self.broken(
            table,
            &format!("`{column}` has another length than the columns before it"),
        )
    }

    pub(crate) fn broken(&self, table: &'static str, what: &str) -> TraceFileError {
        TraceFileError::Damaged {
            path: self.path.clone(),
            what: format!("table `{table}`: {what}"),
        }
    }
}
