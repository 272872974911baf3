//! Sources of others, with the installed git against repositories of this host, and with a stand-in for `hf`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
#[path = "common/git.rs"]
mod git;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use common::{made, surroundings, write};
use git::git;
use llmprof_assets::{
    AssetError, Changes,
    externals::{Condition, ExternalAction, guard, install_guard, plan, source_revision, status},
};

/// A repository with two commits on `main` and the tag `v1` on the first.
fn upstream(folder: &Path) -> (String, String) {
    write(
        folder,
        &[
            ("src/models/llama.py", "one"),
            ("src/other/x.py", "x"),
            ("LICENSE", "MIT"),
        ],
    );
    git(folder, &["init", "--quiet", "-b", "main"]);
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "one"]);
    git(folder, &["tag", "-a", "v1", "-m", "first"]);
    let first = git(folder, &["rev-parse", "HEAD"]);
    write(folder, &[("src/models/llama.py", "two")]);
    git(folder, &["commit", "--quiet", "-am", "two"]);
    (first, git(folder, &["rev-parse", "HEAD"]))
}

struct Scene {
    _folder: tempfile::TempDir,
    upstream: PathBuf,
    project: PathBuf,
    first: String,
    second: String,
}

/// A project in a repository of its own with one commit, declaring one external.
fn scene(declared: &str) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (upstream_folder, project) = (root.join("upstream"), root.join("project"));
    let (first, second) = upstream(&upstream_folder);
    let declared = declared
        .replace("@URL@", &upstream_folder.to_string_lossy())
        .replace("@FIRST@", &first)
        .replace("@SECOND@", &second);
    write(
        &project,
        &[
            (
                "third_party/externals.yaml",
                &format!("# kept\nexternals:\n{declared}"),
            ),
            ("README.md", "x"),
        ],
    );
    git(&project, &["init", "--quiet", "-b", "main"]);
    for (key, value) in [("user.name", "Test"), ("user.email", "test@example.org")] {
        git(&project, &["config", key, value]);
    }
    git(&project, &["add", "."]);
    git(&project, &["commit", "--quiet", "-m", "project"]);
    Scene {
        _folder: folder,
        upstream: upstream_folder,
        project,
        first,
        second,
    }
}

impl Scene {
    fn is_at_first(&self) {
        self.is_at(&self.first, "one");
    }

    fn is_at_second(&self) {
        self.is_at(&self.second, "two");
    }

    fn is_at(&self, commit: &str, text: &str) {
        assert_eq!(self.state(), (Condition::AsPinned, Some(commit.to_owned())));
        assert_eq!(self.text("third_party/github/up/src/models/llama.py"), text);
    }

    fn plan(&self, action: ExternalAction) -> Result<Changes, AssetError> {
        plan(
            &self.project,
            action,
            &[],
            &surroundings(&[("UPSTREAM", &self.upstream)]),
        )
    }

    fn make(&self, action: ExternalAction) -> usize {
        made(self.plan(action).unwrap())
    }

    fn state(&self) -> (Condition, Option<String>) {
        let state = status(&self.project).unwrap().remove(0);
        (state.condition, state.found)
    }

    fn commit(&self) {
        git(&self.project, &["add", "-A"]);
        git(&self.project, &["commit", "--quiet", "-m", "externals"]);
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.project.join(name)).unwrap()
    }
}

