//! `llmprof record` as a user runs it, on a program that uses a stand-in for CUDA.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::{common, injected};

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use llmprof_record::import::{Limits, wire};
use llmprof_record::trace::Trace;
use tempfile::TempDir;

struct Built {
    _folder: TempDir,
    host: PathBuf,
    cupti: PathBuf,
    library: PathBuf,
}

/// The stand-ins of `crates/inject/tests`, and the library, which is no dependency of the binary.
fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inject/tests/stand_in");
        let compile = |name: &str, source: &str, flags: &[&str]| {
            injected::compile(&sources.join(source), folder.path().join(name), flags)
        };
        let (host, cupti) = (
            compile("host", "host.c", &[]),
            compile("cupti.so", "cupti.c", injected::SHARED),
        );
        Built {
            library: injected::library(),
            _folder: folder,
            host,
            cupti,
        }
    })
}

/// A place to record into.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.0.path().join("run")
    }

    fn command(&self, options: &str, program: &str) -> Command {
        let mut command = Command::new(cargo_bin!("llmprof"));
        command
            .current_dir(self.0.path())
            .args(["record", "-o", "run"])
            .args(options.split_ascii_whitespace())
            .arg("--")
            .args(
                program
                    .replace("HOST", &built().host.display().to_string())
                    .split(' '),
            )
            .env("NO_COLOR", "1")
            .env("LLMPROF_INJECT", &built().library)
            .env("LLMPROF_CUPTI", &built().cupti)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn record(&self, options: &str, program: &str) -> Output {
        self.command(options, program).output().unwrap()
    }

    fn trace(&self) -> Trace {
        Trace::load(&self.run().join("trace.llmprof")).unwrap()
    }

    fn manifest(&self) -> serde_json::Value {
        let text = std::fs::read(self.run().join("run.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_keeps_its_output_and_its_exit_code() {
    let place = Place::new();
    let output = place.record(
        "",
        "HOST nvtx cuda push:decode kernels:10 others pop print:hello exit:7",
    );
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(stdout(&output), "hello\n");
    let said = stderr(&output);
    assert!(said.contains("10 kernels"), "{said}");
    assert!(
        said.trim_end().ends_with("report: run/report.html"),
        "{said}"
    );
    assert_eq!(place.trace().kernels.len(), 10);
    for file in ["report.html", "report.md", "kernels.csv", "cupti/cmd.txt"] {
        assert!(place.run().join(file).is_file(), "{file}");
    }
    let manifest = place.manifest();
    assert_eq!(manifest["status"], "failed", "as the command did");
    assert_eq!(manifest["passes"][0]["exit_code"], 7);
}

#[test]
fn with_json_standard_output_is_json() {
    let place = Place::new();
    let output = place.record("--json", "HOST cuda kernels:4 print:hello");
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["timeline"]["totals"]["kernels"], 4);
    assert!(stderr(&output).contains("hello"));
    assert_eq!(place.manifest()["status"], "complete");
}

#[test]
fn a_program_without_cuda_gets_a_clear_message() {
    let place = Place::new();
    let output = place.record("", "echo plain");
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(125), "plain\n"),
        "the command succeeded and nothing was recorded"
    );
    let said = stderr(&output);
    let reported = "error: nothing recorded: no process of the command initialized CUDA [record.no_cuda] (a set-user-ID";
    assert!(said.contains(reported), "{said}");
    let manifest = place.manifest();
    assert_eq!(manifest["issues"][0]["code"], "record.no_cuda");
    // `runs list` does not show a whole recording.
    assert_eq!(manifest["status"], "failed");
    let why = manifest["error"].as_str().unwrap();
    assert!(why.contains("nothing recorded"), "{why}");
    // A command that failed keeps its own code.
    let output = Place::new().record("", "false");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn own_failures_have_a_code_of_their_own() {
    let place = Place::new();
    let output = place
        .command("", "true")
        .env("LLMPROF_INJECT", "/nowhere/lib.so")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = stderr(&output);
    assert!(said.contains("libllmprof_inject.so is missing"), "{said}");
    assert!(said.contains("cargo build --release"), "{said}");
    let output = place.record("", "no-such-program-anywhere");
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("no such program"));
    let output = place.record("--device nothing_like_it", "HOST cuda print:ran");
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        stdout(&output),
        "",
        "a mistake is found before the command starts"
    );
}

