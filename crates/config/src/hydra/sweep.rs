//! The basic sweeper: which jobs `--multirun` starts, and in which order.

use std::path::PathBuf;

use indexmap::IndexMap;

use super::compose::Composed;
use super::error::Error;
use super::job::Job;
use super::repository::Repository;
use super::session::parse_overrides;
use super::{App, Host, RunMode, search_path};
use crate::emit;
use crate::grammar::Override;
use crate::grammar::overrides::SeededShuffle;
use crate::node::Value;

/// A sweep, composed and checked but not started.
#[derive(Debug, Clone)]
pub struct Multirun {
    /// `hydra.sweep.dir`, as composed.
    pub dir: PathBuf,
    /// The text of `multirun.yaml` in that directory.
    pub multirun_yaml: String,
    /// The jobs in the order they start; the place in the list is `hydra.job.num`.
    pub jobs: Vec<Job>,
    /// The config that the sweep starts from: its launcher.
    pub master: Box<Composed>,
}

/// Who starts the jobs of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Hydra's own: one after the other, in this process.
    Basic,
    /// submitit's local executor: each in a process of its own.
    SubmititLocal,
    /// submitit's Slurm executor: a job array.
    SubmititSlurm,
}

impl Multirun {
    pub fn launcher(&self) -> Result<Launcher, Error> {
        launcher(&self.master)
    }
}

impl App {
    /// The overrides of each job of a sweep, in Hydra's order: the last sweep varies fastest.
    pub fn expand_sweep(
        &self,
        overrides: &[String],
        host: &Host,
    ) -> Result<Vec<Vec<String>>, Error> {
        let master = self.compose(overrides, RunMode::Multirun, host)?;
        self.expand(&master, host)
    }

    /// Composes a sweep and all its jobs. `overrides` is the whole command line.
    pub(super) fn multirun(&self, overrides: &[String], host: &Host) -> Result<Multirun, Error> {
        let master = self.compose(overrides, RunMode::Multirun, host)?;
        let jobs = self.expand(&master, host)?;
        let hydra_overrides = master.override_lines("hydra.overrides.hydra")?;
        let dir = master.text("hydra.sweep.dir")?;
        let jobs = jobs
            .into_iter()
            .enumerate()
            .map(|(number, job)| {
                let mut all = hydra_overrides.clone();
                all.extend(job.iter().cloned());
                let composed = self.compose(&all, RunMode::Run, host)?;
                Job::in_sweep(composed, number, job)
            })
            .collect::<Result<_, _>>()?;
        Ok(Multirun {
            dir: PathBuf::from(dir),
            multirun_yaml: emit::to_yaml(&master.config),
            jobs,
            master: Box::new(master),
        })
    }

    fn expand(&self, master: &Composed, host: &Host) -> Result<Vec<Vec<String>>, Error> {
        check_plugin(master, "hydra.sweeper", "BasicSweeper")?;
        launcher(master)?;
        if let Value::Int(size) = &master.value("hydra.sweeper.max_batch_size")?.value
            && size.as_i64().is_some_and(|size| size <= 0)
        {
            return Err(Error::UnsupportedSweep {
                line: format!("hydra.sweeper.max_batch_size={size}"),
                reason: "the size of a batch must be positive".to_owned(),
            });
        }
        let mut lines = Vec::new();
        let params = master.value("hydra.sweeper.params")?;
        for (key, value) in params.as_dict().into_iter().flatten() {
            lines.push(format!("{key}={value}"));
        }
        lines.extend(master.override_lines("hydra.overrides.task")?);

        // Globs look at the search path of the application alone, without `hydra.searchpath`.
        let repository = Repository::new(search_path::sources(self, host)?);
        let mut shuffle = SeededShuffle::new(host.seed);
        let mut dimensions: IndexMap<String, Vec<String>> = IndexMap::new();
        for line in parse_overrides(&lines, &mut shuffle)? {
            let key = line.key_element();
            let values = values(&line, &repository, &mut shuffle)?
                .into_iter()
                .map(|value| format!("{key}={value}"))
                .collect();
            // A key given twice keeps its first place and takes its last values.
            dimensions.insert(key, values);
        }
        Ok(product(&dimensions.into_values().collect::<Vec<_>>()))
    }
}

/// The values of one override as text, one for each job along it.
fn values(
    line: &Override,
    repository: &Repository,
    shuffle: &mut SeededShuffle,
) -> Result<Vec<String>, Error> {
    let texts = if line.is_sweep() {
        line.sweep_texts(|group| repository.options(group), shuffle)
    } else {
        line.value_text(false).map(|text| vec![text])
    };
    texts.map_err(|error| Error::UnsupportedSweep {
        line: line.input_line.clone(),
        reason: error.to_string(),
    })
}

/// The cartesian product, the last list varying fastest.
fn product(lists: &[Vec<String>]) -> Vec<Vec<String>> {
    lists.iter().fold(vec![Vec::new()], |jobs, list| {
        jobs.iter()
            .flat_map(|job| {
                list.iter().map(move |value| {
                    let mut job = job.clone();
                    job.push(value.clone());
                    job
                })
            })
            .collect()
    })
}

/// Plugins are Python classes: only the built-in sweeper exists here.
fn check_plugin(master: &Composed, key: &str, name: &str) -> Result<(), Error> {
    let target = master.text(&format!("{key}._target_"))?;
    if target.rsplit('.').next() == Some(name) {
        Ok(())
    } else {
        Err(unsupported(key, target))
    }
}

/// The launcher, by the last part of its class: Hydra's own, and those of hydra-submitit-launcher.
fn launcher(master: &Composed) -> Result<Launcher, Error> {
    const KEY: &str = "hydra.launcher";
    let target = master.text(&format!("{KEY}._target_"))?;
    match target.rsplit('.').next() {
        Some("BasicLauncher") => Ok(Launcher::Basic),
        Some("LocalLauncher") => Ok(Launcher::SubmititLocal),
        Some("SlurmLauncher") => Ok(Launcher::SubmititSlurm),
        _ => Err(unsupported(KEY, target)),
    }
}

fn unsupported(key: &str, target: String) -> Error {
    Error::UnsupportedPlugin {
        key: key.to_owned(),
        target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_list_varies_fastest() {
        let list = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
        let jobs = product(&[list(&["a=1", "a=2"]), list(&["b=1", "b=2"])]);
        assert_eq!(
            jobs,
            [
                ["a=1", "b=1"],
                ["a=1", "b=2"],
                ["a=2", "b=1"],
                ["a=2", "b=2"]
            ]
        );
        assert_eq!(product(&[]), [Vec::<String>::new()]);
        assert!(product(&[list(&["a=1"]), list(&[])]).is_empty());
    }
}
