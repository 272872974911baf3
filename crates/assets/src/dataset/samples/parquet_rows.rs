//! Rows of a Parquet file as lines of JSON: read here in a build with the feature `parquet`, else by Python's pyarrow.

use std::{
    fs::File,
    path::Path,
    process::{Command, Stdio},
};

use super::SampleError;

/// Writes a row of a table a line, as JSON.
const PYARROW_ROWS: &str = "\
import json, sys
import pyarrow.parquet
for batch in pyarrow.parquet.ParquetFile(sys.argv[1]).iter_batches():
    for row in batch.to_pylist():
        print(json.dumps(row, default=str, ensure_ascii=False))
";

/// Writes the rows of `path` to `out`. pyarrow knows compressions that the feature does not read.
pub(super) fn write_rows(path: &Path, out: &File) -> Result<(), SampleError> {
    #[cfg(feature = "parquet")]
    match read_here(path, out) {
        Ok(()) => return Ok(()),
        Err(_) => out.set_len(0).map_err(SampleError::cannot_read(path))?,
    }
    read_by_pyarrow(path, out)
}

#[cfg(feature = "parquet")]
fn read_here(path: &Path, out: &File) -> Result<(), parquet::errors::ParquetError> {
    use std::io::{BufWriter, Seek as _, Write as _};

    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    let reader = SerializedFileReader::new(File::open(path)?)?;
    let mut lines = BufWriter::new(out);
    lines.rewind()?;
    for row in reader.get_row_iter(None)? {
        writeln!(lines, "{}", row?.to_json_value())?;
    }
    lines.flush()?;
    Ok(())
}

/// The Python is `LLMPROF_PYTHON`, else `python3`.
fn read_by_pyarrow(path: &Path, mut out: &File) -> Result<(), SampleError> {
    use std::io::Seek as _;

    let python = std::env::var_os("LLMPROF_PYTHON").unwrap_or_else(|| "python3".into());
    let shown = python.to_string_lossy().into_owned();
    let failed = |why: String| SampleError::Unpack {
        path: path.to_owned(),
        why,
        hint: format!(
            "Parquet is read by pyarrow: {shown} -m pip install pyarrow, or LLMPROF_PYTHON=PATH of a Python that has it, or a build of llmprof with --features parquet"
        ),
    };
    out.rewind().map_err(SampleError::cannot_read(path))?;
    let copy = out.try_clone().map_err(SampleError::cannot_read(path))?;
    let done = Command::new(&python)
        .args(["-c", PYARROW_ROWS])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(copy)
        .output()
        .map_err(|error| failed(format!("{shown}: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let last = said.trim().lines().last().unwrap_or_default();
    Err(failed(last.to_owned()))
}
