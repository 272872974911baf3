//! The trace file: `trace.llmprof`.
//!
//! A header of 64 bytes, then the columns as they lie in memory, each at a multiple of 64 bytes, then a directory in
//! JSON that names them. `docs/trace-format.md` has the details. Loading maps the file; the columns stay where they
//! are and are paged in when touched.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::column::{Bounds, ColumnBytes};
use super::sections::{
    ALIGNMENT, Directory, FORMAT_VERSION, HEADER_BYTES, MAGIC, Section, Sections, TraceFileError,
    checksum,
};
use super::{
    AutogradSequences, Collectives, Copies, GraphNodes, HostSamples, Hosts, Inputs, Kernels,
    LaunchedKernels, MemoryEvents, Memsets, OperatorCalls, Ranges, StackFrames, Strings, Syncs,
    Threads, Trace,
};
use crate::secrets::redact;
use crate::store::{Durability, Folder};

/// The folder of a path, and the name in it.
fn split_path(path: &Path) -> (&Path, &OsStr) {
    (
        path.parent().unwrap_or(Path::new("")),
        path.file_name().unwrap_or(OsStr::new("")),
    )
}

impl Trace {
    /// Writes the trace to `path`. The file appears there whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), TraceFileError> {
        let (folder, name) = split_path(path);
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
        let directory = redact(&directory).into_owned().into_bytes();
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
        let (folder, name) = split_path(path);
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
