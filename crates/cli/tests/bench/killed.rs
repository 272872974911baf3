//! A server that llmprof started ends with it, and so does everything that the server started.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use llmprof_stub::{Behaviour, Stub};

use super::{SERVER, free_port, runs};

/// Far beyond what anything here takes, so that a hang fails instead of hanging.
const PATIENCE: Duration = Duration::from_mins(1);

fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(5));
    }
}

fn start(dir: &Path, serve: &str, port: u16) -> Child {
    Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(["bench", "--serve", serve, "--no-record", "-o", "run"])
        .args(["--serve-url", &format!("http://127.0.0.1:{port}")])
        .args(["--model", "tiny", "--requests", "2"])
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The process whose number is in a file, once it is there.
fn started(dir: &Path, file: &str) -> String {
    let read = || std::fs::read_to_string(dir.join(file)).unwrap_or_default();
    until(file, || read().ends_with('\n'));
    let process = read().trim().to_owned();
    assert!(runs(&process), "{file}");
    process
}

#[test]
fn a_killed_llmprof_leaves_nothing_of_a_server_running() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    // The first request never ends: there is a load to be killed in.
    let serve = format!("python3 {SERVER} {port} 1 sleep 9876");
    let mut llmprof = start(dir.path(), &serve, port);
    let is_up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    until("the server did not start", is_up);
    let child = super::read(&dir.path().join("child.pid"));
    let daemon = started(dir.path(), "daemon.pid");
    llmprof.kill().unwrap();
    llmprof.wait().unwrap();
    until("the server still listens", || !is_up());
    until("what it started still runs", || !runs(&child));
    until("its daemon still runs", || !runs(&daemon));
}

/// Processes in sessions of their own, with their parents gone and nothing in their environment: one that was there from the
/// start, and one that came while llmprof waits for an answer that never comes.
const DAEMONS: &str = "sh -c 'env -i setsid sleep 2345 & echo $! > early.pid; \
    (env -i setsid sh -c \"env -i setsid sleep 2346 & echo \\$! > late.pid; exec sleep 2347\" & echo $! > middle.pid); \
    echo $$ > server.pid; exec sleep 2348'";

const PROCESSES: [&str; 4] = ["early.pid", "middle.pid", "late.pid", "server.pid"];

/// A port that takes connections and never answers.
fn silent() -> (std::net::TcpListener, u16) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn daemons_of_a_server_that_never_answers_end_with_a_killed_llmprof() {
    let dir = tempfile::tempdir().unwrap();
    let (_silent, port) = silent();
    let mut llmprof = start(dir.path(), DAEMONS, port);
    let all = PROCESSES.map(|file| started(dir.path(), file));
    llmprof.kill().unwrap();
    llmprof.wait().unwrap();
    for (file, process) in PROCESSES.iter().zip(&all) {
        until(&format!("{file} still runs"), || !runs(process));
    }
}

#[test]
fn daemons_of_a_server_that_never_answers_end_with_an_interrupted_llmprof() {
    let dir = tempfile::tempdir().unwrap();
    let (_silent, port) = silent();
    let mut llmprof = start(dir.path(), DAEMONS, port);
    let all = PROCESSES.map(|file| started(dir.path(), file));
    let sent = Command::new("kill").arg(llmprof.id().to_string()).status();
    assert!(sent.unwrap().success());
    assert_eq!(llmprof.wait().unwrap().code(), Some(130));
    let manifest = super::json(&dir.path().join("run/run.json"));
    assert_eq!(manifest["status"], "interrupted");
    for (file, process) in PROCESSES.iter().zip(&all) {
        assert!(!runs(process), "{file} still runs");
    }
}

/// Rates of a sweep that were measured were lost with llmprof.
#[test]
fn a_killed_sweep_keeps_the_rates_it_measured() {
    let dir = tempfile::tempdir().unwrap();
    let stub = super::stub();
    let mut llmprof = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(["bench", &stub.url(), "--sweep", "20:21", "-o", "run"])
        .args(["--slo", "ttft:p50<3600s"])
        .args(["--requests", "10", "--output-tokens", "1"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let file = dir.path().join("run/sweep.json");
    until("no rate was measured", || file.exists());
    llmprof.kill().unwrap();
    llmprof.wait().unwrap();
    let sweep = super::json(&file);
    assert_eq!(sweep["points"][0]["rate"], 20.0, "{sweep}");
    assert_eq!(sweep["points"][0]["summary"]["completed"], 10, "{sweep}");
}

/// A server answers `/stop_profile` when its trace is written, which may take minutes: Ctrl-C was not heard meanwhile.
#[test]
fn an_interrupt_ends_the_wait_for_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(5),
        trace_pause: Duration::from_mins(10),
        ..Behaviour::default()
    })
    .unwrap();
    let mut llmprof = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args([
            "bench",
            &stub.url(),
            "--requests",
            "40",
            "--output-tokens",
            "2",
        ])
        .args([
            "--rate",
            "100",
            "--profile",
            "--profile-after",
            "1ms",
            "-o",
            "run",
        ])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the profiler was not stopped", || {
        stub.calls().iter().any(|call| call.path == "/stop_profile")
    });
    until("the load did not end", || stub.served().len() > 40);
    sleep(Duration::from_millis(300));
    let sent = Command::new("kill").arg(llmprof.id().to_string()).status();
    assert!(sent.unwrap().success());
    let interrupted = Instant::now();
    assert_eq!(llmprof.wait().unwrap().code(), Some(130));
    assert!(interrupted.elapsed() < Duration::from_secs(20));
    let run = dir.path().join("run");
    assert_eq!(super::json(&run.join("run.json"))["status"], "interrupted");
    assert_eq!(super::read(&run.join("requests.csv")).lines().count(), 41);
    let report = super::read(&run.join("report.md"));
    assert!(report.contains("interrupted before its trace"), "{report}");
}

/// The main process of a server may end by itself and leave others, which are nobody's then.
#[test]
fn daemons_of_a_server_that_ended_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let serve = "sh -c 'env -i setsid sleep 2349 & echo $! > early.pid; exit 3'";
    let mut llmprof = start(dir.path(), serve, free_port());
    assert_eq!(llmprof.wait().unwrap().code(), Some(2));
    let daemon = super::read(&dir.path().join("early.pid"));
    assert!(!runs(daemon.trim()), "it still runs");
}
