//! The basic sweeper: which jobs `--multirun` starts, and in which order.

use std::path::PathBuf;

use indexmap::IndexMap;

use super::compose::Composed;
use super::error::Error;
use super::job::HydraJob;
use super::repository::Repository;
use super::session::parse_overrides;
use super::{App, Host, RunMode, search_path};
use crate::emit;
use crate::grammar::Override;
use crate::grammar::overrides::SeededShuffle;
use crate::node::Value;

/// Jobs of a sweep that are composed at once. Each takes less than a millisecond, and 145 kB until the sweep ends.
pub const COMPOSED_MAX: usize = 10_000;

/// A sweep, composed and checked but not started.
#[derive(Debug, Clone)]
pub struct Multirun {
    /// Value of `hydra.sweep.dir` with its interpolations resolved.
    pub dir: PathBuf,
    /// The text of `multirun.yaml` in that directory.
    pub multirun_yaml: String,
    /// The jobs in the order they start; the place in the list is `hydra.job.num`.
    pub jobs: Vec<HydraJob>,
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
        parse_launcher(&self.master)
    }
}

/// The jobs of a sweep in Hydra's order: the last override varies fastest. A job is a number whose digits are places in the lists of
/// values, so that a sweep takes the memory of its values, however many jobs they make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSweep {
    /// The values of each override as `key=value`; one where it does not vary.
    values: Vec<Vec<String>>,
}

impl JobSweep {
    pub fn values(&self) -> &[Vec<String>] {
        &self.values
    }

    /// Jobs; the largest number there is where they are more.
    pub fn len(&self) -> usize {
        self.values
            .iter()
            .fold(1, |jobs: usize, list| jobs.saturating_mul(list.len()))
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of a job in the list of each override.
    pub fn job_indices(&self, job: usize) -> Vec<usize> {
        let mut rest = job;
        let mut places: Vec<usize> = self
            .values
            .iter()
            .rev()
            .map(|list| {
                let place = rest % list.len().max(1);
                rest /= list.len().max(1);
                place
            })
            .collect();
        places.reverse();
        places
    }

    /// The overrides of a job; `None` beyond the last one.
    pub fn job_overrides(&self, job: usize) -> Option<Vec<String>> {
        (job < self.len()).then(|| {
            let lists = self.values.iter();
            lists
                .zip(self.job_indices(job))
                .map(|(list, place)| list[place].clone())
                .collect()
        })
    }

    /// The overrides of every job.
    pub fn all_jobs(&self) -> impl Iterator<Item = Vec<String>> {
        (0..self.len()).filter_map(|job| self.job_overrides(job))
    }
}

impl App {
    /// What a command line sweeps over.
    pub fn compose_sweep(&self, overrides: &[String], host: &Host) -> Result<JobSweep, Error> {
        let master = self.compose(overrides, RunMode::Multirun, host)?;
        self.expand_sweep(&master, host)
    }

    /// Composes a sweep and all its jobs. `overrides` is the whole command line.
    pub(super) fn compose_multirun(
        &self,
        overrides: &[String],
        host: &Host,
    ) -> Result<Multirun, Error> {
        let master = self.compose(overrides, RunMode::Multirun, host)?;
        let sweep = self.expand_sweep(&master, host)?;
        if sweep.len() > COMPOSED_MAX {
            return Err(Error::TooManyJobs {
                jobs: sweep.len(),
                jobs_max: COMPOSED_MAX,
            });
        }
        let hydra_overrides = master.override_lines("hydra.overrides.hydra")?;
        let dir = master.resolved_text("hydra.sweep.dir")?;
        let jobs = sweep
            .all_jobs()
            .enumerate()
            .map(|(number, job)| {
                let mut all = hydra_overrides.clone();
                all.extend(job.iter().cloned());
                let composed = self.compose(&all, RunMode::Run, host)?;
                HydraJob::in_sweep(composed, number, job)
            })
            .collect::<Result<_, _>>()?;
        Ok(Multirun {
            dir: PathBuf::from(dir),
            multirun_yaml: emit::to_yaml(&master.config),
            jobs,
            master: Box::new(master),
        })
    }