#[test]
fn a_submodule_is_what_git_itself_makes_of_it() {
    let scene = scene(
        "  - path: github/up  # why\n    kind: submodule\n    url: @URL@\n    revision: v1\n    branch: main\n    depth: 1\n",
    );
    assert_eq!(scene.state().0, Condition::Missing);
    scene.make(ExternalAction::Init);
    assert_eq!(
        scene.state(),
        (Condition::AsPinned, Some(scene.first.clone())),
        "the tag became its commit"
    );
    let declared = scene.text("third_party/externals.yaml");
    assert!(
        declared.contains("# kept")
            && declared.contains("# why")
            && declared.contains(&scene.first),
        "{declared}"
    );
    let settings = scene.text(".gitmodules");
    for line in [
        "ignore = dirty",
        "update = none",
        "shallow = true",
        "branch = main",
        "path = third_party/github/up",
    ] {
        assert!(settings.contains(line), "{line}: {settings}");
    }
    let staged = git(
        &scene.project,
        &["ls-files", "--stage", "third_party/github/up"],
    );
    assert!(
        staged.starts_with(&format!("160000 {}", scene.first)),
        "{staged}"
    );
    assert_eq!(scene.make(ExternalAction::Init), 0, "a second time");
    scene.commit();
    assert_eq!(scene.make(ExternalAction::Init), 0, "after the commit");
    let listed = git(&scene.project, &["submodule", "status"]);
    assert!(
        listed.contains(&scene.first) && listed.contains("third_party/github/up"),
        "{listed}"
    );
    // `ignore = dirty`: edits do not show in the project's status, but they show in ours, and nothing moves over them.
    write(
        &scene.project,
        &[("third_party/github/up/LICENSE", "edited")],
    );
    assert_eq!(git(&scene.project, &["status", "--porcelain"]), "");
    assert_eq!(scene.state().0, Condition::Edited);
    let error = scene
        .plan(ExternalAction::Update)
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("LICENSE"), "{error}");
    git(
        &scene.project.join("third_party/github/up"),
        &["checkout", "--quiet", "--", "."],
    );

    scene.make(ExternalAction::Update);
    scene.is_at_second();
    scene.commit();
    // Somebody checks out something else.
    git(
        &scene.project.join("third_party/github/up"),
        &["checkout", "--quiet", &scene.first],
    );
    assert_eq!(scene.state().0, Condition::Drifted);
    scene.make(ExternalAction::Init);
    assert_eq!(scene.state().0, Condition::AsPinned);

    // Another host: a clone of the project has an empty folder there, and gets the pinned commit.
    let clone = scene.project.with_file_name("clone");
    git(
        scene.project.parent().unwrap(),
        &[
            "clone",
            "--quiet",
            &scene.project.to_string_lossy(),
            "clone",
        ],
    );
    assert!(clone.join("third_party/github/up").is_dir());
    made(plan(&clone, ExternalAction::Init, &[], &surroundings(&[])).unwrap());
    assert_eq!(
        fs::read_to_string(clone.join("third_party/github/up/src/models/llama.py")).unwrap(),
        "two"
    );
    assert_eq!(status(&clone).unwrap()[0].condition, Condition::AsPinned);
    assert_eq!(git(&clone, &["status", "--porcelain"]), "");

    let source = source_revision(&scene.project, Path::new("third_party/github/up/src"));
    assert_eq!(
        (source.revision.as_deref(), source.from),
        (Some(scene.second.as_str()), Some("externals"))
    );
}

#[test]
fn a_subtree_is_merged_and_edits_of_it_show() {
    let scene = scene(
        "  - path: github/up\n    kind: subtree\n    url: @URL@\n    revision: @FIRST@\n    branch: main\n",
    );
    scene.make(ExternalAction::Init);
    scene.is_at_first();
    scene.commit();
    assert_eq!(scene.make(ExternalAction::Init), 0);
    scene.make(ExternalAction::Update);
    scene.is_at_second();
    scene.commit();
    write(
        &scene.project,
        &[("third_party/github/up/LICENSE", "edited")],
    );
    assert_eq!(scene.state().0, Condition::Edited);
    scene.commit();
    let state = status(&scene.project).unwrap().remove(0);
    assert_eq!(state.edits, ["third_party/github/up/LICENSE (committed)"]);
}

#[test]
fn a_sparse_checkout_has_only_its_folders_and_is_not_committed() {
    let scene = scene(
        "  - {path: github/up, kind: sparse, url: @URL@, branch: main, paths: [src/models]}\n",
    );
    scene.make(ExternalAction::Init);
    assert_eq!(
        scene.state(),
        (Condition::AsPinned, Some(scene.second.clone())),
        "pinned at the newest of its branch"
    );
    assert_eq!(
        scene.text("third_party/github/up/src/models/llama.py"),
        "two"
    );
    assert!(
        !scene
            .project
            .join("third_party/github/up/src/other")
            .exists()
    );
    assert_eq!(scene.make(ExternalAction::Init), 0);
    scene.commit();
    assert_eq!(git(&scene.project, &["ls-files", "third_party/github"]), "");
    let declared = scene
        .text("third_party/externals.yaml")
        .replace("[src/models]", "[src/models, src/other]");
    write(&scene.project, &[("third_party/externals.yaml", &declared)]);
    assert_eq!(scene.state().0, Condition::Drifted);
    scene.make(ExternalAction::Init);
    assert!(
        scene
            .project
            .join("third_party/github/up/src/other/x.py")
            .is_file()
    );
    assert_eq!(scene.state().0, Condition::AsPinned);
    // What a killed call left.
    fs::remove_dir_all(scene.project.join("third_party/github/up")).unwrap();
    write(
        &scene.project,
        &[("third_party/github/.up.llmprof-partial/.git/HEAD", "half")],
    );
    scene.make(ExternalAction::Init);
    assert_eq!(scene.state().0, Condition::AsPinned);
}

