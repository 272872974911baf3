//! What `--cfg` prints.

use super::compose::Composed;
use super::error::Error;
use crate::emit;
use crate::node::{Node, Value};

/// Which part of the config `--cfg` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CfgKind {
    /// The job's config.
    Job,
    /// Hydra's own, less its help texts.
    Hydra,
    /// Both.
    All,
}

impl CfgKind {
    /// The name on the command line.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "job" => Self::Job,
            "hydra" => Self::Hydra,
            "all" => Self::All,
            _ => return None,
        })
    }
}

impl Composed {
    /// The text that `--cfg` prints, for the whole config or for one package of it.
    ///
    /// The shown part stands alone when it is resolved: a job's `${hydra.job.name}` is not found
    /// under `--cfg job`, while `${hydra:job.name}` is.
    pub fn print_cfg(&self, kind: CfgKind, package: Option<&str>, resolve: bool) -> Result<String, Error> {
        let shown = match kind {
            CfgKind::Job => self.job(),
            CfgKind::All => self.config.clone(),
            CfgKind::Hydra => {
                let mut root = self.hydra();
                if let Some(hydra) = root.get_mut("hydra") {
                    hydra.remove("hydra_help");
                    hydra.remove("help");
                }
                root
            }
        };
        let package = package.filter(|package| *package != "_global_");
        todo!()
    }

    /// The whole config as YAML, as `multirun.yaml` keeps it.
    pub(super) fn yaml(&self) -> String {
        emit::to_yaml(&self.config)
    }
}