    fn expand_sweep(&self, master: &Composed, host: &Host) -> Result<JobSweep, Error> {
        check_plugin(master, "hydra.sweeper", "BasicSweeper")?;
        parse_launcher(master)?;
        if let Value::Int(size) = &master.resolved_value("hydra.sweeper.max_batch_size")?.value
            && size.as_i64().is_some_and(|size| size <= 0)
        {
            return Err(Error::UnsupportedSweep {
                line: format!("hydra.sweeper.max_batch_size={size}"),
                reason: "the size of a batch must be positive".to_owned(),
            });
        }
        let mut lines = Vec::new();
        let params = master.resolved_value("hydra.sweeper.params")?;
        for (key, value) in params.as_dict().into_iter().flatten() {
            lines.push(format!("{key}={value}"));
        }
        lines.extend(master.override_lines("hydra.overrides.task")?);

        // Globs look at the search path of the application alone, without `hydra.searchpath`.
        let repository = Repository::new(search_path::default_sources(self, host)?);
        let mut shuffle = SeededShuffle::new(host.seed);
        let mut dimensions: IndexMap<String, Vec<String>> = IndexMap::new();
        for line in parse_overrides(&lines, &mut shuffle)? {
            let key = line.key_element();
            let values = override_values(&line, &repository, &mut shuffle)?
                .into_iter()
                .map(|value| format!("{key}={value}"))
                .collect();
            // A key given twice keeps its first place and takes its last values.
            dimensions.insert(key, values);
        }
        Ok(JobSweep {
            values: dimensions.into_values().collect(),
        })
    }
}

/// The values of one override as text, one for each job along it.
fn override_values(
    line: &Override,
    repository: &Repository,
    shuffle: &mut SeededShuffle,
) -> Result<Vec<String>, Error> {
    let texts = if line.is_sweep() {
        line.sweep_texts(|group| repository.group_options(group), shuffle)
    } else {
        line.value_text(false).map(|text| vec![text])
    };
    texts.map_err(|error| Error::UnsupportedSweep {
        line: line.input_line.clone(),
        reason: error.to_string(),
    })
}

/// Plugins are Python classes: only the built-in sweeper exists here.
fn check_plugin(master: &Composed, key: &str, name: &str) -> Result<(), Error> {
    let target = master.resolved_text(&format!("{key}._target_"))?;
    if target.rsplit('.').next() == Some(name) {
        Ok(())
    } else {
        Err(unsupported_value(key, target))
    }
}

/// The launcher, by the last part of its class: Hydra's own, and those of hydra-submitit-launcher.
fn parse_launcher(master: &Composed) -> Result<Launcher, Error> {
    const KEY: &str = "hydra.launcher";
    let target = master.resolved_text(&format!("{KEY}._target_"))?;
    match target.rsplit('.').next() {
        Some("BasicLauncher") => Ok(Launcher::Basic),
        Some("LocalLauncher") => Ok(Launcher::SubmititLocal),
        Some("SlurmLauncher") => Ok(Launcher::SubmititSlurm),
        _ => Err(unsupported_value(KEY, target)),
    }
}

fn unsupported_value(key: &str, target: String) -> Error {
    Error::UnsupportedPlugin {
        key: key.to_owned(),
        target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(values: &[&[&str]]) -> JobSweep {
        let list = |texts: &&[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        JobSweep {
            values: values.iter().map(list).collect(),
        }
    }

    #[test]
    fn the_last_list_varies_fastest() {
        let two = sweep(&[&["a=1", "a=2"], &["b=1", "b=2"]]);
        assert_eq!(
            two.all_jobs().collect::<Vec<_>>(),
            [
                ["a=1", "b=1"],
                ["a=1", "b=2"],
                ["a=2", "b=1"],
                ["a=2", "b=2"]
            ]
        );
        assert_eq!(two.job_indices(2), [1, 0]);
        assert_eq!(two.job_overrides(4), None);
        assert!(sweep(&[]).all_jobs().eq([Vec::<String>::new()]));
        assert!(sweep(&[&["a=1"], &[]]).is_empty());
        assert_eq!(sweep(&[&["a=1"], &[]]).all_jobs().count(), 0);
    }

    /// Ten overrides of a thousand values: 10³⁰ jobs, none of which is held.
    #[test]
    fn jobs_are_made_when_they_are_asked_for() {
        let texts: Vec<String> = (0..1000).map(|value| format!("key={value}")).collect();
        let huge = JobSweep {
            values: vec![texts; 10],
        };
        assert_eq!(huge.len(), usize::MAX);
        let last = huge.job_overrides(999_999_999).unwrap();
        assert_eq!(last[6..], ["key=0", "key=999", "key=999", "key=999"]);
    }
}