#[test]
fn a_killed_command_keeps_what_was_flushed_and_says_so() {
    let place = Place::new();
    let output = place.record("", "HOST cuda kernels:30 sleep:600 kill");
    assert_eq!(output.status.code(), Some(128 + 9));
    assert_eq!(place.trace().kernels.len(), 30);
    let said = stderr(&output);
    assert!(said.contains("[wire.not_ended]"), "{said}");
}

#[test]
fn a_refusal_is_an_issue_at_the_top() {
    let place = Place::new();
    let output = place
        .command("", "HOST nvtx cuda push:a kernels:3 pop exit:3")
        .env("STANDIN_REFUSE", "39")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    assert!(
        said.contains("another tool uses CUPTI in this process [cupti.refused]"),
        "{said}"
    );
}

#[test]
fn a_full_disk_is_reported_though_the_file_cannot() {
    let place = Place::new();
    let output = place.record(
        "",
        "HOST filesize:20000 cuda kernels:1000 sleep:500 kernels:500 exit:4",
    );
    assert_eq!(output.status.code(), Some(4));
    let said = stderr(&output);
    assert!(
        said.contains("[record.dropped]") && said.contains("File too large"),
        "{said}"
    );
    assert!(!place.trace().kernels.is_empty());
}

#[test]
fn processes_of_a_command_come_into_one_trace() {
    let place = Place::new();
    place.record("", "HOST nvtx fork:1 cuda kernels:2 spawn");
    let trace = place.trace();
    assert_eq!(trace.metadata["processes"], "3");
    assert_eq!(trace.kernels.len(), 3 + 2 + 5);
}

#[test]
fn time_and_ranges_bound_what_is_recorded() {
    let place = Place::new();
    place.record("--after 300ms --for 300ms", "HOST nvtx cuda steps:60,10,20");
    let kernels = place.trace().kernels.len();
    assert!(kernels > 0 && kernels < 600, "{kernels}");
    let place = Place::new();
    place.record(
        "--nvtx-range decode",
        "HOST nvtx cuda kernels:5 push:decode kernels:3 pop kernels:9",
    );
    assert_eq!(place.trace().kernels.len(), 3);
}

#[test]
fn bounds_that_leave_nothing_are_reported() {
    for (bounds, words, why) in [
        ("--for 100ms", "HOST nvtx sleep:600 cuda kernels:5", "--for"),
        ("--after 30s", "HOST nvtx cuda kernels:5", "--after"),
        (
            "--nvtx-range decode",
            "HOST nvtx cuda push:prefill kernels:5 pop",
            "`decode`",
        ),
    ] {
        let output = Place::new().record(bounds, words);
        let said = stderr(&output);
        let line = said.lines().find(|line| line.contains("record.never_on"));
        assert!(line.is_some_and(|line| line.contains(why)), "{said}");
    }
    let output = Place::new().record("--for 20s", "HOST nvtx cuda kernels:5");
    assert!(!stderr(&output).contains("record.never_on"));
    let output = Place::new().record(
        "--overhead 2% --nvtx-range decode",
        "HOST nvtx cuda push:prefill kernels:5 pop",
    );
    let said = stderr(&output);
    assert!(
        said.contains("[slices.none]") && said.contains("the range that recording"),
        "{said}"
    );
}

