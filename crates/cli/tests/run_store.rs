//! What is left behind when a run ends badly: killed, interrupted, out of disk, in a directory it may not write.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

const LLMPROF: &str = env!("CARGO_BIN_EXE_llmprof");
/// Far beyond what anything here takes, so that a hang fails instead of hanging.
const PATIENCE: Duration = Duration::from_mins(2);

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(LLMPROF);
    command.current_dir(folder).args(args).env("NO_COLOR", "1");
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

/// Starts `llmprof run` on a shell script, in `out`.
fn start(folder: &Path, script: &str) -> Child {
    fs::write(folder.join("script.sh"), script).unwrap();
    command(
        folder,
        &[
            "run",
            "runtime=command",
            "runtime.argv=[sh,script.sh]",
            "hydra.run.dir=out",
        ],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        sleep(Duration::from_millis(10));
    }
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

fn manifest(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap()
}

/// The process ids that a script wrote, one per line; empty until it has.
fn pids(file: &Path, count: usize) -> Option<Vec<u32>> {
    let text = fs::read_to_string(file).ok()?;
    let pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    (text.ends_with('\n') && pids.len() == count).then_some(pids)
}

fn alive(pid: u32) -> bool {
    // A zombie that nobody has collected yet is dead for our purposes.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .starts_with('Z')
    })
}

#[test]
fn kill_9_leaves_a_run_that_is_shown_as_dead() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path(), "echo $$ > pids; sleep 300");
    let mut sleeper = Vec::new();
    wait_for("the command's start", || {
        sleeper = pids(&folder.path().join("pids"), 1).unwrap_or_default();
        !sleeper.is_empty()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    signal("-9", sleeper[0]);

    let out = folder.path().join("out");
    assert_eq!(manifest(&out)["status"], "running");
    assert!(
        out.join(".hydra/config.yaml").is_file(),
        "what was written before is kept"
    );
    let listed = run(folder.path(), &["runs", "list", "--root", "out", "--json"]);
    let runs: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(
        (&runs[0]["liveness"], &runs[0]["status"]),
        (&Value::from("dead"), &Value::from("interrupted"))
    );
    let text = run(folder.path(), &["runs", "list", "--root", "out"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains(" is gone)"));
}

#[test]
fn ctrl_c_ends_a_group_that_ignores_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' TERM INT\n(trap '' TERM INT; while :; do sleep 1; done) &\necho $$ > pids.new\necho $! >> pids.new\nmv pids.new pids\nwhile :; do sleep 1; done\n";
    let child = start(folder.path(), script);
    let mut processes = Vec::new();
    wait_for("the command's start", || {
        processes = pids(&folder.path().join("pids"), 2).unwrap_or_default();
        !processes.is_empty()
    });
    // The second Ctrl-C kills at once; the first alone would wait out the grace period.
    signal("-INT", child.id());
    sleep(Duration::from_millis(300));
    assert!(
        processes.iter().all(|&pid| alive(pid)),
        "SIGTERM is ignored, so they live"
    );
    signal("-INT", child.id());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    let manifest = manifest(&folder.path().join("out"));
    assert_eq!(manifest["status"], "interrupted");
    assert_eq!(
        manifest["passes"].as_array().unwrap().last().unwrap()["status"],
        "interrupted"
    );
    wait_for("the end of the group", || {
        !processes.iter().any(|&pid| alive(pid))
    });
}

#[test]
fn sigterm_marks_the_run_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let child = start(
        folder.path(),
        "echo started; echo $$ > pids; exec sleep 300",
    );
    wait_for("the command's start", || {
        pids(&folder.path().join("pids"), 1).is_some()
    });
    signal("-TERM", child.id());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    let out = folder.path().join("out");
    assert_eq!(manifest(&out)["status"], "interrupted");
    assert_eq!(
        fs::read_to_string(out.join("command/command.stdout.log")).unwrap(),
        "started\n"
    );
}

#[test]
fn a_failed_command_shows_its_last_lines() {
    let folder = tempfile::tempdir().unwrap();
    let ended = start(folder.path(), "echo fine; echo broken >&2; exit 7")
        .wait_with_output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let shown = String::from_utf8_lossy(&ended.stderr);
    assert!(
        shown.contains("exit code 7") && shown.contains("broken"),
        "{shown}"
    );
    let manifest = manifest(&folder.path().join("out"));
    assert_eq!(manifest["status"], "failed");
    assert!(manifest["error"].as_str().unwrap().contains("exit code 7"));
}

