//! File formats of a variant's samples. `samples` reads each of them.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use serde::{Deserialize, Serialize};

#[cfg(feature = "parquet")]
use super::parquet_writer::ParquetWriter;
use super::sample_row::{SampleRow, SampleValue};
use crate::{AssetError, Result};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SampleFormat {
    #[default]
    #[serde(rename = "jsonl")]
    Jsonl,
    #[serde(rename = "jsonl.gz")]
    JsonlGzip,
    #[serde(rename = "jsonl.zst")]
    JsonlZstd,
    /// Lines as in `.jsonl`, which is how C4 names them.
    #[serde(rename = "json")]
    Json,
    #[serde(rename = "csv")]
    Csv,
    #[serde(rename = "parquet")]
    Parquet,
}

impl SampleFormat {
    /// Every format by the end of its files' names.
    pub const BY_EXTENSION: [(&str, Self); 6] = [
        ("jsonl", Self::Jsonl),
        ("jsonl.gz", Self::JsonlGzip),
        ("jsonl.zst", Self::JsonlZstd),
        ("json", Self::Json),
        ("csv", Self::Csv),
        ("parquet", Self::Parquet),
    ];

    pub(super) fn extension(self) -> &'static str {
        let format = Self::BY_EXTENSION
            .iter()
            .find(|(_, format)| *format == self);
        format.map_or("jsonl", |(extension, _)| extension)
    }

    /// The name of a variant's only file.
    pub(super) fn file_name(self) -> String {
        format!("samples.{}", self.extension())
    }

    /// Refuses what this build cannot write.
    pub(super) fn check_writable(self) -> Result<()> {
        if self != Self::Parquet || cfg!(feature = "parquet") {
            return Ok(());
        }
        Err(AssetError::refused(
            "this build of llmprof does not write Parquet",
            "cargo build --release --features parquet, or --format jsonl.zst",
        ))
    }
}

/// Writes samples, one after the other.
pub(super) struct SampleWriter {
    encoder: SampleEncoder,
    /// What samples hold, where that is one column of a table.
    column: Option<&'static str>,
}

enum SampleEncoder {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
    Csv(csv::Writer<File>),
    #[cfg(feature = "parquet")]
    Parquet(ParquetWriter),
}

impl SampleWriter {
    pub(super) fn create(path: &Path, format: SampleFormat) -> Result<Self> {
        format.check_writable()?;
        let file = File::create(path).map_err(AssetError::io("create", path))?;
        let encoder = match format {
            SampleFormat::JsonlGzip => {
                let file = BufWriter::new(file);
                SampleEncoder::Gzip(GzEncoder::new(file, Compression::default()))
            }
            SampleFormat::JsonlZstd => {
                let encoder = zstd::Encoder::new(BufWriter::new(file), 0);
                SampleEncoder::Zstd(encoder.map_err(AssetError::io("create", path))?)
            }
            SampleFormat::Csv => SampleEncoder::Csv(csv::Writer::from_writer(file)),
            #[cfg(feature = "parquet")]
            SampleFormat::Parquet => SampleEncoder::Parquet(ParquetWriter::new(file)),
            _ => SampleEncoder::Plain(BufWriter::new(file)),
        };
        Ok(Self {
            encoder,
            column: None,
        })
    }

    pub(super) fn write_row(&mut self, row: SampleRow) -> io::Result<()> {
        let file: &mut dyn Write = match &mut self.encoder {
            SampleEncoder::Plain(file) => file,
            SampleEncoder::Gzip(file) => file,
            SampleEncoder::Zstd(file) => file,
            SampleEncoder::Csv(table) => {
                let key = row.value.key();
                if self.column.is_none() {
                    table.write_record(["id", key])?;
                }
                check_column(&mut self.column, key)?;
                let cell = match row.value {
                    SampleValue::Text(text) | SampleValue::Image(text) => text,
                    SampleValue::Tokens(ids) => serde_json::to_string(&ids)?,
                };
                return Ok(table.write_record([row.id, cell])?);
            }
            #[cfg(feature = "parquet")]
            SampleEncoder::Parquet(table) => {
                check_column(&mut self.column, row.value.key())?;
                return table.write_row(row);
            }
        };
        serde_json::to_writer(&mut *file, &row)?;
        file.write_all(b"\n")
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self.encoder {
            SampleEncoder::Plain(mut file) => file.flush(),
            SampleEncoder::Gzip(file) => file.finish()?.flush(),
            SampleEncoder::Zstd(file) => file.finish()?.flush(),
            SampleEncoder::Csv(mut table) => table.flush(),
            #[cfg(feature = "parquet")]
            SampleEncoder::Parquet(table) => table.finish(),
        }
    }
}

/// A table has one column beside the ids: samples of several kinds do not fit.
fn check_column(column: &mut Option<&'static str>, key: &'static str) -> io::Result<()> {
    let first = *column.get_or_insert(key);
    if first == key {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "samples with `{first}` and samples with `{key}` do not fit one table: --format jsonl"
    )))
}