#[test]
fn a_process_that_cannot_write_is_distinguished_from_one_without_cuda() {
    let place = Place::new();
    let mut command = place.command("", "sh -c");
    command.arg(format!(
        "LLMPROF_WIRE_DIR=/no/such/folder {} nvtx cuda kernels:5",
        built().host.display()
    ));
    let said = stderr(&command.output().unwrap());
    assert!(
        said.contains("[record.refused]") && said.contains("cannot create its file"),
        "{said}"
    );
    assert!(!said.contains("record.no_cuda"), "{said}");
}

#[test]
fn a_budget_that_graphs_break_is_reported() {
    let node = 5_u64 << 32 | 1;
    for (share, is_broken) in [("1.9%", true), ("5%", false)] {
        // Until the second slice has begun: by then the first one has ended.
        let words = format!("HOST nvtx cuda node:{node},0 until:0,2 loop:10,20,4");
        let place = Place::new();
        let output = place.record(&format!("--overhead {share}"), &words);
        let said = stderr(&output);
        let manifest = std::fs::read_to_string(place.run().join("run.json")).unwrap();
        assert!(manifest.contains("cupti.kept_for_graphs"), "{manifest}");
        assert_eq!(said.contains("[slices.not_kept]"), is_broken, "{said}");
    }
}

#[test]
fn slices_are_scaled_to_the_whole() {
    let place = Place::new();
    let output = place.record("--overhead 2%", "HOST nvtx cuda steps:500,20,4");
    let said = stderr(&output);
    assert!(
        said.contains("of 500 ranges `decode_step` recorded whole"),
        "{said}"
    );
    let scaled: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.run().join("slices.json")).unwrap()).unwrap();
    // Every step launches as many.
    assert_eq!(scaled["kernels"]["value"], 10_000.0);
    assert!(place.trace().kernels.len() < 10_000);
}

#[test]
fn cupti_detaches_between_slices_unless_it_is_to_stay() {
    let words = "HOST nvtx cuda loop:500,20,4";
    let codes = |place: &Place| place.manifest()["issues"].to_string();
    let stays = Place::new();
    stays.record("--overhead 2% --no-detach", words);
    assert!(codes(&stays).contains("record.cupti_stays"));
    let leaves = Place::new();
    leaves.record("--overhead 2%", words);
    let without_graphs = codes(&leaves);
    assert!(
        !without_graphs.contains("cupti_stays") && !without_graphs.contains("cupti.kept"),
        "{without_graphs}"
    );
    // Numbers that CUPTI begins again do not mix up what was launched when.
    let scaled: serde_json::Value =
        serde_json::from_slice(&std::fs::read(leaves.run().join("slices.json")).unwrap()).unwrap();
    assert_eq!(scaled["kernels"]["value"], 10_000.0);
    let everything = Place::new();
    let output = everything.record("--no-detach", words);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("--overhead 2%"),
        "{}",
        stderr(&output)
    );
    let graphs = Place::new();
    graphs.record(
        "--overhead 2%",
        "HOST nvtx cuda node:4294967297,0 loop:500,20,4",
    );
    let with_graphs = codes(&graphs);
    assert!(
        with_graphs.contains("cupti.kept") && with_graphs.contains("CUDA graphs"),
        "{with_graphs}"
    );
}

