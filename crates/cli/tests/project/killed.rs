//! kill -9 in the middle of every command that changes a project, then the same command again: the end is the one it would have
//! had.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use super::git::git;
use super::scene::{Scene, shell, told, write};

/// Kills per command, spread over the time that it takes.
const KILLS: u32 = 6;

/// Every file and link below a folder with its content, but git's own, which differ by times.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut contents = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_owned();
            if path.is_symlink() {
                contents.insert(
                    name,
                    fs::read_link(&path)
                        .unwrap()
                        .to_string_lossy()
                        .into_owned()
                        .into(),
                );
            } else if path.file_name().is_some_and(|name| name == ".git") {
                contents.insert(name, Vec::new());
            } else if path.is_dir() {
                contents.insert(name, Vec::new());
                folders.push(path);
            } else {
                contents.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    contents
}

/// Runs a command in copies of a project that `before` prepared: once in peace, then killed at several moments and called again.
fn survives(scene: &Scene, before: &Path, args: &[&str]) {
    survives_and_says(scene, before, args, "nothing to do");
}

/// The same, for a command that says `at_last` once all is done.
fn survives_and_says(scene: &Scene, before: &Path, args: &[&str], at_last: &str) {
    let project = scene.root.join("project");
    let begin = || {
        if project.exists() {
            fs::remove_dir_all(&project).unwrap();
        }
        if before.exists() {
            shell(
                &scene.root,
                &[],
                &format!("cp -a '{}' '{}'", before.display(), project.display()),
            );
        }
    };
    let cwd = || {
        if args[0] == "init" {
            scene.root.clone()
        } else {
            project.clone()
        }
    };
    let call = |folder: &Path| scene.command_in(folder, args).output().unwrap();
    begin();
    let started = Instant::now();
    told(&call(&cwd()), &format!("{args:?}"));
    let time = started.elapsed();
    let expected = contents(&project);
    for number in 0..KILLS {
        begin();
        let mut child = scene
            .command_in(&cwd(), args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(time * number / KILLS + Duration::from_millis(1));
        child.kill().unwrap();
        child.wait().unwrap();
        told(&call(&cwd()), &format!("{args:?} after kill {number}"));
        let actual = contents(&project);
        let differ: Vec<_> = expected
            .keys()
            .chain(actual.keys())
            .filter(|name| expected.get(*name) != actual.get(*name))
            .collect();
        assert!(
            differ.is_empty(),
            "{args:?} after kill {number} of {time:?}: {differ:?}"
        );
        let again = told(&call(&cwd()), &format!("{args:?} once more"));
        assert!(again.contains(at_last), "{args:?}: {again}");
        assert_eq!(contents(&project), expected, "{args:?} once more");
    }
}

/// A project as `prepare` leaves it, put aside.
fn aside(scene: &Scene, name: &str) -> PathBuf {
    let kept = scene.root.join(name);
    shell(
        &scene.root,
        &[],
        &format!("rm -rf '{0}' && cp -a project '{0}'", kept.display()),
    );
    kept
}

#[test]
fn init_goes_on() {
    let scene = Scene::new();
    survives(
        &scene,
        &scene.root.join("none"),
        &["init", "project", "--yes"],
    );
}

#[test]
fn bootstrap_goes_on() {
    let scene = Scene::new();
    let project = scene.project();
    // An archive beside the data, so that there is something to extract.
    let data = scene.root.join("data/packed");
    let lines: Vec<String> = (0..20_000)
        .map(|number| format!("{{\"text\": \"a b c {number}\"}}\n"))
        .collect();
    let lines = lines.concat();
    write(&data, &[("lines.jsonl", &lines)]);
    shell(
        &data,
        &[],
        "python3 -c \"import zipfile; z = zipfile.ZipFile('docs.zip', 'w', zipfile.ZIP_DEFLATED); [z.writestr(f'{i}.txt', 'a b c ' * 2000) for i in range(300)]; z.close()\"",
    );
    write(
        &project,
        &[(
            "datasets/packed/bootstrap.yaml",
            "dataset:\n  source_subdir: packed\n  zips: [docs.zip]\n",
        )],
    );
    let before = aside(&scene, "before");
    // Extraction is outside of the project, so it starts from nothing each time only where the folder is removed.
    let extracted = data.join("docs");
    survives(&scene, &before, &["bootstrap", "all", "--yes"]);
    for number in 0..KILLS {
        let _ = fs::remove_dir_all(&extracted);
        let mut child = scene
            .command(&["bootstrap", "all", "--yes"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(u64::from(5 + 15 * number)));
        child.kill().unwrap();
        child.wait().unwrap();
        scene.in_project(&["bootstrap", "all", "--yes"]);
        assert_eq!(fs::read_dir(&extracted).unwrap().count(), 300);
        assert!(!data.join(".docs.llmprof-partial").exists());
    }
}

#[test]
fn datasets_go_on() {
    let scene = Scene::new();
    let project = scene.project();
    let lines: Vec<String> = (0..5_000)
        .map(|number| format!("{{\"text\": \"a b c {number}\"}}\n"))
        .collect();
    let lines = lines.concat();
    write(&scene.root, &[("data/big/lines.jsonl", &lines)]);
    let before = aside(&scene, "before");
    let source = scene.root.join("data/big").to_string_lossy().into_owned();
    let add = ["dataset", "add", "big", "--source", &source, "--yes"];
    survives(&scene, &before, &add);
    assert!(project.join("datasets/big/README.md").is_file());
    let before = aside(&scene, "added");
    let variant = |more: &[&'static str]| -> Vec<&'static str> {
        [&["dataset", "variant", "big", "--yes"], more].concat()
    };
    survives(&scene, &before, &variant(&["--samples", "4000"]));
    let before = aside(&scene, "with-variant");
    // Another variant of the same name, several at once, and a list.
    survives(
        &scene,
        &before,
        &variant(&["--samples", "4000", "--seed", "9", "--replace"]),
    );
    survives(&scene, &before, &variant(&["--split", "a=0.6,b=0.4"]));
    survives(
        &scene,
        &before,
        &variant(&["dev", "--samples", "9", "--list"]),
    );
}

#[test]
fn externals_go_on() {
    let scene = Scene::new();
    let project = scene.project();
    let upstream = scene.root.join("upstream");
    let url = upstream.display();
    let kinds = [
        format!("  - {{path: a, kind: submodule, url: {url}, depth: 1}}\n"),
        format!("  - {{path: b, kind: sparse, url: {url}, paths: [src]}}\n"),
        format!("  - {{path: c, kind: symlink, target: {url}}}\n"),
        format!("  - {{path: d, kind: subtree, url: {url}, branch: main}}\n"),
    ];
    write(
        &project,
        &[(
            "third_party/externals.yaml",
            &format!("externals:\n{}", kinds.concat()),
        )],
    );
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "--quiet", "-m", "externals"]);
    let before = aside(&scene, "before");
    survives(&scene, &before, &["externals", "init", "--yes"]);
    write(&upstream, &[("src/model.py", "x = 2\n")]);
    git(&upstream, &["commit", "--quiet", "-am", "two"]);
    // A subtree is merged into a project without uncommitted changes.
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "--quiet", "-m", "pins"]);
    let before = aside(&scene, "initialized");
    survives(&scene, &before, &["externals", "update", "--yes"]);
    for kind in ["a", "b", "d"] {
        let file = project.join("third_party").join(kind).join("src/model.py");
        assert_eq!(fs::read_to_string(file).unwrap(), "x = 2\n", "{kind}");
    }
}

