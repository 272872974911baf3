//! Changes to a project: printed, agreed to, made.

use std::{
    io::{BufRead, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use llmprof_assets::{AssetError, Changes, ProjectLock, project};
use llmprof_record::store::no_room_hint;

use crate::{
    args_assets::Consent,
    failure::Failure,
    output::{Output, note},
};

/// Exit code of a check that found something.
pub(super) const DIFFERS: u8 = 1;

impl From<AssetError> for Failure {
    fn from(error: AssetError) -> Self {
        let hint = match &error {
            AssetError::Io { path, source, .. } => no_room_hint(source, path),
            _ => error.hint(),
        };
        Self::new(error.to_string()).hint(hint)
    }
}

/// The project that the working directory is in.
pub(super) fn here() -> Result<PathBuf, Failure> {
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::new(format!("cannot tell the working directory: {error}")))?;
    Ok(project::find_project(&cwd))
}

/// Holds others off while a project is changed.
pub(super) fn lock(project: &Path) -> Result<ProjectLock, Failure> {
    let waiting = || {
        note(&format!(
            "waiting: another llmprof, or a git that it started, is at work in {}",
            project.display()
        ));
    };
    Ok(ProjectLock::acquire(project, waiting)?)
}

/// Prints what would be done and, where that is agreed to, does it.
pub(super) fn make(
    changes: Changes,
    consent: Consent,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    for text in changes.notes() {
        note(&format!("note: {text}"));
    }
    if changes.is_empty() {
        output.line("nothing to do")?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in changes.lines() {
        output.line(&format!("  {line}"))?;
    }
    if consent.dry_run {
        output.line("nothing was changed (--dry-run)")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !consent.yes && !agreed()? {
        output.line("nothing was changed")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut done = 0;
    changes.apply(|_| done += 1)?;
    output.line(&format!("done: {}", llmprof_units::Count(done, "change")))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks; a program that cannot answer must say so beforehand.
fn agreed() -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::new("not a terminal: nobody can be asked")
            .hint("--yes makes these changes, --dry-run only shows them".to_owned()));
    }
    Output::stderr().text("Make these changes? [y/N] ")?;
    let mut answer = String::new();
    stdin
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    Ok(matches!(
        answer.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}
