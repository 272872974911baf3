//! Lines of files that are not lines as they lie: compressed ones, and tables (Parquet, CSV). They are unpacked once, into a file
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinePacking {
    Gzip,
    Zstd,
    Parquet,
    Csv,
}

/// A file of lines, unpacked.
#[derive(Clone, Debug)]
pub(super) struct UnpackedLines(Arc<File>);

impl UnpackedLines {
    pub(super) fn new(path: &Path, packing: LinePacking) -> Result<Self, SampleError> {
        let failed = || SampleError::cannot_read(path);
        let mut out = tempfile::tempfile().map_err(failed())?;
        let packed = File::open(path).map_err(failed())?;
        match packing {
            LinePacking::Gzip => io::copy(&mut flate2::read::MultiGzDecoder::new(packed), &mut out),
            LinePacking::Zstd => {
                let mut decoder = zstd::Decoder::new(packed).map_err(failed())?;
                io::copy(&mut decoder, &mut out)
            }
            LinePacking::Parquet => {
                parquet_rows::write_rows(path, &out)?;
                return Ok(Self(Arc::new(out)));
            }
            LinePacking::Csv => {
                let mut lines = io::BufWriter::new(&mut out);
                for line in csv_lines(path)? {
                    lines.write_all(line?.as_bytes()).map_err(failed())?;
                }
                lines.flush().map(|()| 0)
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

/// Rows of a CSV file with a header as lines of JSON. Cells are texts, token ids are a list in JSON; empty cells are left out.
pub(super) fn csv_lines(
    path: &Path,
) -> Result<impl Iterator<Item = Result<String, SampleError>>, SampleError> {
    let file = path.to_owned();
    let bad = move |row: u64, error: &dyn std::fmt::Display| SampleError::BadLine {
        path: file.clone(),
        line: row,
        what: error.to_string(),
    };
    let mut table = csv::Reader::from_path(path).map_err(|error| bad(1, &error))?;
    let header = table.headers().map_err(|error| bad(1, &error))?.clone();
    Ok(table.into_records().zip(1..).map(move |(record, row)| {
        let record = record.map_err(|error| bad(row, &error))?;
        let mut line = serde_json::Map::new();
        for (name, cell) in header.iter().zip(&record) {
            let value = match name {
                _ if cell.is_empty() => continue,
                "tokens" => serde_json::from_str(cell).map_err(|error| bad(row, &error))?,
                _ => cell.into(),
            };
            line.insert(name.to_owned(), value);
        }
        Ok(format!("{}\n", serde_json::Value::Object(line)))
    }))
}

// Two are equal where they are one file; an order is needed beside names that are always different.
impl PartialEq for UnpackedLines {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for UnpackedLines {}

impl PartialOrd for UnpackedLines {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UnpackedLines {
    fn cmp(&self, other: &Self) -> Ordering {
        Arc::as_ptr(&self.0).cmp(&Arc::as_ptr(&other.0))
    }
}
