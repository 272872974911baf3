//! A foreign file as bytes: mapped as it lies, or unpacked within limits.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};

use super::ImportError;
use super::gunzip::Gunzip;
use crate::issue::{Issue, IssueCode};
use crate::mapped::{self, Mapped};
use crate::store::Folder;

/// How far a compressed file may unpack, against files made to fill a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes that a file may unpack to.
    pub unpacked_bytes: u64,
    /// The most bytes that one compressed byte may become, past [`Limits::FREE_BYTES`]. Traces compress 10 to 30
    /// times; deflate cannot exceed 1032.
    pub ratio: u64,
}

impl Limits {
    /// What a file may unpack to whatever its ratio.
    pub const FREE_BYTES: u64 = 64 << 20;

    fn allow(self, packed: u64) -> u64 {
        let by_ratio = packed.saturating_mul(self.ratio).max(Self::FREE_BYTES);
        by_ratio.min(self.unpacked_bytes)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unpacked_bytes: 64 << 30,
            ratio: 200,
        }
    }
}

/// The content of a file to import.
pub struct Source {
    path: PathBuf,
    bytes: SourceBytes,
    issues: Vec<Issue>,
}

enum SourceBytes {
    Mapped(Mapped),
    Memory(Vec<u8>),
}

/// A packed file whose content is taken as it comes.
pub(super) struct Packed {
    path: PathBuf,
    bytes: Mapped,
    packing: Packing,
    limit_bytes: u64,
}

impl Packed {
    /// A regular file that is packed; `None` of any other, which [`Source::open`] says more about.
    pub(super) fn open(path: &Path, limits: &Limits) -> Option<Self> {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() == 0 {
            return None;
        }
        let mut head = [0; 4];
        let head_bytes = file.read_at(&mut head, 0).ok()?;
        let packing = Packing::sniff(&head[..head_bytes])?;
        let bytes = mapped::map(&file).ok()?;
        Some(Self {
            path: path.to_owned(),
            packing,
            limit_bytes: limits.allow(bytes.len() as u64),
            bytes,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn name(&self) -> &'static str {
        self.packing.name()
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    pub(super) fn too_large(&self, limit_bytes: u64) -> ImportError {
        ImportError::TooLarge {
            path: self.path.clone(),
            limit_bytes,
        }
    }

    /// The content from its beginning.
    pub(super) fn reader(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        self.packing.reader(&self.bytes)
    }

    /// An error where the file became shorter while it was read.
    pub(super) fn check_whole(&self) -> Result<(), ImportError> {
        check_whole(&self.path, &self.bytes)
    }
}

fn check_whole(path: &Path, map: &Mapped) -> Result<(), ImportError> {
    if !map.was_cut() {
        return Ok(());
    }
    Err(ImportError::Io {
        path: path.to_owned(),
        source: io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it became shorter while it was read; import it when nobody writes to it",
        ),
    })
}

/// The beginning of a file that was found in a directory, unpacked where it is packed; opened as [`Source::open_regular`] does.
pub(super) fn read_head(path: &Path) -> io::Result<Vec<u8>> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().unwrap_or_default();
    let file = Folder::open(parent)?.open_file(name)?;
    let mut head = vec![0; 4];
    let head_bytes = file.read_at(&mut head, 0)?;
    let most = Source::HEAD_BYTES as u64;
    let mut content = Vec::new();
    match Packing::sniff(&head[..head_bytes]) {
        Some(packing) => {
            let bytes = mapped::map(&file)?;
            packing
                .reader(&bytes)?
                .take(most)
                .read_to_end(&mut content)?;
        }
        None => {
            file.take(most).read_to_end(&mut content)?;
        }
    }
    Ok(content)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    fn sniff(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    fn reader(self, packed: &[u8]) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(match self {
            Self::Gzip => Box::new(Gunzip::new(packed)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(packed)?),
        })
    }
}

impl Source {
    /// How much of the content a sniffer sees.
    pub const HEAD_BYTES: usize = 64 << 10;

    /// Opens a file; one packed with gzip or zstd is unpacked, whatever its name.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, ImportError> {
        let io = |source| ImportError::Io {
            path: path.to_owned(),
            source,
        };
        let not_a_file = |what| ImportError::NotAFile {
            path: path.to_owned(),
            what,
        };
        let mut file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if metadata.is_dir() {
            return Err(not_a_file("a directory"));
        }
        if metadata.file_type().is_char_device() || metadata.file_type().is_block_device() {
            return Err(not_a_file("a device"));
        }
        if metadata.is_file() {
            return Self::of_regular(path, &file, limits);
        }
        // A pipe has no length and no ratio; only the absolute limit holds.
        let mut spill = Spill::default();
        match spill.fill(&mut file, limits.unpacked_bytes) {
            Ok(true) => {}
            Ok(false) => {
                return Err(ImportError::TooLarge {
                    path: path.to_owned(),
                    limit_bytes: limits.unpacked_bytes,
                });
            }
            Err(SpillFailure::Read(error) | SpillFailure::Write(error)) => return Err(io(error)),
        }
        Self::whole(path, spill.finish().map_err(io)?, limits)
    }

