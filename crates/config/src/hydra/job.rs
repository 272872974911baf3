//! One job as it would run: its directory, and the files Hydra leaves there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::compose::Composed;
use super::error::Error;
use super::search_path::absolute_path;
use crate::emit;
use crate::node::Node;

/// A job, composed and with its output directory known; nothing has been written.
#[derive(Debug, Clone)]
pub struct HydraJob {
    /// The overrides of the job, in a sweep those the sweeper made.
    pub overrides: Vec<String>,
    /// The composed config, `hydra` included.
    pub composed: Composed,
    /// The output directory as configured, relative to the working directory.
    pub dir: PathBuf,
    /// The files Hydra writes before the job starts: path from the output directory, and text.
    pub files: Vec<(PathBuf, String)>,
    /// Whether the job runs inside its output directory (`hydra.job.chdir`).
    pub chdir: bool,
    /// Environment variables for the job (`hydra.job.env_set`).
    pub env_set: BTreeMap<String, String>,
}

impl HydraJob {
    /// A job of a sweep, in its numbered directory.
    pub(super) fn in_sweep(
        mut composed: Composed,
        number: usize,
        overrides: Vec<String>,
    ) -> Result<Self, Error> {
        composed.set_key("hydra.job.id", Node::new(number.to_string()))?;
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        composed.set_key("hydra.job.num", Node::new(number))?;
        let dir = composed.job_value("hydra.sweep.dir")?.to_string();
        let subdir = composed.job_value("hydra.sweep.subdir")?.to_string();
        Self::new(composed, Path::new(&dir).join(subdir), overrides)
    }

    pub(super) fn new(
        mut composed: Composed,
        dir: PathBuf,
        overrides: Vec<String>,
    ) -> Result<Self, Error> {
        let output_dir = absolute_path(&dir, &composed.host.cwd);
        composed.set_key("hydra.runtime.output_dir", Node::new(output_dir))?;
        let chdir = composed
            .job_value("hydra.job.chdir")?
            .as_bool()
            .unwrap_or(false);
        let mut files = Vec::new();
        let subdir = composed.job_value("hydra.output_subdir")?;
        if !subdir.is_null() {
            let subdir = PathBuf::from(subdir.to_string());
            let task = composed.resolved_value("hydra.overrides.task")?;
            for (name, text) in [
                ("config.yaml", emit::to_yaml(&composed.job_config())),
                ("hydra.yaml", emit::to_yaml(&composed.hydra_config())),
                ("overrides.yaml", emit::to_yaml(&task)),
            ] {
                files.push((subdir.join(name), text));
            }
        }
        let env_set = composed.job_environment()?;
        Ok(Self {
            overrides,
            composed,
            dir,
            files,
            chdir,
            env_set,
        })
    }
}

impl Composed {
    /// A value as the running job sees it, with `${hydra:…}` known.
    pub(super) fn job_value(&self, key: &str) -> Result<Node, Error> {
        let hydra = self
            .config
            .get("hydra")
            .cloned()
            .unwrap_or_else(Node::missing);
        let context = self.host.context_with_hydra(hydra, self.config.clone());
        self.value_in(key, &context)
    }

    fn job_environment(&self) -> Result<BTreeMap<String, String>, Error> {
        let set = self.job_value("hydra.job.env_set")?;
        let names = set.as_dict().into_iter().flat_map(|set| set.keys());
        names
            .map(|name| {
                let value = self.job_value(&format!("hydra.job.env_set[{name}]"))?;
                Ok((name.to_string(), value.to_string()))
            })
            .collect()
    }
}