/// A command runs no model that llmprof knows of, so no cost on paper stands beside its time.
#[test]
fn a_command_is_reported_with_its_time_alone() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "run",
        "runtime=command",
        "runtime.argv=[echo,hi]",
        "hardware.spec=h200",
        "hydra.run.dir=out",
    ];
    let ended = run(folder.path(), &arguments);
    assert_eq!(ended.status.code(), Some(0));
    let reported = String::from_utf8_lossy(&ended.stdout).into_owned();
    let lines: Vec<&str> = reported.lines().collect();
    let [command, end] = lines[..] else {
        panic!("{reported}");
    };
    assert!(command.starts_with("`echo` took "), "{reported}");
    assert_eq!(end, "complete: out");
    let written = folder.path().join("out/command/command.stdout.log");
    assert_eq!(fs::read_to_string(written).unwrap(), "hi\n");
}

#[test]
fn a_time_limit_ends_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(
        folder.path(),
        &[
            "run",
            "runtime=command",
            "runtime.argv=[sleep,300]",
            "runtime.timeout_s=0.2",
            "hydra.run.dir=out",
        ],
    );
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("runtime.timeout_s=0.2"));
}

#[test]
fn a_run_has_the_option_of_other_commands_for_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let short = ["run", "runtime=none", "model=gpt2", "-o", "it's here"];
    assert!(run(folder.path(), &short).status.success());
    assert!(folder.path().join("it's here/run.json").is_file());
    let twice = ["run", "runtime=none", "-o", "a", "hydra.run.dir=b"];
    let said = crate::common::refused(folder.path(), &twice);
    assert!(said.contains("-o and hydra.run.dir=b both name"), "{said}");
    fs::write(folder.path().join("README.md"), "# Notes").unwrap();
    let said = crate::common::refused(folder.path(), &["model", "--config", "README.md"]);
    assert!(
        said.contains("README.md") && said.contains("config.json of its Hugging Face"),
        "{said}"
    );
}

/// An import into a folder of notes once replaced the user's own `report.md`.
#[test]
fn folders_of_others_are_refused_and_name_another() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let trace = root.join("faults/gc_each_step.json.gz");
    let counters = root.join("h200/ncu/decode_12.ncu-rep.gz");
    let (trace, counters) = (trace.to_str().unwrap(), counters.to_str().unwrap());
    let notes = folder.path().join("notes");
    fs::create_dir(&notes).unwrap();
    for file in ["report.md", "report.html"] {
        fs::write(notes.join(file), "mine").unwrap();
    }
    let url = "http://127.0.0.1:9";
    let refusals: [(&[&str], &str); 7] = [
        (&["import", trace, "-o", "notes"], "-o "),
        (&["bench", url, "-o", "notes"], "-o "),
        (&["kernels", "analyze", counters, "-o", "notes"], "-o "),
        (&["model", "qwen2_5_0_5b", "-o", "notes"], "-o "),
        (
            &["run", "runtime=none", "hydra.run.dir=notes"],
            "hydra.run.dir=",
        ),
        (
            &[
                "run",
                "-m",
                "runtime=none",
                "runtime.batch_size=1,2",
                "hydra.sweep.dir=notes",
            ],
            "hydra.sweep.dir=",
        ),
        (
            &[
                "compare",
                "--run",
                "runtime=none",
                "--run",
                "runtime=none",
                "-o",
                "notes",
            ],
            "-o ",
        ),
    ];
    for (words, other) in refusals {
        let said = crate::common::refused(folder.path(), words);
        assert!(said.contains("notes is not empty"), "{words:?}: {said}");
        let is_named = said.contains(other) && said.ends_with("notes/llmprof");
        assert!(is_named, "{words:?}: {said}");
    }
    assert_eq!(fs::read_dir(&notes).unwrap().count(), 2);
    assert_eq!(fs::read_to_string(notes.join("report.md")).unwrap(), "mine");
    // Its own reports are written again.
    let again = ["kernels", "analyze", counters, "-o", "own"];
    for _ in 0..2 {
        crate::common::works(folder.path(), &again);
    }
}

