//! The script that `sbatch` gets, as submitit writes it.

use super::keys::LauncherKeys;

/// The text for `count` jobs that run `command`, a line of shell; one job is no array.
pub(super) fn script(keys: &LauncherKeys, count: usize, command: &str) -> String {
    let id = if count == 1 { "%j" } else { "%A_%a" };
    let folder = keys.folder.to_string_lossy().replace("%j", id);
    let log = |task: &str, end: &str| format!("{folder}/{id}_{task}_log.{end}");
    let mut parameters: Vec<(String, Option<String>)> = keys
        .parameters
        .iter()
        .map(|(name, value)| (name.clone(), Some(value.clone())))
        .collect();
    parameters.extend(keys.flags.iter().map(|name| (name.clone(), None)));
    let own = [
        ("wckey", Some("submitit".to_owned())),
        ("signal", Some(format!("USR2@{}", keys.signal_delay_s))),
        ("output", Some(log("0", "out"))),
        ("error", (!keys.stderr_to_stdout).then(|| log("0", "err"))),
        ("open-mode", Some("append".to_owned())),
        (
            "array",
            (count > 1).then(|| {
                let at_once = keys.array_parallelism.min(count as u64);
                format!("0-{}%{at_once}", count - 1)
            }),
        ),
    ];
    for (name, value) in own {
        // What additional_parameters say goes before what is made here.
        let given = parameters.iter().any(|(known, _)| known == name);
        if let (Some(value), false) = (value, given) {
            parameters.push((name.to_owned(), Some(value)));
        }
    }
    parameters.sort();
    let mut lines = vec![
        "#!/bin/bash".to_owned(),
        String::new(),
        "# Parameters".to_owned(),
    ];
    for (name, value) in parameters {
        let flag = name.replace('_', "-");
        lines.push(match value {
            Some(value) => format!("#SBATCH --{flag}={}", quoted(&value)),
            None => format!("#SBATCH --{flag}"),
        });
    }
    if !keys.setup.is_empty() {
        lines.extend([String::new(), "# setup".to_owned()]);
        lines.extend(keys.setup.iter().cloned());
    }
    let mut srun = vec!["srun".to_owned(), "--unbuffered".to_owned()];
    srun.extend(["--output".to_owned(), log("%t", "out")]);
    if !keys.stderr_to_stdout {
        srun.extend(["--error".to_owned(), log("%t", "err")]);
    }
    let srun: Vec<String> = srun.iter().map(|word| quoted(word)).collect();
    lines.extend([
        String::new(),
        "# command".to_owned(),
        "export SUBMITIT_EXECUTOR=slurm".to_owned(),
        format!("{} {command}", srun.join(" ")),
        String::new(),
    ]);
    lines.join("\n")
}

/// A word that a shell reads as it is, quoted as Python's `shlex.quote` does.
pub(super) fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "@%_-+=:,./".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\"'\"'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_python_does() {
        let all = ["plain/x_1", "a b", "it's", "", "$HOME"].map(quoted);
        assert_eq!(all, ["plain/x_1", "'a b'", "'it'\"'\"'s'", "''", "'$HOME'"]);
    }
}
