use std::path::Path;

use llmprof_record::store::{StoreError, StoredRun, find_runs, write_output};
use llmprof_report::compose::listings::{self, ListedRun};

use crate::{
    args::{RunChoice, RunsCommand},
    comparing::is_round,
    failure::Failure,
    output::Output,
    profiles::{files::open_run, interrupted::find_unread},
    run_files::{listed_run, run_files},
};

pub(crate) fn runs(command: RunsCommand, output: &mut Output) -> Result<(), Failure> {
    match command {
        RunsCommand::List { root, json } => list(&root, json, output),
        RunsCommand::Show { run, json } => show(&choose(run)?, json, output),
        RunsCommand::Export { root, output: file } => export(&root, file.as_deref(), output),
        RunsCommand::Path { run } => {
            let run = choose(run)?;
            let path = std::path::absolute(&run.path).unwrap_or(run.path);
            output.line(&path.display().to_string())
        }
    }
}

/// Runs at or below a folder but for the rounds of comparisons.
fn listed_runs(root: &Path) -> (Vec<StoredRun>, Vec<StoreError>) {
    let (mut runs, errors) = find_runs(root);
    runs.retain(|run| !is_round(&run.path, root));
    (runs, errors)
}

fn list(root: &Path, json: bool, output: &mut Output) -> Result<(), Failure> {
    check(root)?;
    let (runs, errors) = listed_runs(root);
    for error in errors {
        Failure::from(error).warn();
    }
    let listed: Vec<ListedRun<'_>> = runs.iter().map(listed_run).collect();
    if json {
        return output.json(&listed);
    }
    if listed.is_empty() {
        return output.line(&format!("no runs below {}", root.display()));
    }
    output.table(&listings::runs(&listed))
}

fn export(root: &Path, file: Option<&Path>, output: &mut Output) -> Result<(), Failure> {
    check(root)?;
    let (runs, errors) = find_runs(root);
    for error in errors {
        Failure::from(error).warn();
    }
    if runs.is_empty() {
        return Err(Failure::new(format!("no runs below {}", root.display()))
            .hint("`--root DIR` looks elsewhere".to_owned()));
    }
    let rows: Vec<listings::RunRow<'_>> = runs
        .iter()
        .map(|run| (listed_run(run), run_files(run)))
        .collect();
    let text = listings::runs_csv(&rows);
    match file {
        Some(file) => {
            write_output(file, text.as_bytes())?;
            output.line(&file.display().to_string())
        }
        None => output.text(&text),
    }
}

/// Refuses a place where there can be no runs, or none that can be seen.
fn check(root: &Path) -> Result<(), Failure> {
    let elsewhere = "runs are looked for in ./runs; `--root DIR` looks elsewhere";
    match std::fs::read_dir(root) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(Failure::new(
            format!("cannot read {}: {error}", root.display()),
        )
        .hint(format!(
            "`ls -ld {}` shows who may read it; `--root DIR` looks elsewhere",
            root.display()
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Failure::new(format!(
            "directory {} not found",
            root.display()
        ))
        .hint(elsewhere.to_owned())),
        Err(error) => Err(
            Failure::new(format!("cannot read {}: {error}", root.display()))
                .hint(elsewhere.to_owned()),
        ),
    }
}

fn show(run: &StoredRun, json: bool, output: &mut Output) -> Result<(), Failure> {
    let listed = listed_run(run);
    if json {
        return output.json(&listed);
    }
    let unread = find_unread(run).map(|unread| (unread.files, unread.bytes));
    let notes = run.notes()?;
    let lines = listings::run_lines(&listed, &run_files(run), notes.as_deref(), unread);
    output.text(&(lines.join("\n") + "\n"))
}

/// The run that was named, or the newest below the root.
fn choose(choice: RunChoice) -> Result<StoredRun, Failure> {
    if let Some(path) = choice.run {
        return open_run(&path);
    }
    check(&choice.root)?;
    let (mut runs, _) = listed_runs(&choice.root);
    runs.pop().ok_or_else(|| {
        Failure::new(format!("no runs below {}", choice.root.display()))
            .hint("name a run directory, or `--root DIR`".to_owned())
    })
}