#[test]
fn ctrl_c_ends_the_command_and_prints_the_summary() {
    let place = Place::new();
    let mut child = place
        .command("", "HOST nvtx cuda kernels:12 print:ready sleep:30000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command is up when its file is there.
    let deadline = Instant::now() + Duration::from_secs(20);
    let has_file = || {
        std::fs::read_dir(place.run().join("cupti")).is_ok_and(|files| {
            files
                .flatten()
                .any(|file| file.path().extension().is_some_and(|e| e == "wire"))
        })
    };
    while !has_file() {
        assert!(Instant::now() < deadline, "the command does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(128 + 2));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("12 kernels"), "{said}");
    assert_eq!(place.manifest()["status"], "interrupted");
}

/// A command that launched 12 kernels, which are in its file, and sleeps.
fn start_sleeper(place: &Place) -> (std::process::Child, PathBuf) {
    let child = place
        .command("", "HOST nvtx cuda kernels:12 sleep:600000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let written = || -> Option<PathBuf> {
        let files = wire::wire_files(&place.run().join("cupti")).ok()?;
        let trace = wire::read_files(&files, &Limits::default()).ok()?;
        (trace.kernels.len() == 12).then(|| files[0].clone())
    };
    (child, wait_for(written))
}

/// What `look` finds, once it does.
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(Instant::now() < deadline, "it never happens");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whatever ends the recorder ends the command.
#[test]
fn the_command_ends_with_its_recorder() {
    for signal in ["INT", "TERM", "HUP", "KILL"] {
        let place = Place::new();
        let (mut recorder, file) = start_sleeper(&place);
        let name = file.file_name().unwrap().to_str().unwrap();
        let command = name.split('-').next().unwrap().to_owned();
        let status = Command::new("kill")
            .args([&format!("-{signal}"), &recorder.id().to_string()])
            .status();
        assert!(status.unwrap().success());
        recorder.wait().unwrap();
        let is_gone = || {
            let status = std::fs::read_to_string(format!("/proc/{command}/status"));
            status
                .map_or(true, |status| status.contains("State:\tZ"))
                .then_some(())
        };
        wait_for(is_gone);
        if signal != "KILL" {
            assert_eq!(place.manifest()["status"], "interrupted", "{signal}");
            assert_eq!(place.trace().kernels.len(), 12, "{signal}");
        }
    }
}

#[test]
fn a_recording_whose_recorder_was_killed_is_read() {
    let place = Place::new();
    let (mut recorder, _) = start_sleeper(&place);
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let run = |words: &[&str]| {
        let output = Command::new(cargo_bin!("llmprof"))
            .current_dir(place.0.path())
            .args(words)
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        stdout(&output)
    };
    let shown = run(&["runs", "show", "run"]);
    assert!(
        shown.contains("llmprof was killed and the command was ended with it; 2 files of"),
        "{shown}"
    );
    assert!(shown.contains("`llmprof analyze run`"), "{shown}");
    let analyzed = run(&["analyze", "run"]);
    assert!(analyzed.contains("12 kernels"), "{analyzed}");
    assert_eq!(place.trace().kernels.len(), 12);
    let manifest = place.manifest();
    assert_eq!(manifest["status"], "interrupted");
    assert!(
        manifest["issues"]
            .to_string()
            .contains("record.recorder_killed")
    );
    let shown = run(&["runs", "show", "run"]);
    assert!(
        shown.contains("[record.recorder_killed]") && !shown.contains("llmprof analyze"),
        "{shown}"
    );
    // It is read once.
    let again = run(&["analyze", "run"]);
    assert!(again.contains("12 kernels"), "{again}");
    assert_eq!(place.manifest()["issues"], manifest["issues"]);
}

#[test]
fn wire_files_import_again() {
    let place = Place::new();
    place.record("", "HOST cuda kernels:6");
    let output = Command::new(cargo_bin!("llmprof"))
        .current_dir(place.0.path())
        .args(["import", "run/cupti", "-o", "again"])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let again = Trace::load(&place.0.path().join("again/trace.llmprof")).unwrap();
    assert_eq!(again, place.trace());
}

/// A limit on the size of the files ends the recording, not the command.
#[test]
fn a_recording_ends_at_its_size() {
    let place = Place::new();
    let output = place.record(
        "--max-size 64K",
        "HOST nvtx cuda steps:2000,40,1 print:whole exit:3",
    );
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stdout(&output).contains("whole"));
    let manifest = place.manifest();
    let issues = manifest["issues"].as_array().unwrap();
    let codes: Vec<_> = issues.iter().map(|issue| &issue["code"]).collect();
    assert!(
        codes.iter().any(|code| *code == "record.max_size"),
        "{codes:?}"
    );
    assert!(place.trace().kernels.len() < 2000 * 40);
    assert!(!place.trace().kernels.is_empty());
    // Nothing is called dropped: recording was over.
    let is_loss =
        |code: &&&serde_json::Value| code.as_str().is_some_and(|code| code.ends_with("dropped"));
    assert_eq!(codes.iter().find(is_loss), None, "{codes:?}");
    let refused = place.record("--max-size 2X", "HOST");
    assert_eq!(refused.status.code(), Some(125));
}

/// Bytes of the wire files in a folder.
fn wire_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let wires = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "wire"));
    wires.map(|entry| entry.metadata().unwrap().len()).sum()
}

