//! Killed processes and full disks: nothing that was measured is lost, no child is left behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use common::{json, llmprof, on_small_disk, works};
use serde_json::Value;

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": 2}"#;

/// Long enough for anything here; nothing is judged by it.
const PATIENCE: Duration = Duration::from_mins(1);

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.json"), TINY).unwrap();
    fs::create_dir(folder.path().join("tmp")).unwrap();
    folder
}

/// A run of the tiny model with so many plain passes.
fn run_words(repeats: u32) -> Vec<String> {
    let words = [
        "run",
        "model=local",
        "model.config=tiny.json",
        "model.dtype=f32",
        "workload.prompt_tokens=8",
        "infer.max_new_tokens=16",
        "hardware.spec=xeon_8480",
        "hydra.run.dir=run",
    ];
    let mut words: Vec<String> = words.map(str::to_owned).to_vec();
    words.push(format!("runtime.repeats={repeats}"));
    words
}

/// Starts a command whose every process can be found by a mark in its environment.
fn start(folder: &Path, mark: &str, words: &[String]) -> Child {
    // Hangups reach it even where the tests themselves run under `nohup`.
    Command::new("env")
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_llmprof")])
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env("TMPDIR", folder.join("tmp"))
        .env("LLMPROF_TEST_MARK", mark)
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The processes with a mark, but those that ended and are not collected.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("LLMPROF_TEST_MARK={mark}");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let mut variables = environment.split(|&byte| byte == 0);
            let has_mark = variables.any(|variable| variable == wanted.as_bytes());
            has_mark.then(|| entry.file_name().to_str()?.parse().ok())?
        })
        .collect()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Plain passes that the run has on disk.
fn saved_passes(run: &Path) -> usize {
    let Ok(text) = fs::read(run.join("record.json")) else {
        return 0;
    };
    let record: Value = serde_json::from_slice(&text).expect("never half written");
    let passes = record["passes"].as_array().unwrap().iter();
    passes.filter(|pass| pass["kind"] == "plain").count()
}

