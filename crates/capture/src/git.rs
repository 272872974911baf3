//! The commit of a repository that may be anybody's.
//!
//! A repository can name commands that git runs on the way (`core.fsmonitor`, hooks, filters), so that asking git in a
//! foreign one runs somebody's program. The commit is therefore read from the files themselves; whether files differ
//! from it, git is asked only where the repository's own settings are all known to start nothing.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Keys of a repository's config that start nothing when the state of files is asked for. Of `remote` only what a clone writes: a
/// promisor remote is fetched from when an object is missing, by the program that its `uploadpack` names.
const HARMLESS_CONFIG_KEYS: [(&str, &[&str]); 6] = [
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
        ],
    ),
    ("remote", &["url", "pushurl", "fetch", "tagopt", "prune"]),
    ("branch", &["remote", "merge", "rebase", "pushremote"]),
    ("user", &["name", "email"]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote", "followtags"]),
];
/// No file of git that is read here is longer.
const FILE_MAX_BYTES: u64 = 16 << 20;
/// Names may name others; git has no chain longer than this.
const REF_LINKS_MAX: usize = 5;

/// The commit of the repository around `project`; with `+` where files differ from it.
pub(crate) fn find_revision(project: &Path) -> Option<String> {
    let project = project.canonicalize().ok()?;
    let root = project
        .ancestors()
        .find(|folder| folder.join(".git").exists())?;
    let folder = git_folder(root)?;
    let common = common_folder(&folder);
    let revision = read_head(&folder, &common)?;
    let harmless = is_harmless(&common.join("config"), true)
        && is_harmless(&folder.join("config.worktree"), false)
        && !common.join("info/attributes").exists();
    if harmless && has_changes(root) {
        Some(revision + "+")
    } else {
        Some(revision)
    }
}

/// `.git`, or where it says that the folder is.
fn git_folder(root: &Path) -> Option<PathBuf> {
    let path = root.join(".git");
    if path.is_dir() {
        return Some(path);
    }
    let text = read_text(&path)?;
    Some(root.join(text.strip_prefix("gitdir:")?.trim()))
}

/// A worktree has its branches and settings in the repository that it is of.
fn common_folder(folder: &Path) -> PathBuf {
    match read_text(&folder.join("commondir")) {
        Some(path) => folder.join(path.trim()),
        None => folder.to_owned(),
    }
}

fn read_head(folder: &Path, common: &Path) -> Option<String> {
    let mut name = "HEAD".to_owned();
    for _ in 0..REF_LINKS_MAX {
        let text = read_text(&folder.join(&name)).or_else(|| read_text(&common.join(&name)));
        let Some(text) = text else {
            return packed_ref(common, &name);
        };
        let text = text.trim();
        let Some(next) = text.strip_prefix("ref:") else {
            return is_commit(text).then(|| text.to_owned());
        };
        next.trim().clone_into(&mut name);
        // Names of branches stay below the folder.
        if !name.starts_with("refs/") || name.split('/').any(|part| part == "..") {
            return None;
        }
    }
    None
}

fn packed_ref(common: &Path, name: &str) -> Option<String> {
    let text = read_text(&common.join("packed-refs"))?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (commit, _) = lines.find(|(_, reference)| *reference == name)?;
    is_commit(commit).then(|| commit.to_owned())
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a config has nothing but what is known to start nothing. An absent one has nothing.
fn is_harmless(config: &Path, is_needed: bool) -> bool {
    let Some(text) = read_text(config) else {
        return !is_needed;
    };
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let Some((name, rest)) = header.split_once(']') else {
                return false;
            };
            let name = name.split([' ', '.']).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            if !rest.trim().is_empty() {
                return false;
            }
            continue;
        }
        let key = line.split(['=', ' ', '\t']).next().unwrap_or_default();
        let key = key.to_ascii_lowercase();
        let known = HARMLESS_CONFIG_KEYS
            .iter()
            .any(|(name, keys)| *name == section && keys.contains(&key.as_str()));
        // A line that goes on could hide a header.
        if !known || line.ends_with('\\') {
            return false;
        }
    }
    true
}

/// Whether git says that a tracked file differs. Nothing of the index is written, no submodule is entered.
fn has_changes(root: &Path) -> bool {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["--no-optional-locks", "--no-pager"])
        .args([
            "-c",
            "core.fsmonitor=false",
            "-c",
            "core.hooksPath=/dev/null",
        ])
        .args(["status", "--porcelain", "--untracked-files=no"])
        .arg("--ignore-submodules=all")
        .env("GIT_TERMINAL_PROMPT", "0")
        // Should an object be missing, it is fetched from nowhere.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    output.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
}

