//! `hardware.power_limit_w` with a stand-in for NVIDIA's library that keeps limits in a file: they last as long as the run, however it
//! ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::nvml::stand_in;
use serde_json::Value;

/// Far beyond what anything here takes, so that a hang fails instead of hanging.
const PATIENCE: Duration = Duration::from_mins(2);

struct Place {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl Place {
    fn new(switches: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = stand_in(folder.path(), switches);
        Self { folder, library }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn run(&self, script: &str, more: &[&str]) -> Command {
        fs::write(self.path().join("script.sh"), script).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_llmprof"));
        command
            .current_dir(self.path())
            .env("NO_COLOR", "1")
            .env("LLMPROF_NVML", &self.library)
            .args(["run", "runtime=command", "runtime.argv=[sh,script.sh]"])
            .args(["hydra.run.dir=out", "device=cuda:1"])
            .args(["hardware.power_limit_w=300", "hardware.spec=h200"])
            .args(more);
        command
    }

    /// What was set, in order: `1 300000`.
    fn set(&self) -> Vec<String> {
        let file = self.library.with_extension("1.limits");
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn wait_for(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.set().len() < count {
            assert!(Instant::now() < deadline, "only {:?} was set", self.set());
            sleep(Duration::from_millis(10));
        }
    }

    fn issues(&self) -> Vec<String> {
        let manifest: Value =
            serde_json::from_slice(&fs::read(self.path().join("out/run.json")).unwrap()).unwrap();
        let issues = manifest["issues"].as_array().unwrap();
        issues
            .iter()
            .map(|issue| issue["code"].as_str().unwrap().to_owned())
            .filter(|code| code.starts_with("power"))
            .collect()
    }
}

#[test]
fn a_limit_lasts_as_long_as_the_run() {
    let place = Place::new(&["SAME_GPUS"]);
    let script = "cp libnvidia-ml.so.1.limits during";
    let output = place.run(script, &[]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let during = fs::read_to_string(place.path().join("during")).unwrap();
    assert_eq!(during, "1 300000\n");
    assert_eq!(place.set(), ["1 300000", "1 500000"]);
    assert_eq!(place.issues(), ["power.limit_set"]);
    // The description of the machine has the limit under which the run was.
    let host: Value =
        serde_json::from_slice(&fs::read(place.path().join("out/env.json")).unwrap()).unwrap();
    let gpus = host["nvidia"]["gpus"].as_array().unwrap();
    assert_eq!(gpus[1]["power_limit_w"], 300.0);
    assert_eq!(gpus[0]["power_limit_w"], 500.0);
}

#[test]
fn ctrl_c_and_kill_9_restore_the_limit() {
    for (signal, code) in [("-INT", Some(130)), ("-9", None)] {
        let place = Place::new(&["SAME_GPUS"]);
        let mut child = place
            .run("sleep 300", &[])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        place.wait_for(1);
        let sent = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), code, "{signal}");
        place.wait_for(2);
        assert_eq!(place.set(), ["1 300000", "1 500000"], "{signal}");
    }
}

#[test]
fn a_limit_that_is_not_permitted_is_said_and_the_run_goes_on() {
    let place = Place::new(&["SAME_GPUS", "NO_PERMISSION"]);
    let output = place.run("echo ran > ran", &[]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(place.path().join("ran").is_file());
    assert_eq!(place.issues(), ["power.limit_refused"]);
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(
        words.join(" ").contains("power limit of 300 W was not set"),
        "{said}"
    );
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let place = Place::new(&["SAME_GPUS"]);
    for (change, word) in [
        ("hardware.power_limit_w=0", "above 0"),
        ("hardware.power_limit_w=1e9", "above 0"),
        ("device=cpu", "CUDA device"),
        ("runtime.type=none", "nothing runs"),
    ] {
        let output = place.run("true", &[change]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{change}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let words: Vec<&str> = said
            .split_whitespace()
            .filter(|word| *word != "│")
            .collect();
        assert!(words.join(" ").contains(word), "{change}: {said}");
    }
    assert!(place.set().is_empty());
}
