//! What a job of a cluster must know to be the same job as in this process: the command line, the moment and the numbers.

use std::path::{Path, PathBuf};

use llmprof_config::hydra::{self, Execution, Host, Job, Outcome};
use llmprof_record::store::write_atomically;
use serde::{Deserialize, Serialize};

use crate::{app, failure::Failure, moved_keys, outputs};

/// The file of one submission.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JobsFile {
    pub(super) schema_version: u32,
    pub(super) cwd: PathBuf,
    pub(super) config_path: Option<PathBuf>,
    pub(super) config_name: Option<String>,
    pub(super) config_dir: Option<PathBuf>,
    /// Of the command line, the sweep directory fixed.
    pub(super) overrides: Vec<String>,
    /// What `${now:…}` and `shuffle(…)` were.
    pub(super) now: String,
    pub(super) seed: u64,
    /// Numbers of the jobs in the sweep, by place in the array.
    pub(super) jobs: Vec<usize>,
}

pub(super) const SCHEMA_VERSION: u32 = 1;

impl JobsFile {
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        write_atomically(path, outputs::text(self)?.as_bytes())?;
        Ok(())
    }

    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read(path)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        serde_json::from_slice(&text)
            .map_err(|error| Failure::new(format!("{} is damaged: {error}", path.display())))
    }

    /// The job at a place of the array, composed as it was when the sweep was made.
    pub(super) fn job(&self, place: usize) -> Result<Job, Failure> {
        let number = *self.jobs.get(place).ok_or_else(|| {
            Failure::new(format!("job {place} is not one of {}", self.jobs.len()))
        })?;
        let now = self.now.parse();
        let host = Host {
            cwd: self.cwd.clone(),
            seed: self.seed,
            now: now.map_err(|error| Failure::new(format!("`{}`: {error}", self.now)))?,
            ..app::host()?
        };
        let command = hydra::Command {
            config_path: self.config_path.clone(),
            config_name: self.config_name.clone(),
            config_dir: self.config_dir.clone(),
            multirun: true,
            overrides: self.overrides.clone(),
            ..hydra::Command::default()
        };
        let application = app::llmprof(&self.cwd);
        let outcome =
            moved_keys::perform(command, &application, &host).map_err(app::own_failure)?;
        let Outcome::Execution(Execution::Multirun(sweep)) = outcome else {
            return Err(Failure::new("the command line is no sweep any more"));
        };
        let count = sweep.jobs.len();
        let job = sweep.jobs.into_iter().nth(number);
        job.ok_or_else(|| Failure::new(format!("job {number} is not one of {count}")))
    }
}
