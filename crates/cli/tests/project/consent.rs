//! Every command that changes a project says what it would do, does it only where that is agreed to, and does it once.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use super::{
    git::git,
    killed::contents,
    scene::{Scene, told, write},
};

/// A project with something to do for each of the commands below.
fn prepared(scene: &Scene) {
    let project = scene.project();
    let upstream = scene.root.join("upstream");
    write(
        &project,
        &[(
            "third_party/externals.yaml",
            &format!(
                "externals:\n  - {{path: up, kind: submodule, url: {}, branch: main}}\n  - {{path: code, kind: hub, repo_id: org/code}}\n",
                upstream.display()
            ),
        )],
    );
}

/// The lines of a plan: those that are indented.
fn plan(said: &str) -> Vec<String> {
    let lines = said.lines().filter(|line| line.starts_with("  "));
    lines.map(str::to_owned).collect()
}

#[test]
fn plans_are_printed_first_and_made_only_where_agreed_to() {
    let scene = Scene::new();
    prepared(&scene);
    write(&scene.root, &[("another/kept.txt", "here before\n")]);
    let project = scene.root.join("project");
    let source = scene.root.join("data/texts").to_string_lossy().into_owned();
    let commands: &[&[&str]] = &[
        &["init", "../another", "--force"],
        &["bootstrap"],
        &["bootstrap", "models"],
        &["dataset", "add", "more", "--source", &source],
        &["dataset", "variant", "texts", "--samples", "3"],
        &["dataset", "variant", "texts", "--split", "a=0.5,b=0.5"],
        &[
            "dataset",
            "variant",
            "texts",
            "dev",
            "--samples",
            "1",
            "--list",
        ],
        &["externals", "init", "up"],
        &["externals", "snapshot"],
        &["externals", "update", "up"],
        &["externals", "guard", "--install"],
    ];
    for &command in commands {
        if command == ["bootstrap", "models"] {
            fs::remove_file(project.join("models/tiny-hub")).unwrap();
        }
        if command.get(1) == Some(&"update") {
            write(&scene.root, &[("upstream/src/model.py", "x = 2\n")]);
            git(
                &scene.root.join("upstream"),
                &["commit", "--quiet", "-am", "two"],
            );
        }
        let call = |more: &[&str]| scene.command(&[command, more].concat()).output().unwrap();
        // Git keeps the hook where `contents` does not look.
        let state = || {
            let hook = project.join(".git/hooks/pre-commit").exists();
            (contents(&scene.root), hook)
        };
        let before = state();
        let shown = told(&call(&["--dry-run"]), &format!("{command:?}"));
        let planned = plan(&shown);
        assert!(!planned.is_empty(), "{command:?}: {shown}");
        assert!(
            shown.ends_with("nothing was changed (--dry-run)\n"),
            "{shown}"
        );
        assert_eq!(state(), before, "{command:?} --dry-run");

        let asked = call(&[]);
        assert_eq!(asked.status.code(), Some(2), "{command:?}");
        assert_eq!(plan(&String::from_utf8_lossy(&asked.stdout)), planned);
        assert!(String::from_utf8_lossy(&asked.stderr).contains("--yes"));
        assert_eq!(state(), before, "{command:?} without consent");

        let said = told(&call(&["--yes"]), &format!("{command:?} --yes"));
        let (first, last) = said.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(plan(first), planned, "{command:?}");
        assert!(last.starts_with("done: "), "{command:?}: {said}");
        assert_ne!(state(), before, "{command:?} --yes");

        let after = state();
        for more in [&["--yes"][..], &["--dry-run"], &[]] {
            let said = told(&call(more), &format!("{command:?} {more:?} again"));
            assert_eq!(said, "nothing to do\n", "{command:?} {more:?}");
        }
        assert_eq!(state(), after, "{command:?} again");
    }
}

/// A script cannot answer, and a folder that does not exist has nothing to lose.
#[test]
fn a_new_folder_is_made_without_asking_in_a_script() {
    let scene = Scene::new();
    scene.works(&["init", "new", "--dry-run"]);
    assert!(!scene.root.join("new").exists());
    let said = scene.works(&["init", "new"]);
    assert!(said.contains("done: "), "{said}");
    let config = scene.root.join("new/conf/config.yaml");
    assert!(config.exists());
    // What is there already is changed only where that is agreed to.
    fs::remove_file(&config).unwrap();
    let mut asked = scene.command_in(&scene.root, &["init", "new", "--force"]);
    let asked = asked.output().unwrap();
    assert_eq!(asked.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&asked.stderr).contains("--yes"));
}

/// Two dozen lines of what is created came before the reason why nothing can be.
#[test]
fn a_folder_that_cannot_be_written_is_refused_before_the_plan() {
    let scene = Scene::new();
    for words in [&["init", "/proc/new"][..], &["init", "/proc/new", "--yes"]] {
        let refused = scene.command_in(&scene.root, words).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        assert!(refused.stdout.is_empty(), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("cannot write to /proc/new"), "{said}");
    }
    // A check leaves nothing behind.
    let before = fs::read_dir(&scene.root).unwrap().count();
    scene.works(&["init", "new"]);
    assert_eq!(fs::read_dir(&scene.root).unwrap().count(), before + 1);
}

/// On a terminal a command asks, and only `y` or `yes` is an answer that changes something.
#[test]
fn a_terminal_is_asked() {
    let scene = Scene::new();
    let project = scene.project();
    let link = project.join("models/tiny-hub");
    for (answer, agreed) in [("n\n", false), ("\n", false), ("y\n", true)] {
        let program = env!("CARGO_BIN_EXE_llmprof");
        // `script` gives the program a terminal.
        let mut child = Command::new("script")
            .args([
                "-qefc",
                &format!("exec {program} bootstrap models"),
                "/dev/null",
            ])
            .current_dir(&project)
            .envs(scene.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut typed = child.stdin.take().unwrap();
        typed.write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(typed);
        let said = told(&output, answer);
        let (plan, question) = (said.find("link "), said.find("Make these changes?"));
        assert!(plan.is_some() && plan < question, "{said}");
        assert_eq!(link.exists(), agreed, "{answer:?}: {said}");
        assert_eq!(said.contains("nothing was changed"), !agreed, "{said}");
    }
}
