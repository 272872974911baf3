mod results;

use std::path::Path;

use llmprof_record::store::{
    Liveness, Manifest, StoreError, StoredRun, find_runs, write_atomically,
};
use llmprof_report::{Table, text::issue_line};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::{RunChoice, RunsCommand},
    comparing::is_round,
    failure::Failure,
    output::Output,
    profiles::interrupted::find_unread,
    run_rows,
};

/// A run as `--json` prints it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Listed<'a> {
    /// The run directory.
    path: &'a Path,
    /// `live`, `dead` (it says `running` but its process is gone) or `ended`.
    liveness: Liveness,
    #[serde(flatten)]
    manifest: &'a Manifest,
    /// The issues as sentences, in the order of `issues`, each with what would avoid it.
    issue_lines: Vec<String>,
}

impl<'a> Listed<'a> {
    fn new(run: &'a StoredRun) -> Self {
        Self {
            path: &run.path,
            liveness: run.liveness(),
            manifest: &run.manifest,
            issue_lines: run.manifest.issues.iter().map(issue_line).collect(),
        }
    }
}

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
    let listed: Vec<_> = runs.iter().map(Listed::new).collect();
    if json {
        return output.json(&listed);
    }
    if listed.is_empty() {
        return output.line(&format!("no runs below {}", root.display()));
    }
    let mut table = Table::new(
        &[
            "PATH",
            "STATE",
            "EXPERIMENT",
            "MODEL OR SOURCE",
            "ISSUES",
            "CREATED",
        ],
        6,
    );
    for run in &listed {
        table.row([
            run.path.display().to_string(),
            state(run),
            run.manifest.experiment.clone(),
            run.manifest.model.clone(),
            run.manifest.issues.len().to_string(),
            run.manifest.created.clone(),
        ]);
    }
    output.table(&table)
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
    let text = run_rows::csv(&runs);
    match file {
        Some(file) => {
            write_atomically(file, text.as_bytes())?;
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

/// The status, with the process that died or lives.
fn state(run: &Listed<'_>) -> String {
    let Manifest { status, pid, .. } = run.manifest;
    match run.liveness {
        Liveness::Ended => status.to_string(),
        Liveness::Live => format!("running (pid {pid})"),
        Liveness::Dead => format!("dead (pid {pid} is gone)"),
    }
}

fn show(run: &StoredRun, json: bool, output: &mut Output) -> Result<(), Failure> {
    let listed = Listed::new(run);
    if json {
        return output.json(&listed);
    }
    let manifest = &run.manifest;
    let mut lines = vec![
        format!("{}", run.path.display()),
        format!("state       {}", state(&listed)),
        format!("created     {}", manifest.created),
    ];
    if let Some(finished) = &manifest.finished {
        lines.push(format!("finished    {finished}"));
    }
    lines.push(format!("experiment  {}", manifest.experiment));
    // Of an import it is the file.
    let what = if manifest.experiment == "import" {
        "source"
    } else {
        "model"
    };
    lines.push(format!("{what:<11} {}", manifest.model));
    if !manifest.overrides.is_empty() {
        lines.push(format!("overrides   {}", manifest.overrides.join(" ")));
    }
    if let Some(error) = &manifest.error {
        lines.push(format!("error       {error}"));
    }
    if let Some(unread) = find_unread(run) {
        let (files, bytes) = (unread.files, unread.bytes);
        lines.push(format!(
            "recording   llmprof was killed and the command was ended with it; {files} {} of {bytes} left",
            if files == 1 { "file" } else { "files" }
        ));
        if files > 0 {
            let path = run.path.display();
            lines.push(format!(
                "            `llmprof analyze {path}` reads what was recorded"
            ));
        }
    }
    for (name, result) in results::results(run) {
        lines.push(format!("{name:<11} {result}"));
    }
    for pass in &manifest.passes {
        let time = pass
            .duration_ns
            .map(|time| format!(", {time}"))
            .unwrap_or_default();
        let code = pass
            .exit_code
            .map(|code| format!(", exit code {code}"))
            .unwrap_or_default();
        lines.push(format!(
            "pass        {}: {}{time}{code}",
            pass.name, pass.status
        ));
    }
    for issue in &manifest.issues {
        lines.push(format!("issue       {}", issue_line(issue)));
    }
    for artifact in &manifest.artifacts {
        lines.push(format!(
            "file        {} ({})",
            artifact.path, artifact.bytes
        ));
    }
    lines.push(String::new());
    output.text(&lines.join("\n"))
}

/// The run that was named, or the newest below the root.
fn choose(choice: RunChoice) -> Result<StoredRun, Failure> {
    if let Some(path) = choice.run {
        return Ok(StoredRun::open(path)?);
    }
    check(&choice.root)?;
    let (mut runs, _) = listed_runs(&choice.root);
    runs.pop().ok_or_else(|| {
        Failure::new(format!("no runs below {}", choice.root.display()))
            .hint("name a run directory, or `--root DIR`".to_owned())
    })
}