#[test]
fn a_link_leads_to_a_checkout_of_this_host() {
    let scene = scene("  - {path: github/up, kind: symlink, target: $UPSTREAM}\n");
    scene.make(ExternalAction::Init);
    assert_eq!(
        scene.state(),
        (Condition::AsPinned, Some(scene.second.clone()))
    );
    assert_eq!(scene.make(ExternalAction::Init), 0);
    scene.commit();
    assert_eq!(git(&scene.project, &["ls-files", "third_party/github"]), "");
    fs::remove_dir_all(&scene.upstream).unwrap();
    assert_eq!(scene.state().0, Condition::Dangling);
    assert!(matches!(
        scene.plan(ExternalAction::Init),
        Err(AssetError::MissingTarget { .. })
    ));
}

#[test]
fn trouble_names_what_would_help() {
    let scene = scene(
        "  - {path: a, kind: submodule, url: @URL@, branch: nowhere}\n  - {path: b, kind: submodule, url: /nowhere/repository}\n",
    );
    let error = scene.plan(ExternalAction::Init).err().unwrap().to_string();
    assert!(
        error.contains("nowhere` of `") && error.contains("/nowhere/repository"),
        "both: {error}"
    );
    assert!(
        plan(
            &scene.project,
            ExternalAction::Init,
            &["c".to_owned()],
            &surroundings(&[])
        )
        .err()
        .unwrap()
        .hint()
        .unwrap()
        .contains("a, b")
    );
    let outside = tempfile::tempdir().unwrap();
    write(
        outside.path(),
        &[(
            "third_party/externals.yaml",
            &format!(
                "externals: [{{path: a, kind: submodule, url: {}}}]",
                scene.upstream.display()
            ),
        )],
    );
    let error = plan(
        outside.path(),
        ExternalAction::Init,
        &[],
        &surroundings(&[]),
    )
    .err()
    .unwrap();
    assert!(error.hint().unwrap().contains("git init"), "{error}");
}

#[test]
fn the_guard_lets_pins_pass_and_nothing_else() {
    let scene = scene("  - {path: github/up, kind: submodule, url: @URL@, revision: @FIRST@}\n");
    scene.make(ExternalAction::Init);
    git(&scene.project, &["add", "-A"]);
    assert_eq!(
        guard(&scene.project, None).unwrap(),
        Vec::<String>::new(),
        "the pinned commit"
    );
    scene.commit();
    // Another commit than the pinned one, a file of one's own, an undeclared submodule, a link to storage outside.
    git(
        &scene.project.join("third_party/github/up"),
        &["fetch", "--quiet", "origin", "main"],
    );
    git(
        &scene.project.join("third_party/github/up"),
        &["checkout", "--quiet", &scene.second],
    );
    write(
        &scene.project,
        &[
            ("third_party/mine.py", "x"),
            ("third_party/README.md", "fine"),
        ],
    );
    git(
        &scene.project,
        &[
            "submodule",
            "--quiet",
            "add",
            &scene.upstream.to_string_lossy(),
            "vendor/other",
        ],
    );
    fs::create_dir_all(scene.project.join("models")).unwrap();
    std::os::unix::fs::symlink(&scene.upstream, scene.project.join("models/m")).unwrap();
    std::os::unix::fs::symlink("../README.md", scene.project.join("models/inside")).unwrap();
    git(&scene.project, &["add", "-A"]);
    let refused = guard(&scene.project, None).unwrap().join("\n");
    for part in [
        "third_party/github/up: staged at",
        "third_party/mine.py",
        "vendor/other: a submodule",
        "models/m: a link",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert_eq!(refused.lines().count(), 4, "{refused}");
    assert_eq!(made(install_guard(&scene.project).unwrap()), 1);
    assert_eq!(made(install_guard(&scene.project).unwrap()), 0);
    // What a call left that was killed before git could run the hook.
    let hook = scene.project.join(".git/hooks/pre-commit");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(made(install_guard(&scene.project).unwrap()), 1);
    assert_eq!(
        fs::metadata(&hook).unwrap().permissions().mode() & 0o777,
        0o755
    );
    write(&scene.project, &[(".git/hooks/pre-commit", "#!/bin/sh\n")]);
    assert!(install_guard(&scene.project).is_err());
}

/// What `hf download` leaves in a local folder: the files, and beside them the commit they are of.
const HF: &str = r#"#!/bin/sh
set -e
[ "$1" = download ] && [ "$3" = --revision ] && [ "$5" = --include ] && [ "$7" = --local-dir ] || { echo "usage: $*" >&2; exit 2; }
[ "$2" = Qwen/Qwen2.5 ] || { echo "Repository Not Found for url: $2" >&2; exit 1; }
case "$4" in main) commit=COMMIT;; *) commit=$4;; esac
case "$6" in "*.py") name=modeling.py;; "LICENSE*") name=LICENSE;; *) exit 0;; esac
mkdir -p "$8/.cache/huggingface/download"
echo "$name of $commit" > "$8/$name"
printf '%s\netag\n1700000000\n' "$commit" > "$8/.cache/huggingface/download/$name.metadata"
"#;

