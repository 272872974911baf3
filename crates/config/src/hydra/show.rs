//! The text that `--cfg` prints: the composed config or a part of it.

use super::compose::Composed;
use super::error::Error;
use crate::emit;
use crate::node::Node;
use crate::resolve::{self, Select, select_with};

/// Which part of the config `--cfg` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CfgKind {
    Job,
    /// Hydra's own, less its help texts.
    Hydra,
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
    pub fn print_cfg(
        &self,
        kind: CfgKind,
        package: Option<&str>,
        resolve: bool,
    ) -> Result<String, Error> {
        let mut shown = self.config_part(kind);
        let hydra = self
            .config
            .get("hydra")
            .cloned()
            .unwrap_or_else(Node::missing);
        let root = match kind {
            CfgKind::Job => shown.clone(),
            CfgKind::Hydra | CfgKind::All => self.config.clone(),
        };
        let context = self.host.context_with_hydra(hydra, root);
        let Some(package) = package.filter(|package| *package != "_global_") else {
            if resolve {
                resolve::resolve_all(&mut shown, &context)?;
            }
            return Ok(emit::to_yaml(&shown));
        };
        let mut selected = select_with(&shown, package, &context, Select::default())?
            .filter(|selected| !selected.node.is_null())
            .ok_or_else(|| Error::PackageNotFound {
                package: package.to_owned(),
            })?;
        if !selected.node.is_container() {
            return Ok(format!("{}\n", selected.node));
        }
        if resolve {
            match &selected.path {
                Some(path) => {
                    resolve::resolve_at(&mut shown, path, &context)?;
                    if let Some(node) = resolve::node_at(&shown, path) {
                        selected.node = node.clone();
                    }
                }
                None => selected.node = resolve::to_container(&selected.node, &context)?,
            }
        }
        Ok(format!(
            "# @package {package}\n{}",
            emit::to_yaml(&selected.node)
        ))
    }

    fn config_part(&self, kind: CfgKind) -> Node {
        match kind {
            CfgKind::Job => self.job_config(),
            CfgKind::All => self.config.clone(),
            CfgKind::Hydra => {
                let mut root = self.hydra_config();
                if let Some(hydra) = root.get_mut("hydra") {
                    hydra.remove("hydra_help");
                    hydra.remove("help");
                }
                root
            }
        }
    }
}
