//! A sweep that is running is attached to again: in another process, and on Slurm after whoever submitted it is gone.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use super::{Scene, said, wait_for};

impl Scene {
    /// Starts a command whose errors go to a file.
    fn start(&self, args: &[&str], errors: &str) -> (Child, PathBuf) {
        let path = std::env::var("PATH").unwrap();
        let file = self.path().join(errors);
        let child = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(self.path())
            .env("NO_COLOR", "1")
            .env(
                "PATH",
                format!("{}:{path}", self.path().join("bin").display()),
            )
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&file).unwrap())
            .spawn()
            .unwrap();
        (child, file)
    }
}

/// What a started command printed; it must have succeeded.
fn finished((child, errors): (Child, PathBuf)) -> (String, String) {
    let output = child.wait_with_output().unwrap();
    let errors = fs::read_to_string(errors).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    (String::from_utf8(output.stdout).unwrap(), errors)
}

#[test]
fn a_sweep_of_another_process_is_followed_to_its_end() {
    let scene = Scene::new();
    fs::write(
        scene.path().join("wait.sh"),
        "while [ ! -e go ]; do sleep 0.05; done\n",
    )
    .unwrap();
    let words = [
        "run",
        "-m",
        "hydra.sweep.dir=sweep",
        "runtime=command",
        "runtime.argv=[sh,wait.sh]",
        "experiment=a,b",
    ];
    let sweep = scene.start(&words, "sweep.err");
    wait_for(|| scene.path().join("sweep/0/run.json").exists());
    let refused = scene.llmprof(&words);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let hint = "--attach";
    assert!(said(&refused).contains(hint), "{}", said(&refused));

    let attached = scene.start(&["run", "--attach", "sweep"], "attached.err");
    let mut resumed_words = words.to_vec();
    resumed_words.push("--resume");
    let resumed = scene.start(&resumed_words, "resumed.err");
    for follower in [&attached.1, &resumed.1] {
        wait_for(|| {
            fs::read_to_string(follower)
                .unwrap()
                .contains("job 0: running")
        });
    }
    fs::write(scene.path().join("go"), "").unwrap();
    let (table, _) = finished(sweep);
    for follower in [attached, resumed] {
        let (followed, errors) = finished(follower);
        assert_eq!(followed, table);
        assert!(errors.contains("job 1: complete"), "{errors}");
    }
    assert!(!scene.path().join("sweep/0.attempt1").exists());

    let after = scene.llmprof(&["run", "--attach", "sweep"]);
    assert_eq!(String::from_utf8(after.stdout).unwrap(), table);
    let nothing = scene.llmprof(&["run", "--attach", "bin"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(said(&nothing).contains("not a sweep"), "{}", said(&nothing));
}

#[test]
fn an_array_is_followed_after_its_submitter_is_gone() {
    let scene = Scene::new();
    scene.recorded_slurm();
    let output = scene.sweep("submitit_slurm", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let table = String::from_utf8(output.stdout).unwrap();
    // As if the submitter had been killed while the array was running.
    let queue = scene.path().join("queue");
    fs::write(&queue, "77_0 COMPLETED\n77_1 RUNNING\n").unwrap();
    fs::remove_file(scene.path().join("sweep/comparison.csv")).unwrap();
    fs::remove_file(scene.path().join("script")).unwrap();
    let words = "run -m hydra.sweep.dir=sweep hydra/launcher=submitit_slurm workload.prompt_tokens=4,8 --resume ";
    let words = words.to_owned() + super::MODEL;
    let resumed: Vec<&str> = words.split_whitespace().collect();
    for (args, errors) in [
        (&["run", "--attach", "sweep"][..], "attached.err"),
        (&resumed, "resumed.err"),
    ] {
        fs::write(&queue, "77_0 COMPLETED\n77_1 RUNNING\n").unwrap();
        let follower = scene.start(args, errors);
        wait_for(|| {
            fs::read_to_string(&follower.1)
                .unwrap()
                .contains("job 1: running")
        });
        fs::write(&queue, "77_0 COMPLETED\n77_1 COMPLETED\n").unwrap();
        let (followed, _) = finished(follower);
        assert_eq!(followed, table, "{args:?}");
        assert_eq!(scene.csv().matches(",complete,").count(), 2);
    }
    assert!(
        !scene.path().join("script").exists(),
        "nothing was submitted again"
    );
}

/// Inside `scripts/with-slurm`: a real controller and node.
#[test]
#[ignore = "needs Slurm: scripts/with-slurm cargo test -p llmprof launcher:: -- --ignored"]
fn slurm_jobs_are_followed_after_their_submitter_was_killed() {
    let scene = Scene::new();
    fs::write(
        scene.path().join("wait.sh"),
        "while [ ! -e go ]; do sleep 0.05; done\n",
    )
    .unwrap();
    let words = [
        "run",
        "-m",
        "hydra.sweep.dir=sweep",
        "hydra/launcher=submitit_slurm",
        "hydra.launcher.timeout_min=5",
        "runtime=command",
        "runtime.argv=[sh,wait.sh]",
        "experiment=a,b",
    ];
    let (mut submitter, errors) = scene.start(&words, "sweep.err");
    wait_for(|| {
        let said = fs::read_to_string(&errors).unwrap();
        said.contains("job 0: running") && said.contains("job 1: running")
    });
    submitter.kill().unwrap();
    submitter.wait().unwrap();
    let attached = scene.start(&["run", "--attach", "sweep"], "attached.err");
    wait_for(|| {
        fs::read_to_string(&attached.1)
            .unwrap()
            .contains("job 1: running")
    });
    fs::write(scene.path().join("go"), "").unwrap();
    let (table, errors) = finished(attached);
    assert_eq!(table.matches("complete").count(), 2, "{table}");
    assert!(errors.contains("job 1: completed"), "{errors}");
}
