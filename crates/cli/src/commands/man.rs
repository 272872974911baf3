//! `llmprof man DIR`: man pages from the arguments that the program has.

use std::{fs, path::Path};

use clap::CommandFactory;

use crate::{args::Args, failure::Failure, output::Output};

/// Writes `llmprof.1`, and `llmprof-COMMAND.1` for every command and the commands below it.
pub(crate) fn man(dir: &Path, output: &mut Output) -> Result<(), Failure> {
    let written =
        fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Args::command(), dir));
    written.map_err(|error| {
        let dir = dir.display();
        Failure::new(format!("cannot write man pages to {dir}: {error}"))
    })?;
    output.line(&dir.join("llmprof.1").display().to_string())
}
