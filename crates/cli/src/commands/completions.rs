use clap::CommandFactory;
use clap_complete::Shell;

use crate::{args::Args, failure::Failure, output::Output};

pub(crate) fn completions(shell: Shell, output: &mut Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "llmprof", &mut script);
    output.text(&String::from_utf8_lossy(&script))
}