/// A program that writes fast passed the limit by what it wrote in a quarter of a second, which is when it was looked at.
#[test]
fn a_fast_writer_is_stopped_at_the_limit() {
    let place = Place::new();
    let output = place.record("--max-size 1M", "HOST cuda kernels:400000");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let bytes = wire_bytes(&place.run().join("cupti"));
    assert!(bytes <= (1 << 20) + (64 << 10), "{bytes}");
    assert!(bytes > 1 << 19, "{bytes}");
    let issues = place.manifest()["issues"].clone();
    let codes = issues
        .as_array()
        .unwrap()
        .iter()
        .map(|issue| &issue["code"]);
    assert!(
        codes.clone().any(|code| code == "record.max_size"),
        "{issues}"
    );
    assert!(!place.trace().kernels.is_empty());
}

/// Without a limit of the user's it is a quarter of the free disk: the trace that is made of it needs as much.
#[test]
#[ignore = "live: mounts a disk"]
fn a_recording_without_a_limit_leaves_room_on_the_disk() {
    let place = Place::new();
    let disk = 32 << 20;
    let script = format!(
        "export LLMPROF_INJECT={} LLMPROF_CUPTI={}; {} record -o disk/run -- {} cuda kernels:400000 >&2; code=$?; \
         stat -c %s disk/run/cupti/[0-9]*.wire; cp disk/run/run.json .; exit $code",
        built().library.display(),
        built().cupti.display(),
        cargo_bin!("llmprof").display(),
        built().host.display(),
    );
    let output = common::on_small_disk(place.0.path(), disk, &script);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let bytes: u64 = stdout(&output).trim().parse().unwrap();
    assert!(bytes <= disk / 4 + (64 << 10), "{bytes}");
    assert!(bytes > disk / 8, "{bytes}");
    let manifest = common::json(&place.0.path().join("run.json"));
    let issues = manifest["issues"].as_array().unwrap();
    assert!(
        issues
            .iter()
            .any(|issue| issue["code"] == "record.max_size"),
        "{issues:?}"
    );
}

/// Names of ranges are text of the program: what looks like a credential in them is in no file, wire files included.
#[test]
fn no_secret_of_a_recorded_program_is_in_any_file() {
    let place = Place::new();
    let output = place
        .command(
            "",
            "HOST nvtx cuda push:password=rangeHunter2Value kernels:3 pop push:decode kernels:2 pop print:api_key=argvHunter2Value",
        )
        .env("DATABASE_PASSWORD", "ourEnvHunter2Value")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut folders = vec![place.run()];
    let mut wires = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            wires += usize::from(path.extension().is_some_and(|end| end == "wire"));
            let bytes = std::fs::read(&path).unwrap();
            for secret in [
                "rangeHunter2Value",
                "argvHunter2Value",
                "ourEnvHunter2Value",
            ] {
                let is_leaked = bytes
                    .windows(secret.len())
                    .any(|part| part == secret.as_bytes());
                assert!(!is_leaked, "{secret} is in {}", path.display());
            }
        }
    }
    assert_eq!(wires, 2, "of the library, and of samples");
    // The file is as long as before, and says the same.
    let again = Command::new(cargo_bin!("llmprof"))
        .current_dir(place.0.path())
        .args(["import", "run/cupti", "-o", "again"])
        .output()
        .unwrap();
    assert!(again.status.success(), "{}", stderr(&again));
    let again = Trace::load(&place.0.path().join("again/trace.llmprof")).unwrap();
    assert_eq!(again.kernels.len(), 5);
    let names: Vec<&str> = (0..again.ranges.len())
        .map(|row| again.text(again.ranges.name[row]))
        .collect();
    assert!(names.contains(&"decode"), "{names:?}");
}

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/server.py");

