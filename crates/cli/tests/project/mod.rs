//! A project from nothing to a report: its README's commands, its tasks, and every command killed on the way.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
mod consent;
#[path = "../../../assets/tests/common/git.rs"]
mod git;
mod groups;
mod killed;
mod own_worker;
mod scene;
mod sketches;

use std::{fs, process::Command};

use common::{json, works};
use git::git;
use scene::{Scene, shell, write};

#[test]
fn a_new_project_runs_at_once() {
    let scene = Scene::new();
    let said = scene.works(&["init", "fresh", "--dry-run"]);
    assert!(
        said.contains("conf/config.yaml") && !scene.root.join("fresh").exists(),
        "{said}"
    );
    scene.works(&["init", "fresh"]);
    assert_eq!(scene.works(&["init", "fresh", "--yes"]), "nothing to do\n");
    let project = scene.root.join("fresh");
    let said = works(&project, &["run", "hardware.spec=xeon_8480"]);
    assert!(said.contains("report:"), "{said}");
    let run = works(&project, &["runs", "path"]);
    assert!(project.join(run.trim()).join("report.html").is_file());
    // From any folder inside of the project.
    works(&project.join("conf"), &["bootstrap", "all", "--check"]);
}

#[test]
fn every_command_of_the_readme_works_from_nothing_to_a_report() {
    let scene = Scene::new();
    let project = scene.project();
    let readme = fs::read_to_string(project.join("README.md")).unwrap();
    let mut commands = 0;
    for block in readme.split("```bash\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            shell(&project, &scene.env(), line);
            commands += 1;
        }
    }
    assert!(commands >= 10, "{commands}");

    // A model of the cache, a variant and an external in one run.
    let said = scene.in_project(&[
        "run",
        "model=local",
        "model.path=models/tiny-hub",
        "model.dtype=f32",
        "model.impl_src={upstream_dir: third_party/github/up, notes: pinned}",
        "dataset=texts",
        "dataset.variant=subset-2",
        "workload.prompt_tokens=8",
        "infer.max_new_tokens=4",
        "runtime.repeats=1",
        "hardware.spec=xeon_8480",
    ]);
    assert!(said.contains("report:"), "{said}");
    let run = project.join(works(&project, &["runs", "path"]).trim());
    assert!(
        fs::read_to_string(run.join("report.md"))
            .unwrap()
            .contains("llama")
    );
    let inputs = fs::read_to_string(run.join("inputs.yaml")).unwrap();
    assert!(
        inputs.contains("count: 2") && inputs.contains("subset-2/data/samples.jsonl"),
        "{inputs}"
    );
    let sources = json(&run.join("sources.json"));
    assert_eq!(sources[0]["key"], "model.impl_src.upstream_dir");
    assert_eq!(
        sources[0]["source"]["revision"],
        git(&scene.root.join("upstream"), &["rev-parse", "HEAD"])
    );

    // What links to storage outside is not in the project's history.
    git(&project, &["add", "-A"]);
    let staged = git(&project, &["ls-files"]);
    for absent in ["source-data", "models/tiny-hub", "samples.jsonl", "runs/"] {
        assert!(!staged.contains(absent), "{absent}: {staged}");
    }
    for present in [
        "datasets/texts/bootstrap.yaml",
        "datasets/texts/subset-2/metadata.yaml",
        "third_party/github/up",
        "models/bootstrap.yaml",
    ] {
        assert!(staged.contains(present), "{present}: {staged}");
    }
}

#[test]
fn a_check_fails_where_something_is_not_as_declared() {
    let scene = Scene::new();
    let project = scene.project();
    let check = || {
        scene
            .command(&["bootstrap", "--check"])
            .output()
            .unwrap()
            .status
            .code()
    };
    assert_eq!(check(), Some(1), "nothing is linked yet");
    scene.in_project(&["bootstrap", "--yes"]);
    assert_eq!(check(), Some(0));
    fs::remove_file(project.join("models/tiny-hub")).unwrap();
    fs::create_dir(project.join("models/tiny-hub")).unwrap();
    assert_eq!(check(), Some(1), "a folder is in the way");
    assert!(project.join("models/tiny-hub").is_dir());
    let externals = || {
        scene
            .command(&["externals", "status", "--check"])
            .output()
            .unwrap()
            .status
            .code()
    };
    assert_eq!(externals(), Some(1));
    scene.in_project(&["externals", "init", "--yes"]);
    assert_eq!(externals(), Some(0));
}