    /// Opens a file that was found in a directory and not named by the user: nothing but a regular file is opened, and
    /// no link is followed.
    pub fn open_regular(path: &Path, limits: &Limits) -> Result<Self, ImportError> {
        let io = |source| ImportError::Io {
            path: path.to_owned(),
            source,
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or_default();
        let folder = Folder::open(parent).map_err(io)?;
        Self::of_regular(path, &folder.open_file(name).map_err(io)?, limits)
    }

    fn of_regular(path: &Path, file: &File, limits: &Limits) -> Result<Self, ImportError> {
        let io = |source| ImportError::Io {
            path: path.to_owned(),
            source,
        };
        if file.metadata().map_err(io)?.len() == 0 {
            return Err(ImportError::NotAFile {
                path: path.to_owned(),
                what: "empty",
            });
        }
        let bytes = SourceBytes::Mapped(mapped::map(file).map_err(io)?);
        Self::whole(path, bytes, limits)
    }

    /// Content as it was found, unpacked where it is packed.
    fn whole(path: &Path, bytes: SourceBytes, limits: &Limits) -> Result<Self, ImportError> {
        let source = Self {
            path: path.to_owned(),
            bytes,
            issues: Vec::new(),
        };
        match Packing::sniff(source.bytes()) {
            Some(packing) => source.unpacked(packing, limits),
            None if source.bytes().is_empty() => Err(ImportError::NotAFile {
                path: path.to_owned(),
                what: "empty",
            }),
            None => Ok(source),
        }
    }

    /// Content that is in memory already, as a file of this name would have it; unpacked where it is packed.
    pub fn from_bytes(name: &Path, bytes: Vec<u8>, limits: &Limits) -> Result<Self, ImportError> {
        Self::whole(name, SourceBytes::Memory(bytes), limits)
    }

    fn unpacked(self, packing: Packing, limits: &Limits) -> Result<Self, ImportError> {
        let io = |source| ImportError::Io {
            path: self.path.clone(),
            source,
        };
        let packed = self.bytes();
        let limit_bytes = limits.allow(packed.len() as u64);
        let mut reader = packing.reader(packed).map_err(io)?;
        let mut spill = Spill::default();
        let mut issues = Vec::new();
        match spill.fill(&mut reader, limit_bytes) {
            Ok(true) => {}
            Ok(false) => {
                return Err(ImportError::TooLarge {
                    path: self.path.clone(),
                    limit_bytes,
                });
            }
            Err(SpillFailure::Write(error)) => return Err(io(error)),
            Err(SpillFailure::Read(error)) => {
                if spill.length == 0 {
                    return Err(io(error));
                }
                issues.push(
                    Issue::error(IssueCode::SourcePackingDamaged)
                        .with("packing", packing.name())
                        .with("bytes", spill.length)
                        .with("error", error.to_string()),
                );
            }
        }
        drop(reader);
        let bytes = spill.finish().map_err(io)?;
        Ok(Self {
            path: self.path,
            bytes,
            issues,
        })
    }

    /// The path it was opened by, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            SourceBytes::Mapped(map) => map,
            SourceBytes::Memory(bytes) => bytes,
        }
    }

    /// An error where the file became shorter while it was read.
    pub(super) fn check_whole(&self) -> Result<(), ImportError> {
        match &self.bytes {
            SourceBytes::Mapped(map) => check_whole(&self.path, map),
            SourceBytes::Memory(_) => Ok(()),
        }
    }

    /// The beginning of the content, for sniffing.
    pub fn head(&self) -> &[u8] {
        let bytes = self.bytes();
        &bytes[..bytes.len().min(Self::HEAD_BYTES)]
    }

    /// What was dropped before the importer saw a byte.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }

    /// An error that says why this file, of a known kind, cannot be used.
    pub fn unusable(&self, format: &'static str, what: impl Into<String>) -> ImportError {
        ImportError::Unusable {
            path: self.path.clone(),
            format,
            what: what.into(),
        }
    }
}

/// Unpacked bytes: in memory while they are few, then in an unnamed file that is mapped, so that a large trace does
/// not have to fit into memory twice.
#[derive(Default)]
struct Spill {
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
}

enum SpillFailure {
    Read(io::Error),
    Write(io::Error),
}

impl Spill {
    const IN_MEMORY: usize = 48 << 20;

    /// Takes all that `reader` has; false where that is more than `limit`.
    fn fill(&mut self, reader: &mut impl Read, limit: u64) -> Result<bool, SpillFailure> {
        let mut buffer = vec![0; 1 << 18];
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(SpillFailure::Read(error)),
            };
            self.length += count as u64;
            if self.length > limit {
                return Ok(false);
            }
            self.put(&buffer[..count]).map_err(SpillFailure::Write)?;
        }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            return file.write_all(bytes);
        }
        self.memory.extend_from_slice(bytes);
        if self.memory.len() > Self::IN_MEMORY {
            let mut file = tempfile::tempfile()?;
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        Ok(())
    }

    fn finish(self) -> io::Result<SourceBytes> {
        match self.file {
            Some(file) => Ok(SourceBytes::Mapped(mapped::map(&file)?)),
            None => Ok(SourceBytes::Memory(self.memory)),
        }
    }
}