/// Loads a server each of whose requests is `work` of a process of its own.
fn served(place: &Place, work: &str, options: &str) -> serde_json::Value {
    let host = built().host.display();
    served_by(place, &format!("{host} nvtx cuda {work}"), options)
}

/// Loads a server that starts `program` for each request.
fn served_by(place: &Place, program: &str, options: &str) -> serde_json::Value {
    let free = || std::net::TcpListener::bind("127.0.0.1:0")?.local_addr();
    let port = free().unwrap().port();
    let serve = format!("python3 {SERVER} {port} 2 {program}");
    let url = format!("http://127.0.0.1:{port}");
    let output = Command::new(cargo_bin!("llmprof"))
        .current_dir(place.0.path())
        .args(["bench", "--serve", &serve, "--serve-url", &url])
        .args("--concurrency 1 --output-tokens 2 --warmup 0 --json -o run".split(' '))
        .args(options.split(' '))
        .env("LLMPROF_INJECT", &built().library)
        .env("LLMPROF_CUPTI", &built().cupti)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a server's processes do on the GPU is joined with the requests that it serves.
#[test]
fn a_server_is_recorded_while_it_is_loaded() {
    let place = Place::new();
    let work = "'push:llmprof.step prefill batch=1 new=4 cached=0' kernels:5 pop \
                'push:llmprof.step decode batch=1 new=1 cached=4' kernels:3 pop";
    let summary = served(
        &place,
        work,
        "--requests 3 model=llama3_1_8b hardware.spec=h200",
    );
    assert_eq!(summary["completed"], 3, "{summary}");
    assert_eq!(summary["steps"]["count"], 6, "{}", summary["issues"]);
    let kinds = summary["steps"]["kinds"].as_array().unwrap();
    assert_eq!(kinds[0]["kind"], "prefill");
    assert_eq!(kinds[0]["mean_new_tokens"], 4.0);
    assert!(kinds[1]["gpu_busy_share"].as_f64().unwrap() > 0.0);
    // 16 GB of weights at 4.8 TB/s: the stand-in is faster than any GPU, and its share says so.
    assert!(
        (2.8..4.0).contains(&kinds[1]["roofline_ms"].as_f64().unwrap()),
        "{kinds:?}"
    );
    let report = std::fs::read_to_string(place.run().join("report.md")).unwrap();
    assert!(report.contains("## Engine steps"), "{report}");
    assert!(place.run().join("server/record/report.html").exists());
}

/// `--overhead` records the server in slices.
#[test]
fn a_server_is_recorded_within_a_budget() {
    let place = Place::new();
    let summary = served(&place, "loop:500,20,4", "--requests 2 --overhead 2%");
    assert_eq!(summary["completed"], 2, "{summary}");
    let record = place.run().join("server/record");
    let scaled = std::fs::read(record.join("slices.json")).unwrap();
    let scaled: serde_json::Value = serde_json::from_slice(&scaled).unwrap();
    // All launches of three processes, the probe's among them, although a part of them was recorded.
    assert_eq!(scaled["kernels"]["value"], 30_000.0, "{scaled}");
    let trace = Trace::load(&record.join("trace.llmprof")).unwrap();
    assert!(!trace.kernels.is_empty() && trace.kernels.len() < 30_000);
    // Without it everything is recorded.
    let place = Place::new();
    served(&place, "loop:50,20,4", "--requests 2");
    let record = place.run().join("server/record");
    assert!(!record.join("slices.json").exists());
    let trace = Trace::load(&record.join("trace.llmprof")).unwrap();
    assert_eq!(trace.kernels.len(), 3 * 50 * 20);
}

/// A Python whose stacks can be read.
fn python() -> String {
    let named = std::env::var("LLMPROF_PYTHON").ok();
    let candidates = named.into_iter().chain(["python3".to_owned()]);
    let is_supported = |program: &String| {
        let check = "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))";
        let status = Command::new(program).args(["-c", check]).status();
        status.is_ok_and(|status| status.success())
    };
    candidates
        .into_iter()
        .find(is_supported)
        .expect("Python 3.11, 3.12 or 3.13")
}

/// Launches a kernel, waits until its threads were sampled, and launches another one.
const SAMPLED: &str = "\
import ctypes, glob, os, time
ctypes.CDLL(os.environ['CUDA_INJECTION64_PATH']).InitializeInjection()
cupti = ctypes.CDLL(os.environ['LLMPROF_CUPTI'])
cupti.standin_kernel.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint32]
def sampled_bytes():
    files = glob.glob(f\"{os.environ['LLMPROF_WIRE_DIR']}/host-{os.getpid()}-*.wire\")
    return sum(os.path.getsize(file) for file in files)
def wait_for_samples():
    enough = sampled_bytes() + 4000
    while sampled_bytes() < enough:
        time.sleep(0.05)
cupti.standin_kernel(b'gemm_kernel', 0, 0)
wait_for_samples()
cupti.standin_kernel(b'gemm_kernel', 0, 0)
";

#[test]
#[ignore = "live: needs Python 3.11, 3.12 or 3.13"]
fn the_report_says_what_the_host_did_while_the_gpu_was_idle() {
    let python = python();
    let place = Place::new();
    std::fs::write(place.0.path().join("serve.py"), SAMPLED).unwrap();
    let output = place.record("", &format!("{python} serve.py"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = place.trace();
    assert_eq!(trace.kernels.len(), 2);
    assert!(!trace.host_samples.is_empty());
    let report = std::fs::read_to_string(place.run().join("report.md")).unwrap();
    let section = report.split("Host during GPU idle").nth(1).unwrap();
    assert!(
        section.contains("sleeping") && section.contains(r"wait\_for\_samples"),
        "{section}"
    );
    for (format, file) in [
        ("folded", "host_idle.folded"),
        ("speedscope", "host.speedscope.json"),
        ("chrome", "trace.json"),
    ] {
        let output = Command::new(cargo_bin!("llmprof"))
            .current_dir(place.0.path())
            .args(["export", "run", "--to", format])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = std::fs::read_to_string(place.run().join(file)).unwrap();
        assert!(text.contains("wait_for_samples ("), "{format}: {text}");
    }
    // A server is sampled like a command.
    let place = Place::new();
    // New processes are looked for during the load, not during the one request before it.
    let after_probe = "import os, sys\nif not os.path.exists('probed'):\n    open('probed', 'w').close()\n    sys.exit()\n";
    let program = format!("{after_probe}{SAMPLED}");
    std::fs::write(place.0.path().join("serve.py"), program).unwrap();
    served_by(&place, &format!("{python} serve.py"), "--requests 1");
    let trace = Trace::load(&place.run().join("server/record/trace.llmprof")).unwrap();
    assert!(!trace.kernels.is_empty() && !trace.host_samples.is_empty());
    let without = Place::new();
    std::fs::write(without.0.path().join("serve.py"), "import ctypes, os\nctypes.CDLL(os.environ['CUDA_INJECTION64_PATH']).InitializeInjection()\nctypes.CDLL(os.environ['LLMPROF_CUPTI']).standin_kernel(b'k', 0, 0)").unwrap();
    let output = without.record("--no-host-stacks", &format!("{python} serve.py"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(without.trace().host_samples.is_empty());
    let output = Command::new(cargo_bin!("llmprof"))
        .current_dir(without.0.path())
        .args(["export", "run", "--to", "folded"])
        .output()
        .unwrap();
    assert!(
        stderr(&output).contains("has no host stacks to export"),
        "{}",
        stderr(&output)
    );
}
