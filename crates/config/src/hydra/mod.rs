//! Hydra 1.3 over the config values of this crate: search path, defaults, composition, sweeps.
//!
//! The steps are apart, as in Hydra: [`App`] has the search path; the defaults tree says which
//! configs are merged; the defaults list says in which order; [`Composed`] is the result.
//! Behaviour is that of `hydra.main(version_base="1.3")`. Everything impure is in [`Host`] but
//! the reading of config files, so one input always gives one result.

mod apply;
mod builtin;
mod choices;
mod clock;
mod command;
mod compose;
mod defaults_list;
mod element;
mod error;
mod execution;
mod fill;
mod info;
mod job;
mod meant;
mod repository;
mod resolved;
mod resolvers;
mod schema;
mod search_path;
mod session;
mod show;
mod source;
mod sweep;
mod tree;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use command::{CommandOutcome, HydraCommand};
pub use compose::{Composed, MergedDefaults};
pub use defaults_list::ResultDefault;
pub use error::{Error, ask_which};
pub use execution::Execution;
pub use info::InfoTopic;
pub use job::HydraJob;
pub use show::CfgKind;
pub use source::{FileTree, SourceInfo};
pub use sweep::{COMPOSED_MAX, JobSweep, Launcher, Multirun};

pub use crate::warnings::Warnings;

/// A Hydra application: what `@hydra.main` and the flags before the overrides say.
#[derive(Debug, Clone, Default)]
pub struct App {
    /// `hydra.job.name`, unless a config or an override sets it.
    pub job_name: String,
    /// The primary config directory (`--config-path`), relative to the working directory.
    pub config_dir: Option<PathBuf>,
    /// The primary config (`--config-name`), with or without `.yaml`.
    pub config_name: Option<String>,
    /// A tree inside the binary, on the search path after the primary directory.
    pub embedded: FileTree,
    /// Directories appended to the search path (`--config-dir`).
    pub extra_config_dirs: Vec<PathBuf>,
    /// Other names of options. Hydra has none.
    pub aliases: Vec<OptionAlias>,
}

/// Another name of an option, in any case: `model=Qwen/Qwen3-8B` for `model=qwen3_8b`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionAlias {
    pub group: &'static str,
    pub alias: String,
    pub option: String,
}

/// Whether one job is composed or a sweep over several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    Run,
    Multirun,
}

/// The world around a composition. Nothing else is looked at but config files.
#[derive(Debug, Clone)]
pub struct Host {
    /// Absolute path of the working directory, which relative search paths start from.
    pub cwd: PathBuf,
    pub env: BTreeMap<String, String>,
    /// The local time that `${now:…}` shows.
    pub now: jiff::civil::DateTime,
    /// Decides the order of `shuffle(…)`.
    pub seed: u64,
    /// What compositions and resolvers warn about.
    pub warnings: Warnings,
}
