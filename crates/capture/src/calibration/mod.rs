//! The peaks of the processor at hand: measured once, kept in the cache directory as a device file, used by
//! `hardware.spec=auto`.

mod measure;
mod ticks;

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use llmprof_record::store::{StoreError, write_atomically};
use llmprof_theory::device::{Device, DeviceCalibration, DeviceError, schema::DeviceFile};
use thiserror::Error;

pub use self::measure::calibrate_cpu;
use self::measure::{METHOD_VERSION, device_title};
use crate::host;

/// What the processor at hand is called.
pub const THIS_CPU: &str = "this_cpu";

/// Why there is no calibration to read or none was kept.
#[derive(Debug, Error)]
pub enum CalibrationError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    /// Its folder cannot be made.
    #[error("cannot create {path}: {source}")]
    Folder {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Write(#[from] StoreError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// What became of a new calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalibrationOutcome {
    /// It is the one that counts from now on.
    New,
    /// It was disturbed, more than the one that is there: that one stays.
    Old,
}

/// A file with a calibration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalibrationFile {
    path: PathBuf,
}

/// llmprof's part of the user's cache directory.
fn cache_folder() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("llmprof"))
}

impl CalibrationFile {
    /// The one that runs on this machine use; none where there is no cache directory.
    pub fn of_this_machine() -> Option<Self> {
        Some(Self::at_path(cache_folder()?.join("cpu.yaml")))
    }

    /// Where the kernel curves of a GPU are kept.
    pub fn of_gpu(name: &str) -> Option<Self> {
        Some(Self::at_path(cache_folder()?.join(format!("{name}.yaml"))))
    }

    pub fn at_path(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The device it describes; none where nothing was measured yet.
    pub fn load_device(&self) -> Result<Option<Device>, CalibrationError> {
        let file = self.read_file()?;
        let device = file.map(|file| file.to_device(&self.path.to_string_lossy()));
        Ok(device.transpose()?)
    }

    fn read_file(&self) -> Result<Option<DeviceFile>, CalibrationError> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(Some(DeviceFile::parse_text(
                &text,
                &self.path.to_string_lossy(),
            )?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CalibrationError::Read {
                path: self.path.clone(),
                source,
            }),
        }
    }

    /// Whether it is of this processor as it would be measured now. One that was disturbed or outdone stays, with what every
    /// report says of it: a busy machine would calibrate before each run.
    pub fn is_current(&self) -> bool {
        self.comparable_with(&host::read_cpu()).is_some()
    }

    /// What is there, where it can be compared with what would be measured now.
    fn comparable_with(
        &self,
        cpu: &llmprof_record::run::Cpu,
    ) -> Option<(DeviceFile, DeviceCalibration)> {
        let file = self.read_file().ok().flatten()?;
        let known = file.calibration.clone()?;
        let threads = cpu.threads.unwrap_or(1);
        let is_same = file.title == device_title(cpu)
            && known.method == METHOD_VERSION
            && known.threads == threads;
        is_same.then_some((file, known))
    }

    /// Waits until no other process or job calibrates, which would disturb both, and holds them off while the file is open; `None` where
    /// the cache directory cannot be written.
    pub fn lock_calibration(&self) -> Option<File> {
        std::fs::create_dir_all(self.path.parent()?).ok()?;
        let lock = File::create(self.path.with_extension("lock")).ok()?;
        lock.lock().ok()?;
        Some(lock)
    }

    /// Keeps a new calibration, unless it was disturbed and there is one of the same processor that was disturbed less:
    /// disturbance makes peaks too low.
    pub fn keep_better(&self, new: &DeviceFile) -> Result<CalibrationOutcome, CalibrationError> {
        let disturbance = |calibration: Option<&DeviceCalibration>| {
            calibration.and_then(DeviceCalibration::excess_disturbance)
        };
        if let Some(taken) = disturbance(new.calibration.as_ref())
            && let Some((_, known)) = self.comparable_with(&host::read_cpu())
            && disturbance(Some(&known)).is_none_or(|known| known <= taken)
        {
            return Ok(CalibrationOutcome::Old);
        }
        self.write_file(new)?;
        Ok(CalibrationOutcome::New)
    }

    /// Writes a calibration, whatever is there.
    pub fn write_file(&self, file: &DeviceFile) -> Result<(), CalibrationError> {
        if let Some(parent) = self.path.parent() {
            std::fs::create_dir_all(parent).map_err(|source| CalibrationError::Folder {
                path: parent.to_owned(),
                source,
            })?;
        }
        // JSON is YAML.
        let text = serde_json::to_string_pretty(file)
            .expect("names are text and figures are measured, so they are finite");
        write_atomically(&self.path, (text + "\n").as_bytes())?;
        Ok(())
    }

    /// Notes that a run was faster than these peaks, so that reports doubt them: what disturbs a virtual machine from
    /// outside cannot be seen from inside. Says whether that is news.
    pub fn mark_outdone(&self) -> Result<bool, CalibrationError> {
        let Some(mut file) = self.read_file()? else {
            return Ok(false);
        };
        let Some(known) = file.calibration.as_mut().filter(|known| !known.outdone) else {
            return Ok(false);
        };
        known.outdone = true;
        self.write_file(&file)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
