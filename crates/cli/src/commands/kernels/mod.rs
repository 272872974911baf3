//! The Nsight Compute workflow: the kernels that matter, their counters, what those say.

pub(super) mod analyze;
mod listed;
mod profile;
mod top;

use crate::{args_kernels::KernelsCommand, failure::Failure, output::Output};

pub(crate) fn kernels(command: KernelsCommand, output: &mut Output) -> Result<(), Failure> {
    match command {
        KernelsCommand::Top(args) => top::top(&args, output),
        KernelsCommand::Profile(args) => profile::profile(&args, output),
        KernelsCommand::Analyze(args) => analyze::analyze(&args, output),
    }
}