fn read_text(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > FILE_MAX_BYTES {
        return None;
    }
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(FILE_MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_git(folder: &Path, args: &[&str]) {
        let status = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
            .args(args)
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success(), "{args:?}");
    }

    fn new_repository() -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        run_git(folder.path(), &["init", "-q", "-b", "main"]);
        fs::write(folder.path().join("file"), "one").unwrap();
        run_git(folder.path(), &["add", "file"]);
        run_git(folder.path(), &["commit", "-q", "-m", "one"]);
        let output = Command::new("git")
            .arg("-C")
            .arg(folder.path())
            .args(["rev-parse", "HEAD"])
            .output()
            .unwrap();
        let commit = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        (folder, commit)
    }

    #[test]
    fn the_commit_is_the_one_that_git_names() {
        let (folder, commit) = new_repository();
        let inside = folder.path().join("a/b");
        fs::create_dir_all(&inside).unwrap();
        assert_eq!(find_revision(&inside).as_ref(), Some(&commit));
        run_git(folder.path(), &["pack-refs", "--all"]);
        assert_eq!(find_revision(&inside).as_ref(), Some(&commit));
        run_git(folder.path(), &["worktree", "add", "-q", "tree"]);
        assert_eq!(
            find_revision(&folder.path().join("tree")).as_ref(),
            Some(&commit)
        );
        fs::write(folder.path().join("file"), "two").unwrap();
        assert_eq!(find_revision(&inside), Some(commit.clone() + "+"));
        run_git(folder.path(), &["checkout", "-q", "--detach"]);
        assert_eq!(find_revision(&inside), Some(commit + "+"));
        assert_eq!(find_revision(Path::new("/proc")), None);
    }

    /// Each of these ran a program of the repository's author.
    #[test]
    fn nothing_of_the_repository_is_run() {
        let (folder, commit) = new_repository();
        let ran = folder.path().join("ran");
        let program = folder.path().join("program");
        fs::write(
            &program,
            format!("#!/bin/sh\ntouch {}\ncat\n", ran.display()),
        )
        .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).unwrap();
        let named = program.display().to_string();
        let hook = folder.path().join(".git/hooks/post-index-change");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::copy(&program, hook).unwrap();
        fs::write(folder.path().join(".gitattributes"), "* filter=x diff=x\n").unwrap();
        let config = folder.path().join(".git/config");
        let before = fs::read_to_string(&config).unwrap();
        for hostile in [
            format!("[core]\n\tfsmonitor = {named}\n"),
            format!("[filter \"x\"]\n\tclean = {named}\n"),
            format!("[filter \"x\"]\n\tprocess = {named}\n"),
            format!("[diff \"x\"]\n\ttextconv = {named}\n"),
            format!("[alias]\n\tstatus = !{named}\n"),
            format!("[core]\n\thooksPath = {}\n", folder.path().display()),
            format!("[include]\n\tpath = {named}\n"),
            format!("[core] fsmonitor = {named}\n"),
            format!("[remote \"o\"]\n\turl = x\\\n\n[core]\n\tfsmonitor = {named}\n"),
            format!("[remote \"o\"]\n\turl = .\n\tpromisor = true\n\tuploadpack = {named}\n"),
        ] {
            fs::write(&config, format!("{before}{hostile}")).unwrap();
            fs::write(folder.path().join("file"), &hostile).unwrap();
            let revision = find_revision(folder.path()).unwrap();
            assert!(revision.starts_with(&commit), "{hostile}");
            assert!(!ran.exists(), "{hostile}");
        }
    }

    /// A missing tree was fetched from the remote that promised it, by the program that the remote named.
    #[test]
    fn a_missing_object_is_fetched_from_nowhere() {
        let (folder, commit) = new_repository();
        let ran = folder.path().join("ran");
        let program = folder.path().join("program");
        fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).unwrap();
        let tree = Command::new("git")
            .arg("-C")
            .arg(folder.path())
            .args(["rev-parse", "HEAD^{tree}"])
            .output()
            .unwrap();
        let tree = String::from_utf8(tree.stdout).unwrap();
        let object = format!(".git/objects/{}/{}", &tree[..2], tree[2..].trim());
        fs::remove_file(folder.path().join(object)).unwrap();
        let config = folder.path().join(".git/config");
        let before = fs::read_to_string(&config).unwrap();
        let remote = format!(
            "{before}[remote \"o\"]\n\turl = .\n\tpromisor = true\n\tuploadpack = {}\n",
            program.display()
        );
        fs::write(&config, remote).unwrap();
        fs::write(folder.path().join("file"), "two").unwrap();
        // Where git is asked all the same, as it is with settings that are harmless.
        has_changes(folder.path());
        assert!(!ran.exists());
        assert_eq!(find_revision(folder.path()), Some(commit));
        assert!(!ran.exists());
    }
}
