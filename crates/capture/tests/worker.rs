//! Conversations with workers: good ones, and every way in which one can be bad.
//!
//! The workers are this test binary itself, started again to run the ignored test `fake_worker` alone.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use llmprof_capture::{
    clock,
    process::{Interrupt, Launch},
    runner::{
        Backend, Client, Limits, Problem, WorkerError, WorkerStep,
        protocol::{
            EventsFile, Failure, FailureKind, Finish, Generate, GenerateRequest, Generated,
            Instruments, Load, LoadOptions, Loaded, PhaseSpan, Progress, Prompt, RequestResult,
            SOCKET_VARIABLE, TokenSampling,
        },
        serve_requests,
    },
};
use llmprof_record::plan::LoadFormat;
use llmprof_units::{Bytes, DType};

/// Tells the started test binary which worker to be.
const BEHAVIOUR: &str = "FAKE_WORKER_BEHAVIOUR";

/// A limit that no test reaches unless it means to.
const LONG: Duration = Duration::from_mins(5);
/// A limit that is meant to be reached.
const SHORT: Duration = Duration::from_millis(100);

struct Worker {
    logs: tempfile::TempDir,
    interrupt: Interrupt,
    limits: Limits,
}

impl Worker {
    fn new() -> Self {
        Self {
            logs: tempfile::tempdir().unwrap(),
            interrupt: Interrupt::install().unwrap(),
            limits: Limits {
                connect: Some(LONG),
                ..Limits::default()
            },
        }
    }

    fn start(&mut self, behaviour: &str) -> Result<Client, WorkerError> {
        let launch = Launch::new(std::env::current_exe().unwrap().to_string_lossy())
            .args(["--exact", "worker::fake_worker", "--ignored", "--nocapture"])
            .env(BEHAVIOUR, behaviour)
            // A backtrace would push the message out of the last lines.
            .env("RUST_BACKTRACE", "0");
        self.launch(&launch)
    }

    fn launch(&mut self, launch: &Launch) -> Result<Client, WorkerError> {
        let logs = self.logs.path();
        Client::start(launch, logs, "worker", self.limits, &mut self.interrupt)
    }

    /// The error of the first batch that a worker of this behaviour is asked for.
    fn batch_error(&mut self, behaviour: &str) -> WorkerError {
        let mut client = self.start(behaviour).unwrap();
        client
            .generate_batch(&batch(1), &mut self.interrupt, &mut |_| ())
            .unwrap_err()
    }
}

fn model() -> Load {
    Load {
        config: serde_json::Map::new(),
        path: None,
        tokenizer: None,
        load_format: LoadFormat::Dummy,
        dtype: None,
        weights: None,
        device: "cpu".to_owned(),
        max_batch: 2,
        max_positions: 64,
        threads: None,
        seed: 0,
        options: LoadOptions::default(),
    }
}

fn batch(requests: usize) -> Generate {
    Generate {
        requests: (0..requests)
            .map(|index| GenerateRequest {
                id: format!("r{index}"),
                prompt: Prompt::Tokens(vec![1, 2, 3]),
                max_new_tokens: 4,
                images: Vec::new(),
            })
            .collect(),
        sampling: TokenSampling {
            do_sample: false,
            temperature: 1.0,
            no_repeat_ngram_size: 0,
            seed: 0,
        },
        ignore_eos: true,
        max_prompt_tokens: None,
        events: None,
        instruments: Instruments::default(),
    }
}

/// A worker that does what it is asked, but for its one fault.
struct Fake {
    fault: String,
}

impl Backend for Fake {
    fn runtime_version(&self) -> (String, String) {
        ("fake".to_owned(), "1.2".to_owned())
    }

