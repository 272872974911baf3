//! The trace file: `trace.llmprof`.
//!
//! A header of 64 bytes, then the columns as they lie in memory, each at a multiple of 64 bytes, then a directory in
//! JSON that names them. `docs/trace-format.md` has the details. Loading maps the file; the columns stay where they
//! are and are paged in when touched.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::column::{Bounds, Column, ColumnBytes, Element};
use super::{
    AutogradSequences, Collectives, Copies, DeviceProperties, GraphNodes, HostSamples, Hosts,
    Inputs, Kernels, LaunchedKernels, MemoryEvents, Memsets, OperatorCalls, Ranges, StackFrames,
    Strings, Syncs, Threads, Trace,
};
use crate::issue::Issue;
use crate::mapped::{self, Mapped};
use crate::secrets::redacted;
use crate::store::{Durability, Folder};

/// The version of the layout. A reader takes its own version only.
pub(crate) const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"LLMPROFT";
const HEADER_BYTES: usize = 64;
const ALIGNMENT: usize = 64;

/// Why a trace file could not be read or written.
#[derive(Debug, Error)]
pub enum TraceFileError {
    /// The file system said no.
    #[error("cannot {action} the trace file {path}: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is some other file.
    #[error("{path} is not a trace file: it does not begin with `LLMPROFT`")]
    NotATrace { path: PathBuf },
    /// It was written by another version.
    #[error(
        "{path} has layout version {found}, and this program reads version {FORMAT_VERSION}; import the raw profile again"
    )]
    Version {
        path: PathBuf,
        /// The version it states.
        found: u32,
    },
    /// It ends before it should, or its bytes are not what was written.
    #[error("{path} is damaged: {what}")]
    Damaged {
        path: PathBuf,
        /// What does not hold.
        what: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Directory {
    sections: Vec<Section>,
    devices: Vec<DeviceProperties>,
    clock_origin_ns: Option<Nanos>,
    events_read: u64,
    metadata: std::collections::BTreeMap<String, String>,
    issues: Vec<Issue>,
}

#[derive(Serialize, Deserialize)]
struct Section {
    table: String,
    column: String,
    #[serde(rename = "type")]
    element: String,
    offset: u64,
    bytes: u64,
    /// Sixteen hexadecimal digits: JSON numbers lose the upper bits of a u64 in many readers.
    checksum: String,
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

/// The folder of a path, and the name in it.
fn split(path: &Path) -> (&Path, &OsStr) {
    (
        path.parent().unwrap_or(Path::new("")),
        path.file_name().unwrap_or(OsStr::new("")),
    )
}

impl Trace {
    /// Writes the trace to `path`. The file appears there whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), TraceFileError> {
        let (folder, name) = split(path);
        match Folder::open(folder) {
            Ok(folder) => self.save_in(&folder, name, Durability::Content),
            Err(source) => Err(TraceFileError::Io {
                action: "create",
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Writes the trace into a run directory. The file appears there whole or not at all.
    pub(crate) fn save_in(
        &self,
        folder: &Folder,
        name: impl AsRef<Path>,
        durability: Durability,
    ) -> Result<(), TraceFileError> {
        let name = name.as_ref();
        folder
            .replace_with(durability, name, |file| self.write(file))
            .map_err(|source| TraceFileError::Io {
                action: "write",
                path: folder.path().join(name),
                source,
            })
    }

    /// Every table with its columns, in the order of the file.
    pub(super) fn tables(&self) -> [(&'static str, Vec<ColumnBytes<'_>>); 17] {
        [
            (Strings::NAME, self.strings.columns()),
            (Inputs::NAME, self.inputs.columns()),
            (Threads::NAME, self.threads.columns()),
            (Hosts::NAME, self.hosts.columns()),
            (Kernels::NAME, self.kernels.columns()),
            (Copies::NAME, self.copies.columns()),
            (Memsets::NAME, self.memsets.columns()),
            (Ranges::NAME, self.ranges.columns()),
            (MemoryEvents::NAME, self.memory.columns()),
            (Syncs::NAME, self.syncs.columns()),
            (GraphNodes::NAME, self.graph_nodes.columns()),
            (OperatorCalls::NAME, self.operator_calls.columns()),
            (Collectives::NAME, self.collectives.columns()),
            (AutogradSequences::NAME, self.autograd_sequences.columns()),
            (LaunchedKernels::NAME, self.launched_kernels.columns()),
            (StackFrames::NAME, self.stack_frames.columns()),
            (HostSamples::NAME, self.host_samples.columns()),
        ]
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        out.write_all(&[0; HEADER_BYTES])?;
        let mut offset = HEADER_BYTES;
        let mut sections = Vec::new();
        for (table, columns) in self.tables() {
            for column in columns {
                sections.push(Section {
                    table: table.to_owned(),
                    column: column.name.to_owned(),
                    element: column.element.to_owned(),
                    offset: offset as u64,
                    bytes: column.bytes.len() as u64,
                    checksum: format!("{:016x}", checksum(column.bytes)),
                });
                out.write_all(column.bytes)?;
                let padding = column.bytes.len().next_multiple_of(ALIGNMENT) - column.bytes.len();
                out.write_all(&[0; ALIGNMENT][..padding])?;
                offset += column.bytes.len() + padding;
            }
        }
        let directory = serde_json::to_string(&Directory {
            sections,
            devices: self.devices.clone(),
            clock_origin_ns: self.clock_origin_ns,
            events_read: self.events_read,
            metadata: self.metadata.clone(),
            issues: self.issues.clone(),
        })?;
        let directory = redacted(&directory).into_owned().into_bytes();
        out.write_all(&directory)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        header[16..24].copy_from_slice(&(offset as u64).to_le_bytes());
        header[24..32].copy_from_slice(&(directory.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&checksum(&directory).to_le_bytes());
        io::Seek::rewind(file)?;
        file.write_all(&header)
    }

    /// Maps the trace file at `path`, checking all of it.
    pub fn load(path: &Path) -> Result<Self, TraceFileError> {
        let (folder, name) = split(path);
        match Folder::open(folder) {
            Ok(folder) => Self::load_in(&folder, name),
            Err(source) => Err(TraceFileError::Io {
                action: "open",
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Maps a trace file of a run directory, checking all of it.
    pub(crate) fn load_in(folder: &Folder, name: impl AsRef<Path>) -> Result<Self, TraceFileError> {
        let path = folder.path().join(name.as_ref());
        let sections = Sections::open(folder, name.as_ref(), &path)?;
        let strings = Strings::from_columns(&sections)?;
        let inputs = Inputs::from_columns(&sections, strings.len())?;
        let threads = Threads::from_columns(&sections)?;
        let stack_frames = if sections.has(StackFrames::NAME) {
            StackFrames::from_columns(&sections)?
        } else {
            StackFrames::default()
        };
        let bounds = Bounds {
            strings: strings.len(),
            inputs: inputs.len(),
            threads: threads.len(),
            // "None" exists where no stack was sampled, too.
            frames: stack_frames.len().max(1),
        };
        macro_rules! checked {
            ($table:ident) => {{
                let table = $table::from_columns(&sections)?;
                if let Some(column) = table.dangling(bounds) {
                    return Err(sections.broken(
                        $table::NAME,
                        &format!("`{column}` refers to an entry that is not there"),
                    ));
                }
                table
            }};
        }
        if let Some(column) = threads.dangling(bounds) {
            return Err(sections.broken(
                Threads::NAME,
                &format!("`{column}` refers to an entry that is not there"),
            ));
        }
        if let Some(column) = stack_frames.dangling(bounds) {
            return Err(sections.broken(
                StackFrames::NAME,
                &format!("`{column}` refers to an entry that is not there"),
            ));
        }
        if !stack_frames.is_empty() && !stack_frames.is_ordered() {
            return Err(sections.broken(StackFrames::NAME, "a frame comes before its caller"));
        }
        Ok(Self {
            hosts: checked!(Hosts),
            kernels: checked!(Kernels),
            copies: checked!(Copies),
            memsets: checked!(Memsets),
            ranges: checked!(Ranges),
            memory: checked!(MemoryEvents),
            syncs: checked!(Syncs),
            // Files from before these tables were added are still whole.
            graph_nodes: if sections.has(GraphNodes::NAME) {
                checked!(GraphNodes)
            } else {
                GraphNodes::default()
            },
            operator_calls: if sections.has(OperatorCalls::NAME) {
                checked!(OperatorCalls)
            } else {
                OperatorCalls::default()
            },
            collectives: if sections.has(Collectives::NAME) {
                checked!(Collectives)
            } else {
                Collectives::default()
            },
            autograd_sequences: if sections.has(AutogradSequences::NAME) {
                checked!(AutogradSequences)
            } else {
                AutogradSequences::default()
            },
            launched_kernels: if sections.has(LaunchedKernels::NAME) {
                checked!(LaunchedKernels)
            } else {
                LaunchedKernels::default()
            },
            host_samples: if sections.has(HostSamples::NAME) {
                checked!(HostSamples)
            } else {
                HostSamples::default()
            },
            stack_frames,
            strings,
            inputs,
            threads,
            devices: sections.directory.devices,
            clock_origin_ns: sections.directory.clock_origin_ns,
            events_read: sections.directory.events_read,
            metadata: sections.directory.metadata,
            issues: sections.directory.issues,
        })
    }
}

/// The columns of an open trace file by name.
pub(crate) struct Sections {
    path: PathBuf,
    file: Arc<Mapped>,
    directory: Directory,
}

impl Sections {
    fn open(folder: &Folder, name: &Path, path: &Path) -> Result<Self, TraceFileError> {
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
        let found = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        if found != FORMAT_VERSION {
            return Err(TraceFileError::Version {
                path: path.to_owned(),
                found,
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

    fn has(&self, table: &str) -> bool {
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
