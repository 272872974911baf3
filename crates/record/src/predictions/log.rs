use std::{
    collections::HashSet,
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use llmprof_units::path_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Prediction;
use crate::store::{Folder, StoreError, io_error};

/// The folder of predictions in a run directory.
pub const PREDICTIONS: &str = "predictions";
const LINES: &str = "predictions.jsonl";

/// A sample that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Skipped {
    /// Id of the sample in its dataset.
    pub id: String,
    /// The file that the sample is from; absent if it is not from a file.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "path_text::serialize_some"
    )]
    pub file: Option<PathBuf>,
    /// Why it was left out.
    pub why: String,
}

/// The lines of a run, as far as it has come.
#[derive(Debug)]
pub struct PredictionLog {
    file: File,
    path: PathBuf,
    predictions: Vec<Prediction>,
    /// Bytes of a line that an earlier process did not finish.
    torn_bytes: u64,
}

impl PredictionLog {
    /// Opens the lines of a run directory, and makes them where there are none. A last line without its end was being written
    /// when the process was killed: it is cut off, and its samples run again.
    pub fn open(run: &Path) -> Result<Self, StoreError> {
        let path = run.join(PREDICTIONS).join(LINES);
        let mut file = Folder::open(run)
            .and_then(|folder| folder.create_folder(PREDICTIONS))
            .and_then(|folder| folder.open_in_place(LINES))
            .map_err(io_error("open", &path))?;
        let (predictions, whole, length) = read(&file, &path)?;
        file.set_len(whole).map_err(io_error("write", &path))?;
        file.seek(SeekFrom::End(0))
            .map_err(io_error("write", &path))?;
        Ok(Self {
            file,
            path,
            predictions,
            torn_bytes: length - whole,
        })
    }

    /// What an earlier run left, to be read only.
    pub fn read(run: &Path) -> Result<Vec<Prediction>, StoreError> {
        let path = run.join(PREDICTIONS).join(LINES);
        let file = Folder::open(run)
            .and_then(|folder| folder.open_file(Path::new(PREDICTIONS).join(LINES)))
            .map_err(io_error("read", &path))?;
        Ok(read(&file, &path)?.0)
    }

    /// Whether a run directory has any.
    pub fn exists(run: &Path) -> bool {
        let lines = Path::new(PREDICTIONS).join(LINES);
        Folder::open(run).is_ok_and(|folder| folder.has_file(lines))
    }

    pub fn predictions(&self) -> &[Prediction] {
        &self.predictions
    }

    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// The samples that need not run again, by their index.
    pub fn done(&self) -> HashSet<u64> {
        self.predictions.iter().map(|one| one.index).collect()
    }

    /// The number of the process that appends now.
    pub fn next_segment(&self) -> u64 {
        let last = self.predictions.iter().map(|one| one.segment).max();
        last.map_or(0, |last| last.saturating_add(1))
    }

    pub fn next_batch(&self) -> u64 {
        let last = self.predictions.iter().map(|one| one.batch).max();
        last.map_or(0, |last| last.saturating_add(1))
    }

    /// Adds the samples of a batch. They are on the disk when this returns.
    pub fn append(&mut self, batch: Vec<Prediction>) -> Result<(), StoreError> {
        let mut text = Vec::new();
        for one in &batch {
            serde_json::to_writer(&mut text, one)
                .map_err(|error| io_error("write", &self.path)(error.into()))?;
            text.push(b'\n');
        }
        self.file
            .write_all(&text)
            .and_then(|()| self.file.sync_data())
            .map_err(io_error("write", &self.path))?;
        self.predictions.extend(batch);
        Ok(())
    }
}