    fn load_model(
        &mut self,
        load: Load,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Loaded, Failure> {
        let start_ns = clock::now();
        for done in 1..=3 {
            progress(Progress { done, total: 3 });
        }
        if load.device != "cpu" {
            return Err(Failure::new(FailureKind::Unsupported, "no such device").with_hint("cpu"));
        }
        Ok(Loaded {
            start_ns,
            end_ns: clock::now(),
            dtype: DType::F32,
            parameters: 7,
            weight_bytes: Bytes(28),
            vocab_size: 10,
            threads: Some(2),
            tokenizer: false,
            facts: [("kernel".to_owned(), "scalar".to_owned())].into(),
            packages: std::collections::BTreeMap::default(),
            issues: Vec::new(),
        })
    }

    fn generate_batch(
        &mut self,
        batch: Generate,
        warm_up: bool,
        _progress: &mut dyn FnMut(Progress),
    ) -> Result<Generated, Failure> {
        let start_ns = clock::now();
        let mut requests: Vec<RequestResult> = batch
            .requests
            .iter()
            .map(|request| RequestResult {
                id: request.id.clone(),
                prompt_tokens: 3,
                start_ns,
                output_tokens: (0..request.max_new_tokens as u32).collect(),
                token_ns: (0..request.max_new_tokens).map(|_| clock::now()).collect(),
                finish: Finish::Length,
                text: warm_up.then(|| "warm".to_owned()),
                raw_text: None,
                cut_prompt_tokens: 0,
                decoder_prompt_tokens: None,
                images: Vec::new(),
            })
            .collect();
        let mut phases = vec![PhaseSpan {
            phase: "prefill".to_owned(),
            start_ns,
            end_ns: requests[0].token_ns[0],
        }];
        let events = batch.events.map(|path| EventsFile {
            path,
            format: "llmprof_operators".to_owned(),
            events: 0,
        });
        match self.fault.as_str() {
            "fewer times" => drop(requests[0].token_ns.pop()),
            "fewer tokens" => {
                requests[0].token_ns.pop();
                requests[0].output_tokens.pop();
            }
            "backwards" => requests[0].token_ns.reverse(),
            "lost request" => drop(requests.pop()),
            "renamed" => "other".clone_into(&mut requests[0].id),
            "overlap" => phases.push(phases[0].clone()),
            "panic" => panic!("the fake engine fell over"),
            _ => {}
        }
        Ok(Generated {
            start_ns,
            end_ns: clock::now(),
            requests,
            phases,
            events,
            host: Vec::new(),
            device_token_ns: Vec::new(),
            memory: None,
            issues: Vec::new(),
        })
    }
}

#[test]
#[ignore = "the worker that other tests start"]
fn fake_worker() {
    let behaviour = std::env::var(BEHAVIOUR).unwrap();
    let path = std::env::var(SOCKET_VARIABLE).unwrap();
    eprintln!("fake worker: {behaviour}");
    if let Some(fault) = behaviour.strip_prefix("serve") {
        let fault = fault.trim_start().to_owned();
        serve_requests(&mut Fake { fault }, Path::new(&path)).unwrap();
        return;
    }
    match behaviour.as_str() {
        "exits at once" => std::process::exit(3),
        "never connects" => std::thread::sleep(LONG),
        _ => {}
    }
    let mut stream = UnixStream::connect(&path).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let hello = |version: u32, now: i64| {
        format!(
            r#"{{"hello":{{"version":{version},"runtime":"fake","runtime_version":"1","pid":1,"monotonic_ns":{now}}}}}"#
        )
    };
    lines.next();
    let answer = match behaviour.as_str() {
        "other version" => r#"{"hello":{"version":2,"language":"new"}}"#.to_owned(),
        "other clock" => hello(1, 5),
        "says nothing" => {
            std::thread::sleep(LONG);
            String::new()
        }
        "garbage" => "Loading checkpoint shards: 100%".to_owned(),
        "unknown key" => hello(1, clock::now().0).replace("runtime\"", "engine\""),
        "too long" => "x".repeat(5000),
        "cannot import" => {
            r#"{"error":{"kind":"missing","message":"there is no torch","hint":"install it"}}"#
                .to_owned()
        }
        "closes" => {
            stream.shutdown(std::net::Shutdown::Both).unwrap();
            std::thread::sleep(LONG);
            String::new()
        }
        "dies in a message" => {
            stream.write_all(b"{\"hello\"").unwrap();
            std::process::exit(9);
        }
        _ => hello(1, clock::now().0),
    };
    writeln!(stream, "{answer}").unwrap();
    if behaviour == "does not read" {
        std::thread::sleep(LONG);
    }
    lines.next();
    match behaviour.as_str() {
        "hangs" => std::thread::sleep(LONG),
        "dies" => {
            eprintln!("Segmentation fault (not really)");
            std::process::exit(11);
        }
        "answers another question" => writeln!(stream, r#"{{"bye":{{}}}}"#).unwrap(),
        "does not leave" => {
            writeln!(stream, r#"{{"bye":{{}}}}"#).unwrap();
            std::thread::sleep(LONG);
        }
        _ => {}
    }
    lines.next();
}

#[test]
fn a_whole_conversation() {
    let mut worker = Worker::new();
    let mut client = worker.start("serve").unwrap();
    assert_eq!(client.hello().runtime, "fake");
    assert_ne!(client.hello().pid, std::process::id());
    let mut seen = Vec::new();
    let loaded = client
        .load_model(&model(), &mut worker.interrupt, &mut |progress| {
            seen.push(progress);
        })
        .unwrap();
    assert_eq!(loaded.weight_bytes, Bytes(28));
    assert_eq!(seen.first(), Some(&Progress { done: 1, total: 3 }));
    assert_eq!(seen.last(), Some(&Progress { done: 3, total: 3 }));
    let before = clock::now();
    let warm = client
        .warm_up(&batch(1), &mut worker.interrupt, &mut |_| ())
        .unwrap();
    assert_eq!(warm.requests[0].text.as_deref(), Some("warm"));
    let generated = client
        .generate_batch(&batch(2), &mut worker.interrupt, &mut |_| ())
        .unwrap();
    assert!(before <= generated.start_ns && generated.end_ns <= clock::now());
    assert_eq!(generated.requests[1].output_tokens, [0, 1, 2, 3]);
    assert_eq!(generated.requests[1].token_ns.len(), 4);
    let ended = client.finish(&mut worker.interrupt).unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn a_batch_larger_than_the_socket_arrives() {
    let mut worker = Worker::new();
    let mut client = worker.start("serve").unwrap();
    let mut large = batch(1);
    large.requests[0].prompt = Prompt::Tokens((0..300_000).collect());
    large.requests[0].max_new_tokens = 50_000;
    let generated = client
        .generate_batch(&large, &mut worker.interrupt, &mut |_| ())
        .unwrap();
    assert_eq!(generated.requests[0].output_tokens[49_999], 49_999);
}

#[test]
fn a_known_failure_is_data_and_the_worker_goes_on() {
    let mut worker = Worker::new();
    let mut client = worker.start("serve").unwrap();
    let mut elsewhere = model();
    elsewhere.device = "cuda:0".to_owned();
    let error = client
        .load_model(&elsewhere, &mut worker.interrupt, &mut |_| ())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the worker did not load the model: no such device (hint: cpu)"
    );
    let Problem::Failed(failure) = error.problem else {
        panic!("{error}");
    };
    assert_eq!(failure.kind, FailureKind::Unsupported);
    client
        .load_model(&model(), &mut worker.interrupt, &mut |_| ())
        .unwrap();
    client.finish(&mut worker.interrupt).unwrap();
}

#[test]
fn a_worker_that_never_says_hello() {
    let mut worker = Worker::new();
    let error = worker.start("exits at once").unwrap_err();
    assert_eq!(error.step, WorkerStep::Connect);
    assert!(
        matches!(&error.problem, Problem::Died { how, .. } if how == "exit code 3"),
        "{error}"
    );
    assert_eq!(error.output, ["fake worker: exits at once"]);

    worker.limits.connect = Some(Duration::from_millis(1500));
    let error = worker.start("never connects").unwrap_err();
    assert!(
        matches!(error.problem, Problem::TimedOut { limit } if limit.as_millis() == 1500),
        "{error}"
    );

    let error = worker
        .launch(&Launch::new("no-such-program-anywhere"))
        .unwrap_err();
    assert!(matches!(error.problem, Problem::Start(_)), "{error}");
}

#[test]
fn a_hello_that_cannot_be_accepted() {
    let mut worker = Worker::new();
    let mut hello_error = |behaviour: &str| {
        let error = worker.start(behaviour).unwrap_err();
        assert_eq!(error.step, WorkerStep::Hello, "{error}");
        error
    };
    let error = hello_error("other version");
    assert!(
        matches!(error.problem, Problem::OtherVersion { ours: 1, theirs: 2 }),
        "{error}"
    );
    assert_eq!(error.output, ["fake worker: other version"]);
    let error = hello_error("other clock");
    assert!(
        matches!(error.problem, Problem::OtherClock { theirs: 5, .. }),
        "{error}"
    );
    let error = hello_error("garbage");
    assert!(
        matches!(&error.problem, Problem::Garbage { excerpt, .. } if excerpt.contains("shards: 100%")),
        "{error}"
    );
    let error = hello_error("unknown key");
    assert!(
        matches!(&error.problem, Problem::Garbage { reason, .. } if reason.contains("engine")),
        "{error}"
    );
    let error = hello_error("cannot import");
    assert!(
        matches!(&error.problem, Problem::Failed(failure) if failure.kind == FailureKind::Missing),
        "{error}"
    );
    let error = hello_error("closes");
    assert!(matches!(error.problem, Problem::Closed), "{error}");
    let error = hello_error("dies in a message");
    assert!(
        matches!(&error.problem, Problem::Died { how, mid_message: true } if how == "exit code 9"),
        "{error}"
    );
    worker.limits.max_line_bytes = 4096;
    let error = worker.start("too long").unwrap_err();
    assert!(
        matches!(error.problem, Problem::LineTooLong { limit: 4096 }),
        "{error}"
    );
    worker.limits.hello = Some(SHORT);
    let error = worker.start("says nothing").unwrap_err();
    assert!(matches!(error.problem, Problem::TimedOut { .. }), "{error}");
}

#[test]
fn a_worker_that_fails_in_a_step() {
    let mut worker = Worker::new();
    let error = worker.batch_error("dies");
    assert_eq!(
        error.to_string(),
        "the worker did not generate: it ended (exit code 11)\nits last output:\n  | fake worker: dies\n  | Segmentation fault (not really)"
    );
    let error = worker.batch_error("answers another question");
    assert!(
        matches!(error.problem, Problem::Unexpected { got: "bye" }),
        "{error}"
    );
    let error = worker.batch_error("serve panic");
    assert!(matches!(error.problem, Problem::Died { .. }), "{error}");
    assert!(
        error
            .output
            .iter()
            .any(|line| line.contains("the fake engine fell over")),
        "{error}"
    );
    worker.limits.generate = Some(SHORT);
    let error = worker.batch_error("hangs");
    assert!(matches!(error.problem, Problem::TimedOut { .. }), "{error}");
    assert_eq!(error.output, ["fake worker: hangs"]);
    // A request that does not fit the socket's buffer must not hang us either.
    let mut client = worker.start("does not read").unwrap();
    let mut large = batch(1);
    large.requests[0].prompt = Prompt::Tokens((0..300_000).collect());
    let error = client
        .generate_batch(&large, &mut worker.interrupt, &mut |_| ())
        .unwrap_err();
    assert!(matches!(error.problem, Problem::TimedOut { .. }), "{error}");
}

#[test]
fn answers_that_contradict_the_request_are_refused() {
    let mut worker = Worker::new();
    for (fault, words) in [
        ("fewer times", "4 tokens with 3 times"),
        ("fewer tokens", "3 tokens where 4 were due"),
        ("backwards", "run backwards"),
        ("lost request", "of 1 request 0 came back"),
        ("renamed", "came back as `other`"),
        ("overlap", "overlaps another"),
    ] {
        let error = worker.batch_error(&format!("serve {fault}"));
        assert!(
            matches!(&error.problem, Problem::Inconsistent(what) if what.contains(words)),
            "{fault}: {error}"
        );
    }
    let mut client = worker.start("serve").unwrap();
    let mut recorded = batch(1);
    recorded.events = Some(worker.logs.path().join("absent.events"));
    let error = client
        .generate_batch(&recorded, &mut worker.interrupt, &mut |_| ())
        .unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
}

#[test]
fn a_broken_conversation_is_over_and_leaves_no_process() {
    let mut worker = Worker::new();
    worker.limits.generate = Some(SHORT);
    let mut client = worker.start("serve").unwrap();
    let pid = client.hello().pid;
    let mut renamed = batch(1);
    renamed.events = Some("/nonexistent/events".into());
    client
        .generate_batch(&renamed, &mut worker.interrupt, &mut |_| ())
        .unwrap_err();
    let error = client
        .generate_batch(&batch(1), &mut worker.interrupt, &mut |_| ())
        .unwrap_err();
    assert!(matches!(error.problem, Problem::Broken), "{error}");
    drop(client);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_worker_that_does_not_leave_is_ended() {
    let mut worker = Worker::new();
    worker.limits.exit = Some(SHORT);
    let client = worker.start("does not leave").unwrap();
    let error = client.finish(&mut worker.interrupt).unwrap_err();
    assert_eq!(error.step, WorkerStep::Exit);
    assert!(matches!(error.problem, Problem::TimedOut { .. }), "{error}");

    let client = worker.start("serve").unwrap();
    let ended = client.abort(&mut worker.interrupt).unwrap();
    assert_eq!(ended.describe(), "killed by signal 15");
}

/// The worker in the protocol's documentation is a worker.
#[test]
#[ignore = "live: needs python3"]
fn the_documented_worker_works() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/worker-protocol.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, program) = document.split_once("```python\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let mut worker = Worker::new();
    let mut client = worker
        .launch(&Launch::new("python3").args(["-c", program]))
        .unwrap();
    client
        .load_model(&model(), &mut worker.interrupt, &mut |_| ())
        .unwrap();
    let generated = client
        .generate_batch(&batch(2), &mut worker.interrupt, &mut |_| ())
        .unwrap();
    assert_eq!(generated.requests[1].output_tokens, [0; 4]);
    let mut text = batch(1);
    text.requests[0].prompt = Prompt::Text("hello".to_owned());
    let error = client
        .generate_batch(&text, &mut worker.interrupt, &mut |_| ())
        .unwrap_err();
    assert!(matches!(error.problem, Problem::Failed(_)), "{error}");
    let ended = client.finish(&mut worker.interrupt).unwrap();
    assert!(ended.status.success(), "{ended:?}");
}
