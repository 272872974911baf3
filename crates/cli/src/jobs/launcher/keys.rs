//! `hydra.launcher.*`, with the keys of hydra-submitit-launcher 1.2.

use std::path::{Path, PathBuf};

use llmprof_config::{hydra::Composed, node::Node};

use crate::failure::Failure;

/// Keys as the plugin's executor gets them: by its own names, absent ones left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LauncherKeys {
    /// Absolute, with `%j` for the id of a job.
    pub(super) folder: PathBuf,
    /// `#SBATCH` parameters by submitit's names, as text.
    pub(super) parameters: Vec<(String, String)>,
    /// Parameters that are flags without a value.
    pub(super) flags: Vec<String>,
    pub(super) timeout_min: u64,
    pub(super) signal_delay_s: i64,
    pub(super) array_parallelism: u64,
    pub(super) max_num_timeout: u64,
    pub(super) stderr_to_stdout: bool,
    pub(super) setup: Vec<String>,
    /// Given by the user or by [`LauncherKeys::with_a_gpu`].
    pub(super) has_gpu: bool,
}

/// The plugin's keys and submitit's names for them.
const RENAMED: [(&str, &str); 17] = [
    ("name", "job_name"),
    ("timeout_min", "time"),
    ("nodes", "nodes"),
    ("tasks_per_node", "ntasks_per_node"),
    ("cpus_per_task", "cpus_per_task"),
    ("gpus_per_node", "gpus_per_node"),
    ("partition", "partition"),
    ("qos", "qos"),
    ("comment", "comment"),
    ("constraint", "constraint"),
    ("exclude", "exclude"),
    ("gres", "gres"),
    ("cpus_per_gpu", "cpus_per_gpu"),
    ("gpus_per_task", "gpus_per_task"),
    ("mem_per_gpu", "mem_per_gpu"),
    ("mem_per_cpu", "mem_per_cpu"),
    ("account", "account"),
];

impl LauncherKeys {
    /// Reads them; `cwd` is what a relative folder is below.
    pub(super) fn read(master: &Composed, cwd: &Path) -> Result<Self, Failure> {
        let value = |key: &str| -> Result<Node, Failure> {
            Ok(master.resolved_value(&format!("hydra.launcher.{key}"))?)
        };
        let known = |key: &str| -> Result<Option<String>, Failure> {
            let node = value(key)?;
            Ok((!node.is_null()).then(|| node.to_string()))
        };
        let mut keys = Self {
            folder: cwd.join(value("submitit_folder")?.to_string()),
            timeout_min: whole("timeout_min", &value("timeout_min")?)?,
            stderr_to_stdout: value("stderr_to_stdout")?.as_bool().unwrap_or(false),
            signal_delay_s: value("signal_delay_s")?.as_i64().unwrap_or(0),
            array_parallelism: value("array_parallelism")?.as_i64().unwrap_or(1).max(0) as u64,
            max_num_timeout: value("max_num_timeout")?.as_i64().unwrap_or(0).max(0) as u64,
            ..Self::default()
        };
        for key in ["nodes", "tasks_per_node"] {
            if value(key)?.as_i64() != Some(1) {
                return Err(Failure::new(format!("hydra.launcher.{key} must be 1: a job is one process"))
                    .hint("a sweep makes one job per combination; what the model uses is for runtime.* to say".to_owned()));
            }
        }
        for (key, name) in RENAMED {
            if let Some(text) = known(key)? {
                keys.parameters.push((name.to_owned(), text));
            }
        }
        if let Some(text) = known("mem_gb")? {
            keys.parameters
                .push(("mem".to_owned(), format!("{text}GB")));
        }
        let more = value("additional_parameters")?;
        let names = more.as_dict().into_iter().flat_map(|more| more.keys());
        for name in names.map(ToString::to_string).collect::<Vec<_>>() {
            let node = value(&format!("additional_parameters[{name}]"))?;
            keys.parameters.retain(|(known, _)| *known != name);
            if node.as_bool() == Some(true) {
                keys.flags.push(name);
            } else {
                keys.parameters.push((name, node.to_string()));
            }
        }
        let setup = value("setup")?;
        let lines = setup.as_list().unwrap_or_default();
        keys.setup = lines.iter().map(ToString::to_string).collect();
        let gpu_keys = [
            "gpus_per_node",
            "gpus_per_task",
            "gres",
            "gpus",
            "gpus-per-node",
        ];
        let is_gpu = |(name, _): &(String, String)| gpu_keys.contains(&name.as_str());
        keys.has_gpu = keys.parameters.iter().any(is_gpu);
        Ok(keys)
    }

    /// One GPU to each job where none was asked for: two profiles on one GPU disturb each other.
    pub(super) fn with_a_gpu(mut self) -> Self {
        if !self.has_gpu {
            self.parameters
                .push(("gpus_per_node".to_owned(), "1".to_owned()));
            self.has_gpu = true;
        }
        self
    }

    /// Resources that only a cluster hands out.
    pub(super) fn refuse_resources(&self) -> Result<(), Failure> {
        for (name, key) in [
            ("cpus_per_task", "cpus_per_task"),
            ("gpus_per_node", "gpus_per_node"),
            ("mem", "mem_gb"),
        ] {
            if self.parameters.iter().any(|(known, _)| known == name) {
                return Err(Failure::new(format!("hydra.launcher.{key} has no effect with submitit_local"))
                    .hint("jobs run one after the other and have the whole machine; runtime.threads and device choose what they use".to_owned()));
            }
        }
        Ok(())
    }

    /// The folder above the first part of the path that has the id of a job.
    pub(super) fn shared_folder(&self) -> PathBuf {
        let mut shared = PathBuf::new();
        for part in self.folder.components() {
            if part.as_os_str().to_string_lossy().contains("%j") {
                break;
            }
            shared.push(part);
        }
        shared
    }

    /// The folder of one job.
    pub(super) fn job_folder(&self, id: &str) -> PathBuf {
        PathBuf::from(self.folder.to_string_lossy().replace("%j", id))
    }
}

fn whole(key: &str, node: &Node) -> Result<u64, Failure> {
    let number = node.as_i64().filter(|number| *number > 0);
    let number = number.ok_or_else(|| {
        Failure::new(format!(
            "hydra.launcher.{key} must be above zero, not {node}"
        ))
    })?;
    Ok(number as u64)
}
