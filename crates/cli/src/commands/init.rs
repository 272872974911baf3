use std::{io::IsTerminal as _, process::ExitCode};

use llmprof_assets::project;

use crate::changes::{lock, make};
use crate::{args_assets::InitArgs, failure::Failure, output::Output};

pub(crate) fn init(args: &InitArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::new(format!("cannot tell the working directory: {error}")))?;
    let folder = cwd.join(&args.dir);
    // `.` has no name to call the project by.
    let folder = folder.canonicalize().unwrap_or(folder);
    // A new folder has nothing to lose, and a script cannot answer.
    let is_new = !folder.exists();
    let mut consent = args.consent;
    consent.yes |= is_new && !std::io::stdin().is_terminal();
    let _lock = folder.is_dir().then(|| lock(&folder)).transpose()?;
    let changes = project::init(&folder, args.force)?;
    if !consent.dry_run && !changes.is_empty() {
        project::check_writable(&folder)?;
    }
    make(changes, consent, output)
}
