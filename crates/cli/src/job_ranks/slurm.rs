//! Ranks on a cluster: an array job that reduces them, and a dependent job that joins them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use llmprof_units::Count;

use crate::{args::ImportArgs, failure::Failure, output::Output};

/// Tasks of one array: below Slurm's default `MaxArraySize` of 1001.
const TASKS_MAX: usize = 500;

/// Submits both jobs. Run again, it submits them again: summaries that are there are kept. `overrides` describe the model to the job that joins.
pub(crate) fn submit(
    files: &[PathBuf],
    overrides: &[String],
    args: &ImportArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let Some(run) = &args.output else {
        return Err(
            Failure::new("--launcher slurm needs a run directory on shared storage")
                .hint("-o DIR".to_owned()),
        );
    };
    let run = absolute(run)?;
    let summaries = if let Some(folder) = &args.summaries {
        absolute(folder)?
    } else {
        // A folder inside the run would be there before the run.
        let name = run.file_name().unwrap_or_default().to_string_lossy();
        run.with_file_name(format!("{name}.ranks"))
    };
    let tasks = files.len().min(TASKS_MAX);
    let jobs = summaries.join("slurm");
    fs::create_dir_all(&jobs).map_err(|error| Failure::cannot_write(&jobs, &error))?;
    for task in 0..tasks {
        let own = files.iter().skip(task).step_by(tasks);
        let mut text = String::new();
        for file in own {
            text += &format!("{}\n", absolute(file)?.display());
        }
        let list = jobs.join(format!("task-{task}.list"));
        fs::write(&list, text).map_err(|error| Failure::cannot_write(&list, &error))?;
    }
    let all = summaries.join(super::LIST_FILE);
    let mut text = String::new();
    for file in files {
        text += &format!("{}\n", absolute(file)?.display());
    }
    fs::write(&all, text).map_err(|error| Failure::cannot_write(&all, &error))?;
    let binary = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
    let memory = args
        .memory
        .map(|memory| format!(" --memory {}", memory.0))
        .unwrap_or_default();
    let map = format!(
        "#!/bin/bash\n#SBATCH --job-name=llmprof-ranks\n#SBATCH --array=0-{}\n#SBATCH --output={}/map-%a.log\n\
         exec {} import --summary-only @{}/task-$SLURM_ARRAY_TASK_ID.list -o {}{memory}\n",
        tasks - 1,
        quoted_path(&jobs),
        quoted_path(&binary),
        quoted_path(&jobs),
        quoted_path(&summaries),
    );
    let mut join = format!(
        "#!/bin/bash\n#SBATCH --job-name=llmprof-join\n#SBATCH --output={}/join.log\n\
         exec {} import --join {} -o {}",
        quoted_path(&jobs),
        quoted_path(&binary),
        quoted_path(&summaries),
        quoted_path(&run),
    );
    if let Some(config) = &args.config {
        join += &format!(" --config {}", quoted_path(&absolute(config)?));
    }
    if let Some(device) = &args.device {
        join += &format!(" --device {}", quoted(device));
    }
    for setting in overrides {
        join += &format!(" {}", quoted(setting));
    }
    join.push('\n');
    let map_job = sbatch(&jobs.join("map.sh"), &map, None)?;
    // Ranks that fail do not keep the others from being joined: the report names them.
    let join_job = sbatch(&jobs.join("join.sh"), &join, Some(&map_job))?;
    output.line(&format!(
        "submitted: job {map_job} reads {} in {}, job {join_job} joins them",
        Count(files.len() as u64, "rank"),
        Count(tasks as u64, "task"),
    ))?;
    output.line(&format!("summaries: {}", summaries.display()))?;
    output.line(&format!("report: {}", run.join("report.html").display()))
}

/// As summaries name their files: without links, where there is such a file.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    if let Ok(whole) = fs::canonicalize(path) {
        return Ok(whole);
    }
    std::path::absolute(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Hands a script to Slurm; the answer is the id of the job.
fn sbatch(file: &Path, script: &str, after: Option<&str>) -> Result<String, Failure> {
    fs::write(file, script).map_err(|error| Failure::cannot_write(file, &error))?;
    let mut command = Command::new("sbatch");
    command.arg("--parsable");
    if let Some(after) = after {
        command.arg(format!("--dependency=afterany:{after}"));
    }
    let said = command
        .arg(file)
        .output()
        .map_err(|error| Failure::new(format!("cannot run sbatch: {error}")))?;
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr);
        return Err(Failure::new(format!("sbatch refused: {}", why.trim()))
            .hint(format!("its script is {}", file.display())));
    }
    let id = String::from_utf8_lossy(&said.stdout);
    // `ID` or `ID;CLUSTER`.
    let id = id.trim().split(';').next().unwrap_or_default();
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::new(format!(
            "sbatch answered `{id}`, which names no job"
        )));
    }
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_one_word_of_a_shell() {
        assert_eq!(quoted("/runs/a-1.json"), "/runs/a-1.json");
        assert_eq!(quoted("/my runs/it's"), r"'/my runs/it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