#[test]
fn hub_snapshots_go_on() {
    let scene = Scene::new();
    let project = scene.project();
    write(
        &project,
        &[(
            "third_party/externals.yaml",
            "externals:\n  - {path: hf/org/code, kind: hub, repo_id: org/code}\n",
        )],
    );
    let before = aside(&scene, "before");
    survives(&scene, &before, &["externals", "snapshot", "--yes"]);
    // The hub moves on: files of the old commit that a killed call left are not mixed with those of the new one.
    let before = aside(&scene, "downloaded");
    write(
        &scene.root,
        &[
            ("bin/commit", &"b".repeat(40)),
            ("bin/names", "modeling.py"),
        ],
    );
    write(
        &before,
        &[
            ("third_party/hf/org/.code.llmprof-partial/LICENSE", "old"),
            (
                "third_party/hf/org/.code.llmprof-partial/.cache/huggingface/download/LICENSE.metadata",
                &format!("{}\netag\n1\n", "a".repeat(40)),
            ),
        ],
    );
    // What is newest is known only by a download, so that an update is never nothing to do.
    survives_and_says(
        &scene,
        &before,
        &["externals", "update", "--yes"],
        "done: 1 change",
    );
    let snapshot = project.join("third_party/hf/org/code");
    assert!(snapshot.join("modeling.py").is_file() && !snapshot.join("LICENSE").exists());
}
