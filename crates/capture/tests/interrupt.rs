//! Ctrl-C while a worker is busy. It has a program of its own, since a signal reaches every test of a program.

use std::{path::Path, time::Duration};

use llmprof_capture::{
    process::{Interrupt, Launch, Stop},
    runner::{
        Backend, Client, Limits, Problem,
        protocol::{
            Failure, FailureKind, Generate, Generated, Load, LoadOptions, Loaded, Progress,
            SOCKET_VARIABLE,
        },
        serve_requests,
    },
};
use llmprof_record::plan::LoadFormat;
use rustix::process::{Signal, getpid, kill_process};

/// A worker that reports a beginning and never an end.
struct Endless;

impl Backend for Endless {
    fn runtime_version(&self) -> (String, String) {
        ("endless".to_owned(), "1".to_owned())
    }

    fn load_model(
        &mut self,
        _: Load,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Loaded, Failure> {
        progress(Progress { done: 1, total: 9 });
        std::thread::sleep(Duration::from_mins(5));
        Err(Failure::new(FailureKind::Internal, "it was left alone"))
    }

    fn generate_batch(
        &mut self,
        _: Generate,
        _: bool,
        _: &mut dyn FnMut(Progress),
    ) -> Result<Generated, Failure> {
        Err(Failure::new(FailureKind::Protocol, "nothing is loaded"))
    }
}

#[test]
#[ignore = "the worker that the other test starts"]
fn endless_worker() {
    let path = std::env::var(SOCKET_VARIABLE).unwrap();
    serve_requests(&mut Endless, Path::new(&path)).unwrap();
}

#[test]
fn an_interrupt_ends_the_step_and_the_worker() {
    let logs = tempfile::tempdir().unwrap();
    let mut interrupt = Interrupt::install().unwrap();
    let launch = Launch::new(std::env::current_exe().unwrap().to_string_lossy()).args([
        "--exact",
        "endless_worker",
        "--ignored",
    ]);
    let limits = Limits::without_limits();
    let mut client = Client::start(&launch, logs.path(), "worker", limits, &mut interrupt).unwrap();
    let pid = client.hello().pid;
    let load = Load {
        config: serde_json::Map::new(),
        path: None,
        tokenizer: None,
        load_format: LoadFormat::Dummy,
        dtype: None,
        weights: None,
        device: "cpu".to_owned(),
        max_batch: 1,
        max_positions: 1,
        threads: None,
        seed: 0,
        options: LoadOptions::default(),
    };
    let error = client
        .load_model(&load, &mut interrupt, &mut |_| {
            kill_process(getpid(), Signal::INT).unwrap();
        })
        .unwrap_err();
    assert!(matches!(error.problem, Problem::Interrupted), "{error}");
    assert_eq!(error.output, [""; 0]);
    let ended = client.abort(&mut interrupt).unwrap();
    assert_eq!(ended.describe(), "killed by signal 15");
    assert!(!Path::new(&format!("/proc/{pid}")).exists());

    // What is started afterwards ends too: the signal may come between a look at it and the start of a command, and before
    // somebody else listens.
    let mut later = Interrupt::install().unwrap();
    for interrupt in [&mut interrupt, &mut later] {
        let sleeper = Launch::new("sleep").arg("300");
        let mut child = sleeper.spawn(logs.path(), "sleeper").unwrap();
        let ended = child.wait(interrupt, None).unwrap();
        assert_eq!(ended.stopped, Some(Stop::Interrupted));
    }
    let refused = Client::start(&launch, logs.path(), "worker", limits, &mut later);
    let refused = refused.err().unwrap();
    assert!(matches!(refused.problem, Problem::Interrupted), "{refused}");
}
