//! What a job of a cluster must know to be the same job as in this process: the command line, the moment and the numbers.

use std::path::{Path, PathBuf};

use llmprof_config::hydra::{self, CommandOutcome, Execution, Host, HydraJob, Multirun};
use llmprof_record::store::write_atomically;
use llmprof_units::bounded_file::{INDEX_MAX_BYTES, read_bounded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{app, failure::Failure, moved_keys, outputs, profiles::request::path_override};

/// The file of one submission.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct JobsFile {
    /// Version of this layout.
    pub(super) schema_version: u32,
    /// The folder in which the sweep was started.
    pub(in crate::jobs) cwd: PathBuf,
    /// `--config-path` of the command line.
    pub(super) config_path: Option<PathBuf>,
    /// `--config-name` of the command line.
    pub(super) config_name: Option<String>,
    /// `--config-dir` of the command line.
    pub(super) config_dir: Option<PathBuf>,
    /// The overrides of the command line, followed by the folder of the sweep.
    pub(super) overrides: Vec<String>,
    /// The moment that `${now:…}` stands for in all jobs.
    pub(super) now: String,
    /// The seed of `shuffle(…)` in all jobs.
    pub(super) seed: u64,
    /// Numbers of the jobs in the sweep, in the order of the array.
    pub(in crate::jobs) jobs: Vec<usize>,
    /// Slurm's number of the array that runs them; absent before it is submitted, and where Slurm does not run them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::jobs) slurm_job: Option<String>,
}

impl JobsFile {
    pub(crate) const SCHEMA_VERSION: u32 = 1;

    /// What makes these jobs of a sweep again in another process.
    pub(in crate::jobs) fn new(
        multirun: &Multirun,
        command: &hydra::HydraCommand,
        host: &Host,
        jobs: &[usize],
    ) -> Self {
        let dir = host.cwd.join(&multirun.dir);
        let mut overrides = command.overrides.clone();
        overrides.push(path_override("hydra.sweep.dir", &dir));
        Self {
            schema_version: Self::SCHEMA_VERSION,
            cwd: host.cwd.clone(),
            config_path: command.config_path.clone(),
            config_name: command.config_name.clone(),
            config_dir: command.config_dir.clone(),
            overrides,
            now: host.now.to_string(),
            seed: host.seed,
            jobs: jobs.to_vec(),
            slurm_job: None,
        }
    }

    pub(in crate::jobs) fn write(&self, path: &Path) -> Result<(), Failure> {
        write_atomically(path, outputs::text(self)?.as_bytes())?;
        Ok(())
    }

    pub(in crate::jobs) fn read(path: &Path) -> Result<Self, Failure> {
        let text = read_bounded(path, INDEX_MAX_BYTES)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        serde_json::from_slice(&text)
            .map_err(|error| Failure::new(format!("{} is damaged: {error}", path.display())))
    }

    /// The job at a place of the array, composed as it was when the sweep was made.
    pub(super) fn job(&self, place: usize) -> Result<HydraJob, Failure> {
        let number = *self.jobs.get(place).ok_or_else(|| {
            Failure::new(format!("job {place} is not one of {}", self.jobs.len()))
        })?;
        let sweep = self.multirun()?;
        let count = sweep.jobs.len();
        let job = sweep.jobs.into_iter().nth(number);
        job.ok_or_else(|| Failure::new(format!("job {number} is not one of {count}")))
    }

    /// The whole sweep, composed as it was when it was made.
    pub(in crate::jobs) fn multirun(&self) -> Result<Multirun, Failure> {
        let now = self.now.parse();
        let host = Host {
            cwd: self.cwd.clone(),
            seed: self.seed,
            now: now.map_err(|error| Failure::new(format!("`{}`: {error}", self.now)))?,
            ..app::host()?
        };
        let command = hydra::HydraCommand {
            config_path: self.config_path.clone(),
            config_name: self.config_name.clone(),
            config_dir: self.config_dir.clone(),
            multirun: true,
            overrides: self.overrides.clone(),
            ..hydra::HydraCommand::default()
        };
        let application = app::llmprof(&self.cwd);
        let outcome =
            moved_keys::perform(command, &application, &host).map_err(app::own_failure)?;
        match outcome {
            CommandOutcome::Execution(Execution::Multirun(sweep)) => Ok(sweep),
            _ => Err(Failure::new("the command line no longer describes a sweep")),
        }
    }
}
