//! Starting a command, waiting for it, and ending it with everything it started.
//!
//! A [`Launch`] is a command about to start, as a plain value: profilers transform it, tests look at it. Only
//! [`Launch::spawn`] has an effect. The child leads a process group of its own, so that ending it ends its children
//! too, and a Ctrl-C on the terminal reaches us alone: [`Interrupt`] then decides. It ends with us, even if we are
//! killed.

mod child;
mod descendants;
mod interrupt;
mod launch;
mod orphan;
mod tree;

pub use child::{Child, Ended, Stop};
pub(crate) use descendants::Descendants;
pub use interrupt::{Interrupt, survive_file_size_limit};
pub use launch::{Launch, environment_variables};

use std::path::PathBuf;

/// Why a process could not be started or waited for.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no such program.
    #[error("cannot start `{program}`: no such program")]
    NotFound {
        /// What was to be started.
        program: String,
    },
    /// The program is there and did not start.
    #[error("cannot start `{program}`: {source}")]
    Spawn {
        /// What was to be started.
        program: String,
        source: std::io::Error,
    },
    /// A log file could not be made.
    #[error("cannot write {path}: {source}")]
    Log {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The system refused while waiting or installing signal handlers.
    #[error("cannot {action}: {source}")]
    System {
        action: &'static str,
        source: std::io::Error,
    },
}