/// The predictions of whole lines, the bytes of those, and the bytes of the file.
fn read(file: &File, path: &Path) -> Result<(Vec<Prediction>, u64, u64), StoreError> {
    let mut reader = BufReader::new(file);
    let (mut predictions, mut line) = (Vec::new(), Vec::new());
    let (mut whole, mut number) = (0u64, 0u64);
    loop {
        line.clear();
        let length = reader
            .read_until(b'\n', &mut line)
            .map_err(io_error("read", path))? as u64;
        if length == 0 {
            return Ok((predictions, whole, whole));
        }
        if line.last() != Some(&b'\n') {
            return Ok((predictions, whole, whole + length));
        }
        number += 1;
        let one = serde_json::from_slice(&line).map_err(|error| StoreError::BadManifest {
            path: path.to_owned(),
            reason: format!("line {number}: {error}"),
        })?;
        predictions.push(one);
        whole += length;
    }
}

#[cfg(test)]
mod tests {
    use llmprof_units::Nanos;

    use super::*;

    fn prediction(index: u64) -> Prediction {
        Prediction {
            index,
            id: format!("s{index}"),
            name: format!("s{index}"),
            file: None,
            image: None,
            text: Some("§ a\nb".to_owned()),
            raw_text: None,
            finish: "stop".to_owned(),
            prompt_tokens: 3,
            cut_prompt_tokens: 0,
            output_tokens: 2,
            ttft_ns: Nanos(5),
            tpot_ns: Some(Nanos(2)),
            duration_ns: Nanos(7),
            segment: 0,
            batch: index,
            batch_size: 1,
            phases: Vec::new(),
            start_ns: Nanos(10),
            token_ns: vec![Nanos(15), Nanos(17)],
            tokens: vec![1, 2],
        }
    }

    /// Wherever a process is killed inside a write, the samples before stay and the rest runs again.
    #[test]
    fn a_torn_end_costs_only_its_own_sample() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = PredictionLog::open(folder.path()).unwrap();
        log.append(vec![prediction(0)]).unwrap();
        log.append(vec![prediction(1), prediction(2)]).unwrap();
        drop(log);
        let path = folder.path().join("predictions/predictions.jsonl");
        let whole = std::fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut log = PredictionLog::open(folder.path()).unwrap();
            let lines = whole[..cut].split(|byte| *byte == b'\n').count() - 1;
            assert_eq!(log.predictions().len(), lines, "cut at {cut}");
            assert_eq!(cut >= first, log.done().contains(&0));
            for missing in lines as u64..3 {
                log.append(vec![prediction(missing)]).unwrap();
            }
            drop(log);
            assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_file_name_that_is_no_text_is_written_as_far_as_it_is() {
        use std::os::unix::ffi::OsStringExt as _;
        let name = std::ffi::OsString::from_vec(b"a\xff.png".to_vec());
        let skipped = Skipped {
            id: "a".to_owned(),
            file: Some(PathBuf::from(&name)),
            why: "its name is not UTF-8".to_owned(),
        };
        let json = serde_json::to_string(&skipped).unwrap();
        assert!(json.contains("a\u{fffd}.png"), "{json}");
        let folder = tempfile::tempdir().unwrap();
        let mut log = PredictionLog::open(folder.path()).unwrap();
        let refused = Prediction {
            image: Some(PathBuf::from(name)),
            ..prediction(0)
        };
        assert!(log.append(vec![refused]).is_err());
        log.append(vec![prediction(1)]).unwrap();
        assert_eq!(PredictionLog::read(folder.path()).unwrap().len(), 1);
    }

    /// A run from somebody else: what is cut off or added to must lie inside of it.
    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (run, other) = (folder.path().join("run"), folder.path().join("other"));
        std::fs::create_dir_all(run.join("predictions")).unwrap();
        std::fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, run.join("predictions/predictions.jsonl")).unwrap();
        let error = PredictionLog::open(&run).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert!(!PredictionLog::exists(&run) && PredictionLog::read(&run).is_err());
        assert_eq!(std::fs::read(&other).unwrap(), b"precious");
    }

    #[test]
    fn a_broken_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("predictions")).unwrap();
        std::fs::write(folder.path().join("predictions/predictions.jsonl"), "{}\n").unwrap();
        let error = PredictionLog::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
    }
}