#[test]
fn every_pass_that_ended_survives_a_kill() {
    let folder = folder();
    let run = folder.path().join("run");
    for moment in 0..20_usize {
        let _ = fs::remove_dir_all(&run);
        let mark = format!("kill-{}-{moment}", std::process::id());
        let mut child = start(folder.path(), &mark, &run_words(6));
        let wanted = moment % 5;
        wait_until("passes", || {
            saved_passes(&run) >= wanted || child.try_wait().unwrap().is_some()
        });
        thread::sleep(Duration::from_millis(moment as u64 * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("the worker to end", || marked(&mark).is_empty());
        if run.join("run.json").exists() {
            works(folder.path(), &["runs", "show", "run"]);
        }
        let saved = saved_passes(&run);
        assert!(saved >= wanted);
        if saved > 0 {
            works(folder.path(), &["analyze", "run"]);
            let metrics = json(&run.join("metrics.json"));
            assert!(metrics["aggregates"]["tpot_ms"]["mean"].as_f64().is_some());
        }
    }
    // Sockets of the killed ones are gone with the next that ends in peace.
    let _ = fs::remove_dir_all(&run);
    let mut child = start(folder.path(), "last", &run_words(1));
    assert!(child.wait().unwrap().success());
    let left: Vec<_> = fs::read_dir(folder.path().join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_a_child_started_ends_with_us_too() {
    let folder = folder();
    let mark = format!("group-{}", std::process::id());
    let words = [
        "run",
        "model=gpt2",
        "runtime=command",
        "runtime.argv=[sh,-c,'sleep 600 & echo started > started; sleep 600']",
        "hydra.run.dir=run",
        "hardware.spec=xeon_8480",
    ];
    let mut child = start(folder.path(), &mark, &words.map(str::to_owned));
    wait_until("the command", || folder.path().join("started").exists());
    wait_until("both sleeps", || marked(&mark).len() >= 4);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("all to end", || marked(&mark).is_empty());
}

#[test]
fn a_lost_terminal_interrupts_a_run_in_order() {
    let folder = folder();
    let mark = format!("hangup-{}", std::process::id());
    let run = folder.path().join("run");
    let mut child = start(folder.path(), &mark, &run_words(500));
    wait_until("a pass", || saved_passes(&run) > 0);
    let sent = Command::new("kill")
        .args(["-HUP", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_until("the worker to end", || marked(&mark).is_empty());
    assert_eq!(json(&run.join("run.json"))["status"], "interrupted");
    assert!(run.join("report.html").is_file());
}

/// `nohup` has it ignored, and it stays so.
#[test]
fn an_ignored_hangup_stays_ignored() {
    let folder = folder();
    let run = folder.path().join("run");
    let words = run_words(30).join(" ");
    let script = format!(
        "trap '' HUP; exec {} {words}",
        env!("CARGO_BIN_EXE_llmprof")
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("a pass", || saved_passes(&run) > 0);
    let sent = Command::new("kill")
        .args(["-HUP", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
#[ignore = "live: mounts disks"]
fn a_full_disk_is_said_and_what_was_measured_is_printed_and_kept() {
    let folder = folder();
    let words = run_words(3)
        .join(" ")
        .replace("hydra.run.dir=run", "hydra.run.dir=disk/run");
    let exe = env!("CARGO_BIN_EXE_llmprof");
    let script = format!("{exe} {words}; code=$?; rm -rf kept; cp -a disk/run kept; exit $code");
    let mut failed = 0;
    let mut printed_though_failed = 0;
    let mut kept_though_failed = 0;
    // From a disk that takes hardly the first file to one that takes all.
    for moment in 1..=20_u64 {
        let bytes = moment * moment * 4096;
        let output = on_small_disk(folder.path(), bytes, &script);
        let said = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        match output.status.code() {
            Some(0) => assert!(printed.contains("report:"), "{moment}: {printed}"),
            Some(2) => {
                failed += 1;
                assert!(
                    said.contains("No space left on device") || said.contains("disk"),
                    "{moment}: {said}"
                );
                if printed.contains("TPOT") {
                    printed_though_failed += 1;
                }
                let kept = folder.path().join("kept");
                if saved_passes(&kept) > 0 {
                    kept_though_failed += 1;
                    // On a disk with room all of it can be used.
                    works(folder.path(), &["analyze", "kept"]);
                }
            }
            other => panic!("{moment}: {other:?} {said}"),
        }
    }
    assert!(failed > 3, "{failed}");
    assert!(printed_though_failed > 0 && kept_though_failed > 0);
}

/// A trace of PyTorch's with so many kernels.
fn kineto(kernels: u32) -> String {
    let mut text = r#"{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "traceEvents": ["#.to_owned();
    for number in 0..kernels {
        let comma = if number > 0 { "," } else { "" };
        text += &format!(
            "{comma}\n{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm{}\", \"pid\": 0, \"tid\": 7, \"ts\": {number}0.000, \
             \"dur\": 5.000, \"args\": {{\"correlation\": {number}, \"device\": 0, \"stream\": 7}}}}",
            number % 100
        );
    }
    text + "]}"
}

/// Starts a command, cuts `file` when it has mapped it, and gives what it says.
fn cut_while_mapped(folder: &Path, words: &[&str], file: &Path) -> std::process::Output {
    let child = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let maps = format!("/proc/{}/maps", child.id());
    let name = file.file_name().unwrap().to_str().unwrap();
    let signal = |name: &str| {
        let sent = Command::new("kill")
            .args([name, &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    };
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_to_string(&maps).unwrap_or_default().contains(name) {
        assert!(Instant::now() < deadline, "{words:?} does not map it");
    }
    signal("-STOP");
    let opened = fs::File::options().write(true).open(file).unwrap();
    opened.set_len(8192).unwrap();
    signal("-CONT");
    child.wait_with_output().unwrap()
}

/// SIGBUS ended the process.
#[test]
fn a_file_that_is_cut_while_it_is_read_is_an_error() {
    let folder = folder();
    let trace = folder.path().join("trace.json");
    fs::write(&trace, kineto(60_000)).unwrap();
    works(folder.path(), &["import", "trace.json", "-o", "run"]);
    let kept = fs::read(folder.path().join("run/analysis.json")).unwrap();
    let cases: [(&[&str], &str); 2] = [
        (&["import", "trace.json", "-o", "other"], "trace.json"),
        (&["analyze", "run"], "run/trace.llmprof"),
    ];
    for (words, file) in cases {
        let output = cut_while_mapped(folder.path(), words, &folder.path().join(file));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("became shorter"), "{words:?}: {said}");
    }
    // What was there before is better than what was made of zeros.
    let now = fs::read(folder.path().join("run/analysis.json")).unwrap();
    assert!(now == kept);
}

/// Sums wrapped: a trace of damaged numbers had a negative time.
#[test]
fn sums_that_do_not_fit_are_said() {
    let folder = folder();
    let text = kineto(3).replace("\"dur\": 5.000", "\"dur\": 9000000000000000.000");
    fs::write(folder.path().join("trace.json"), text).unwrap();
    let output = llmprof(folder.path(), &["import", "trace.json", "-o", "run"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("exceeds 64 bits"), "{said}");
    let is_said = |file: &str| {
        let issues = json(&folder.path().join("run").join(file))["issues"].clone();
        let mut codes = issues.as_array().unwrap().iter();
        codes.any(|issue| issue["code"] == "analysis.saturated")
    };
    assert!(is_said("run.json") && is_said("analysis.json"));
    let report = fs::read_to_string(folder.path().join("run/report.md")).unwrap();
    assert!(report.contains("exceeds 64 bits"), "{report}");
    // The stored run has the same numbers.
    works(folder.path(), &["analyze", "run"]);
    assert!(is_said("run.json") && is_said("analysis.json"));
}

/// SIGXFSZ ended the process.
#[test]
fn a_limit_of_file_sizes_is_an_error_of_a_write() {
    let folder = folder();
    let script = format!(
        "ulimit -f 8; exec {} {}",
        env!("CARGO_BIN_EXE_llmprof"),
        run_words(1).join(" ")
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("File too large"), "{said}");
}

/// The path of a socket has 107 bytes; a folder for temporary files may have more.
#[test]
fn a_long_folder_for_temporary_files_is_no_obstacle() {
    let folder = folder();
    let long: PathBuf = folder.path().join("x".repeat(120));
    fs::create_dir(&long).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .env("TMPDIR", &long)
        .args(run_words(1))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let absent = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .env("TMPDIR", "/nowhere")
        .env("NO_COLOR", "1")
        .args(run_words(1))
        .arg("hydra.run.dir=other")
        .output()
        .unwrap();
    assert_eq!(absent.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("TMPDIR"));
}

#[test]
fn nobody_reading_standard_error_is_no_panic() {
    let folder = folder();
    for sink in ["/dev/full", "/dev/null"] {
        let full = fs::File::options().write(true).open(sink).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(folder.path())
            .args(["runs", "show", "absent"])
            .stderr(full)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{sink}");
    }
    let output = llmprof(folder.path(), &["runs", "list"]);
    assert_eq!(output.status.code(), Some(2));
}

/// A system that starts no thread ended an import by a panic.
#[test]
#[ignore = "live: another user runs the binary"]
fn no_threads_are_no_panic() {
    let folder = folder();
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/h200/cupti/triton.wire.gz"
    );
    fs::copy(fixture, folder.path().join("profile")).unwrap();
    let status = Command::new("chmod")
        .args(["-R", "a+rwX"])
        .arg(folder.path())
        .status();
    assert!(status.unwrap().success());
    // Root has no such limit: another user runs it then, who must be able to see the binary.
    let script = format!(
        "user=; [ $(id -u) = 0 ] && user='setpriv --reuid=65534 --regid=65534 --clear-groups'
         $user test -x {0} || exit 77
         ulimit -u 1; exec $user {0} import profile -o run",
        env!("CARGO_BIN_EXE_llmprof")
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
}
