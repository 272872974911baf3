//! Calls of the installed `git`, without hooks, prompts and background jobs.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

use crate::{AssetError, Result};

/// Settings of every call: no program that a repository names is run, and nothing goes on in the background, where it
/// would hold the project's lock.
const ALWAYS: [&str; 10] = [
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "advice.detachedHead=false",
];

/// A git that works in a folder.
pub(super) struct Git<'a> {
    folder: &'a Path,
    /// Whether repositories of this host may be fetched, which git refuses for submodules otherwise.
    local: bool,
    /// Another index than the repository's own.
    index: Option<&'a Path>,
}

impl<'a> Git<'a> {
    pub(super) fn at(folder: &'a Path) -> Self {
        Self {
            folder,
            local: false,
            index: None,
        }
    }

    /// Lets repositories of this host be fetched where the address is one of them.
    pub(super) fn for_url(mut self, url: &str) -> Self {
        self.local = is_local(url);
        self
    }

    /// Works on an index of its own, so that the user's is not touched.
    pub(super) fn with_index(mut self, index: &'a Path) -> Self {
        self.index = Some(index);
        self
    }

    /// Runs git and gives its standard output, without the last line break.
    pub(super) fn run_git<S: AsRef<str>>(&self, args: &[S]) -> Result<String> {
        let output = self.git_output(args)?;
        if output.status.success() {
            let text = String::from_utf8_lossy(&output.stdout);
            return Ok(text.trim_end_matches('\n').to_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
        Err(AssetError::Tool {
            command: format!("git {}", args.join(" ")),
            how: format!("{}: {}", output.status, last_lines(&said)),
            hint: git_hint(&said),
        })
    }

    /// What git prints; `None` if it fails.
    pub(super) fn ask_git<S: AsRef<str>>(&self, args: &[S]) -> Option<String> {
        self.run_git(args).ok()
    }

    fn git_output<S: AsRef<str>>(&self, args: &[S]) -> Result<std::process::Output> {
        let mut words: Vec<OsString> = ALWAYS.iter().map(OsString::from).collect();
        if self.local {
            words.extend(["-c", "protocol.file.allow=always"].map(OsString::from));
        }
        words.extend(args.iter().map(|word| OsString::from(word.as_ref())));
        let index = self.index.map(|index| ("GIT_INDEX_FILE", index));
        run_program("git", &words, self.folder, index)
    }
}

/// Runs a program in a group of its own: where llmprof is killed, it comes to its end, and holds the project's lock until then.
pub(super) fn run_program(
    program: &str,
    words: &[OsString],
    folder: &Path,
    variable: Option<(&str, &Path)>,
) -> Result<std::process::Output> {
    let mut command = Command::new(program);
    command
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0")
        .process_group(0);
    // Variables of a git that llmprof was started by, as a hook: they would name another repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    if let Some((name, value)) = variable {
        command.env(name, value);
    }
    command.output().map_err(|error| AssetError::Tool {
        command: program.to_owned(),
        how: error.to_string(),
        hint: Some(format!("install `{program}`, or put it on the PATH")),
    })
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

fn git_hint(said: &str) -> Option<String> {
    let cases = [
        (
            "not a git repository",
            "externals of this kind need one: `git init`",
        ),
        (
            ".lock': File exists",
            "another git is at work here, or was killed: if none runs, remove that file",
        ),
        (
            "tell me who you are",
            "`git config user.name NAME` and `git config user.email ADDRESS`: a subtree is a commit",
        ),
        (
            "ambiguous argument 'HEAD'",
            "make a first commit: a subtree is merged into it",
        ),
        ("Could not resolve host", "there is no network"),
    ];
    let case = cases.iter().find(|(sign, _)| said.contains(sign));
    case.map(|(_, hint)| (*hint).to_owned())
}

pub(super) fn is_local(url: &str) -> bool {
    url.starts_with("file://") || url.starts_with('/') || url.starts_with('.')
}

/// Whether a name is a whole commit id.
pub(super) fn is_commit(name: &str) -> bool {
    [40, 64].contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The commit that a branch, tag or `HEAD` of a repository names now.
pub(super) fn newest_commit(project: &Path, url: &str, name: &str) -> Result<String> {
    if is_commit(name) {
        return Ok(name.to_owned());
    }
    // A tag with a message is an object of its own; `^{}` is the commit behind it.
    let peeled = format!("{name}^{{}}");
    let listed = Git::at(project)
        .for_url(url)
        .run_git(&["ls-remote", "--", url, name, &peeled])?;
    let rows: Vec<(&str, &str)> = listed
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let places = [
        format!("refs/tags/{peeled}"),
        format!("refs/heads/{name}"),
        format!("refs/tags/{name}"),
        name.to_owned(),
    ];
    let row = places
        .iter()
        .find_map(|place| rows.iter().find(|(_, row)| row == place));
    row.map(|(commit, _)| (*commit).to_owned())
        .ok_or_else(|| AssetError::Unknown {
            what: "branch or tag",
            name: format!("{name}` of `{url}"),
            known: Vec::new(),
        })
}