/// The hook as git calls it: also where a commit takes files that were never staged, and in a project that is a folder of a repository.
#[test]
fn commits_that_edit_externals_are_refused() {
    let scene = Scene::new();
    let upstream = scene.root.join("upstream");
    for prefix in ["", "it's profiling/"] {
        let top = scene.root.join(format!("repository{}", prefix.len()));
        let project = top.join(prefix);
        fs::create_dir_all(&project).unwrap();
        git(&top, &["init", "--quiet", "-b", "main"]);
        let call = |args: &[&str]| {
            let output = scene.command_in(&project, args).output().unwrap();
            scene::told(&output, &format!("{args:?}"))
        };
        call(&["init", ".", "--force", "--yes"]);
        let external = format!(
            "externals:\n  - {{path: up, kind: subtree, url: {}}}\n",
            upstream.display()
        );
        write(&project, &[("third_party/externals.yaml", &external)]);
        git(&top, &["add", "-A"]);
        git(&top, &["commit", "--quiet", "-m", "project"]);
        call(&["externals", "init", "--yes"]);
        call(&["externals", "guard", "--install", "--yes"]);
        let commit = |words: &[&str]| {
            let mut command = Command::new("git");
            command.current_dir(&top).envs(scene.env()).arg("commit");
            let output = command
                .args(["--quiet", "-m", "x"])
                .args(words)
                .output()
                .unwrap();
            let said = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8(said).unwrap())
        };
        // The pin that `init` wrote.
        let (made, said) = commit(&["-a"]);
        assert!(made, "{prefix}: {said}");
        let file = format!("{prefix}third_party/up/src/model.py");
        write(&top, &[(&file, "x = 3\n")]);
        for words in [&["-a"][..], &[&file]] {
            let (made, said) = commit(words);
            assert!(
                !made && said.contains("externals are for reading"),
                "{words:?}: {said}"
            );
        }
        git(&top, &["add", "-A"]);
        assert!(!commit(&[]).0, "{prefix}");
        git(&top, &["reset", "--quiet", "--hard"]);
        // Removed from the declaration, its files may go.
        git(
            &top,
            &["rm", "-r", "--quiet", &format!("{prefix}third_party/up")],
        );
        assert!(!commit(&[]).0, "{prefix}: it is still declared");
        write(
            &project,
            &[("third_party/externals.yaml", "externals: []\n")],
        );
        let (made, said) = commit(&["-a"]);
        assert!(made, "{prefix}: {said}");
    }
}

#[test]
fn every_task_of_the_manifest_is_a_command_that_works() {
    let scene = Scene::new();
    let project = scene.project();
    let bin = scene.root.join("stand-ins");
    // What other tools would do is not run here: that they are called with arguments they take is.
    write(
        &bin,
        &[
            (
                "python",
                "#!/bin/sh\ncase \"$*\" in '-m pip install --no-build-isolation flash-attn'|'-c import torch;'*) ;; *) echo \"$*\" >&2; exit 1;; esac\n",
            ),
            (
                "mkdocs",
                "#!/bin/sh\ntest -f mkdocs.yml && test -f docs/index.md || exit 1\ncase \"$*\" in build|'serve --dev-addr 127.0.0.1:8000') ;; *) exit 1;; esac\n",
            ),
            ("ruff", "#!/bin/sh\ntest \"$*\" = 'check .'\n"),
            (
                "nsys",
                "#!/bin/sh\necho 'NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0'\n",
            ),
            (
                "ncu",
                "#!/bin/sh\necho 'Version 2025.2.1.0 (build 35987062) (public-release)'\n",
            ),
        ],
    );
    shell(&bin, &[], "chmod +x python mkdocs ruff nsys ncu");
    let mut env = scene.env();
    let path = &mut env.iter_mut().find(|(name, _)| name == "PATH").unwrap().1;
    *path = format!("{}:{path}", bin.display());
    let text = fs::read_to_string(project.join("pyproject.toml")).unwrap();
    let manifest: toml::Value = toml::from_str(&text).unwrap();
    let pixi = &manifest["tool"]["pixi"];
    let tables = [
        &pixi["tasks"],
        &pixi["feature"]["gpu"]["tasks"],
        &pixi["feature"]["rtx5090"]["tasks"],
        &pixi["feature"]["docs"]["tasks"],
    ];
    let mut ran = 0;
    for (name, task) in tables
        .into_iter()
        .flat_map(|table| table.as_table().unwrap())
    {
        let Some(command) = task.as_str().or_else(|| task.get("cmd")?.as_str()) else {
            assert!(task.get("depends-on").is_some(), "{name}");
            continue;
        };
        match name.as_str() {
            // There is no GPU here: what would be started is shown.
            "nsys" | "ncu" => {
                let said = shell(&project, &env, &format!("{command} --dry-run"));
                assert!(said.contains(&format!("{name} ")), "{said}");
            }
            _ if command.contains("+preset=stage1") => {
                let said = shell(&project, &env, &format!("{command} --dry-run"));
                assert!(said.contains("pytorch/worker"), "{said}");
            }
            "stage2-profile" => {
                let said = shell(&project, &env, &format!("{command} --dry-run"));
                assert!(
                    said.contains("nsys profile") && said.contains("ncu "),
                    "{said}"
                );
            }
            // As it is, but with shorter texts.
            "direct-infer-dev20" => {
                let shorter = "workload.prompt_tokens=8 infer.max_new_tokens=2";
                shell(&project, &env, &format!("{command} {shorter}"));
            }
            _ => {
                shell(&project, &env, command);
            }
        }
        ran += 1;
    }
    assert!(ran >= 20, "{ran}");
    let predicted = fs::read_dir(project.join("runs/direct")).unwrap();
    let predicted = predicted
        .flatten()
        .flat_map(|model| fs::read_dir(model.path()).unwrap());
    let predicted: Vec<_> = predicted
        .flatten()
        .map(|run| run.path().join("predictions/predictions.jsonl"))
        .filter(|file| file.is_file())
        .collect();
    assert_eq!(
        predicted.len(),
        1,
        "direct-infer-dev20 keeps what the model said"
    );
    let samples = fs::read_to_string(&predicted[0]).unwrap();
    assert_eq!(samples.lines().count(), 20);
    // Programs of the project are the same commands.
    for script in ["./bootstrap.sh", "models/bootstrap.sh"] {
        shell(&project, &env, &format!("{script} --check"));
    }
}