#[test]
fn two_processes_cannot_share_a_run_directory() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = start(folder.path(), "echo $$ > pids; exec sleep 300");
    wait_for("the command's start", || {
        pids(&folder.path().join("pids"), 1).is_some()
    });
    let second = run(folder.path(), &["run", "runtime=none", "hydra.run.dir=out"]);
    assert_eq!(second.status.code(), Some(2));
    let shown = String::from_utf8_lossy(&second.stderr);
    assert!(
        shown.contains("in use") && shown.contains(&first.id().to_string()),
        "{shown}"
    );
    signal("-TERM", first.id());
    first.wait().unwrap();
    let third = run(folder.path(), &["run", "runtime=none", "hydra.run.dir=out"]);
    assert!(String::from_utf8_lossy(&third.stderr).contains("already holds a run"));
}

/// A file system of its own, unmounted when dropped; `None` where mounting is not allowed.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(at: PathBuf, size: &str) -> Self {
        fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&at)
            .status();
        assert!(mounted.unwrap().success());
        Self(at)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
#[ignore = "live: mounts a disk"]
fn a_full_disk_is_named_and_what_was_written_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Tmpfs::mount(folder.path().join("disk"), "256k");
    let script = "head -c 1000000 /dev/zero > disk/filler; exit 0";
    fs::write(folder.path().join("script.sh"), script).unwrap();
    let ended = run(
        folder.path(),
        &[
            "run",
            "runtime=command",
            "runtime.argv=[sh,script.sh]",
            "hydra.run.dir=disk/out",
            "pipeline.static_analysis.enable=false",
        ],
    );
    let shown = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{shown}");
    assert!(
        shown.contains("No space left on device") && shown.contains("kept"),
        "{shown}"
    );
    let out = disk.0.join("out");
    assert_eq!(
        manifest(&out)["status"],
        "running",
        "the last state that could be written"
    );
    assert!(out.join("env.json").is_file());
    let left: Vec<_> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_read_only_directory_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    // A file where a folder is needed cannot be written by anyone, not even by root.
    fs::write(folder.path().join("taken"), "").unwrap();
    let ended = run(
        folder.path(),
        &["run", "runtime=none", "hydra.run.dir=taken/out"],
    );
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cannot create"));
}

#[test]
#[ignore = "live: mounts a disk"]
fn a_read_only_disk_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Tmpfs::mount(folder.path().join("disk"), "64k");
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&disk.0)
        .status()
        .unwrap();
    assert!(remounted.success());
    let ended = run(
        folder.path(),
        &["run", "runtime=none", "hydra.run.dir=disk/out"],
    );
    assert_eq!(ended.status.code(), Some(2));
    let shown = String::from_utf8_lossy(&ended.stderr);
    assert!(
        shown.contains("Read-only file system") && shown.contains("hydra.run.dir"),
        "{shown}"
    );
}

/// `explain` and `export` said "holds no profile" of an import that was killed, though a good run was there.
#[test]
fn commands_without_a_run_pass_over_those_that_hold_no_profile() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/faults/control.json.gz");
    let imported = run(at, &["import", trace.to_str().unwrap(), "-o", "runs/good"]);
    assert!(imported.status.success(), "{imported:?}");
    let mut left = manifest(&at.join("runs/good"));
    left["created"] = "2999-01-01T00:00:00Z".into();
    for (name, status) in [("failed", "failed"), ("killed", "running")] {
        left["status"] = status.into();
        fs::create_dir(at.join("runs").join(name)).unwrap();
        fs::write(
            at.join("runs").join(name).join("run.json"),
            left.to_string(),
        )
        .unwrap();
    }
    let explained = run(at, &["explain"]);
    let answer: Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!(answer["run"], "runs/good", "{explained:?}");
    let said = String::from_utf8_lossy(&explained.stderr);
    assert!(
        said.contains("skipped runs/killed (interrupted): it holds no profile"),
        "{said}"
    );
    assert!(said.contains("skipped runs/failed (failed)"), "{said}");
    fs::remove_dir_all(at.join("runs/good")).unwrap();
    let refused = run(at, &["explain"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("no run with a profile below runs"), "{said}");
}
