//! A server that llmprof started ends with it.

use std::{
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{SERVER, free_port, runs};

/// Far beyond what anything here takes, so that a hang fails instead of hanging.
const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn a_killed_llmprof_leaves_nothing_of_a_server_running() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    // The first request never ends: there is a load to be killed in.
    let serve = format!("python3 {SERVER} {port} 1 sleep 9876");
    let mut llmprof = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(["bench", "--serve", &serve, "--no-record", "-o", "run"])
        .args(["--serve-url", &format!("http://127.0.0.1:{port}")])
        .args(["--model", "tiny", "--requests", "2"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            sleep(Duration::from_millis(50));
        }
    };
    let is_up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    until("the server did not start", &is_up);
    let child = super::read(&dir.path().join("child.pid"));
    assert!(runs(&child));
    // Longer than llmprof takes to see what the server started.
    sleep(Duration::from_millis(1500));
    llmprof.kill().unwrap();
    llmprof.wait().unwrap();
    until("the server still listens", &|| !is_up());
    until("what it started still runs", &|| !runs(&child));
}
