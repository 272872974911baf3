//! What an application runs for its arguments.

use std::path::PathBuf;

use super::error::Error;
use super::job::HydraJob;
use super::sweep::Multirun;
use super::{App, Host, RunMode};

/// What an application does for its arguments: one job or a sweep.
#[derive(Debug, Clone)]
pub enum Execution {
    Run(Box<HydraJob>),
    Multirun(Multirun),
}

impl App {
    /// Composes what the application would run, as `--run` or, with `multirun`, as `--multirun`.
    ///
    /// `hydra.mode` in a config or an override can turn a run into a sweep.
    pub fn compose_execution(
        &self,
        overrides: &[String],
        multirun: bool,
        host: &Host,
    ) -> Result<Execution, Error> {
        let mut overrides = overrides.to_vec();
        let mode = match self.configured_mode(&overrides, host) {
            None | Some(RunMode::Run) if multirun => {
                overrides.push("hydra.mode=MULTIRUN".to_owned());
                RunMode::Multirun
            }
            Some(mode) => mode,
            None => {
                overrides.push("hydra.mode=RUN".to_owned());
                RunMode::Run
            }
        };
        match mode {
            RunMode::Multirun => self
                .compose_multirun(&overrides, host)
                .map(Execution::Multirun),
            RunMode::Run => {
                let composed = self.compose(&overrides, RunMode::Run, host)?;
                let dir = composed.job_value("hydra.run.dir")?.to_string();
                let task = composed.override_lines("hydra.overrides.task")?;
                let job = HydraJob::new(composed, PathBuf::from(dir), task)?;
                Ok(Execution::Run(Box::new(job)))
            }
        }
    }

    /// `hydra.mode` where the config sets it; mistakes are left for the real composition to tell.
    fn configured_mode(&self, overrides: &[String], host: &Host) -> Option<RunMode> {
        let composed = self
            .compose_unchecked(overrides, RunMode::Multirun, host)
            .ok()?;
        match composed.resolved_value("hydra.mode").ok()?.as_str() {
            Some("RUN") => Some(RunMode::Run),
            Some("MULTIRUN") => Some(RunMode::Multirun),
            _ => None,
        }
    }
}