#[test]
fn hub_snapshots_come_through_the_installed_hf() {
    let old = "a".repeat(40);
    let new = "b".repeat(40);
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().canonicalize().unwrap().join("project");
    // Found on the PATH, as the real one is: the test calls itself with it.
    if std::env::var_os("LLMPROF_TEST_HF").is_none() {
        let path = format!(
            "{}:{}",
            folder.path().join("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let done = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "hub_snapshots_come_through_the_installed_hf",
                "--nocapture",
            ])
            .env("LLMPROF_TEST_HF", folder.path())
            .env("PATH", path)
            .status()
            .unwrap();
        assert!(done.success());
        return;
    }
    let root = PathBuf::from(std::env::var_os("LLMPROF_TEST_HF").unwrap());
    let stand_in = |commit: &str| {
        write(&root, &[("bin/hf", &HF.replace("COMMIT", commit))]);
        fs::set_permissions(root.join("bin/hf"), fs::Permissions::from_mode(0o755)).unwrap();
    };
    stand_in(&old);
    write(
        &project,
        &[(
            "third_party/externals.yaml",
            "externals:\n  - path: hf/Qwen/Qwen2.5\n    kind: hub\n    repo_id: Qwen/Qwen2.5\n",
        )],
    );
    let environment = surroundings(&[]);
    let make = |action| made(plan(&project, action, &[], &environment).unwrap());
    make(ExternalAction::Snapshot);
    let snapshot = project.join("third_party/hf/Qwen/Qwen2.5");
    assert_eq!(
        fs::read_to_string(snapshot.join("modeling.py")).unwrap(),
        format!("modeling.py of {old}\n")
    );
    assert!(snapshot.join("LICENSE").is_file() && !snapshot.join(".cache").exists());
    let state = || status(&project).unwrap().remove(0);
    assert_eq!(
        (state().condition, state().found),
        (Condition::AsPinned, Some(old.clone()))
    );
    assert!(
        fs::read_to_string(project.join("third_party/externals.yaml"))
            .unwrap()
            .contains(&old)
    );
    assert_eq!(make(ExternalAction::Snapshot), 0);
    assert_eq!(make(ExternalAction::Init), 0);
    stand_in(&new);
    assert_eq!(make(ExternalAction::Init), 0, "pinned is pinned");
    make(ExternalAction::Update);
    assert_eq!(state().found, Some(new));
    fs::write(snapshot.join("modeling.py"), "edited").unwrap();
    assert_eq!(
        (state().condition, state().edits),
        (Condition::Edited, vec!["modeling.py".to_owned()])
    );
    assert!(plan(&project, ExternalAction::Update, &[], &environment).is_err());
    let source = source_revision(&project, Path::new("third_party/hf/Qwen/Qwen2.5"));
    assert_eq!(source.edits, ["modeling.py"]);

    write(
        &project,
        &[(
            "third_party/externals.yaml",
            "externals:\n  - {path: hf/x, kind: hub, repo_id: no/such}\n",
        )],
    );
    let error = plan(&project, ExternalAction::Init, &[], &environment)
        .unwrap()
        .apply(|_| {})
        .unwrap_err()
        .to_string();
    assert!(error.contains("Repository Not Found"), "{error}");
    write(
        &project,
        &[(
            "third_party/externals.yaml",
            "externals:\n  - {path: hf/x, kind: hub, repo_id: Qwen/Qwen2.5, include: ['*.c']}\n",
        )],
    );
    let error = plan(&project, ExternalAction::Init, &[], &environment)
        .unwrap()
        .apply(|_| {})
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("commits") || error.contains("no file"),
        "{error}"
    );
    assert!(!project.join("third_party/hf/x").exists());
}
