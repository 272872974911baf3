//! Lines of files that are not lines as they lie: compressed ones, and tables of Parquet. They are unpacked once, into a file
//! without a name that is gone with the process.

use std::{
    cmp::Ordering,
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};

use super::{SampleError, parquet_rows};

/// How lines are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
    Parquet,
}

/// A file of lines, unpacked.
#[derive(Clone, Debug)]
pub(super) struct Unpacked(Arc<File>);

impl Unpacked {
    pub(super) fn new(path: &Path, packing: Packing) -> Result<Self, SampleError> {
        let failed = || SampleError::cannot_read(path);
        let mut out = tempfile::tempfile().map_err(failed())?;
        let packed = File::open(path).map_err(failed())?;
        match packing {
            Packing::Gzip => io::copy(&mut flate2::read::MultiGzDecoder::new(packed), &mut out),
            Packing::Zstd => {
                let mut decoder = zstd::Decoder::new(packed).map_err(failed())?;
                io::copy(&mut decoder, &mut out)
            }
            Packing::Parquet => {
                parquet_rows::write_rows(path, &out)?;
                return Ok(Self(Arc::new(out)));
            }
        }
        .map_err(failed())?;
        out.flush().map_err(failed())?;
        Ok(Self(Arc::new(out)))
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }

    pub(super) fn read_part(&self, start: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.0.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }
}

// Two are equal where they are one file; an order is needed beside names that are always different.
impl PartialEq for Unpacked {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Unpacked {}

impl PartialOrd for Unpacked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Unpacked {
    fn cmp(&self, other: &Self) -> Ordering {
        Arc::as_ptr(&self.0).cmp(&Arc::as_ptr(&other.0))
    }
}
