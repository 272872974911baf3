//! Host threads of real programs, sampled from outside. Each program says `ready` once it is in a state and holds it until it is
//! killed, so that a test waits for a state to be seen and depends on no time.
#![cfg(feature = "host-stacks")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use llmprof_capture::host_stacks::HostSampler;
use llmprof_record::{
    import::{Limits, wire},
    issue::{Issue, IssueCode},
    trace::{Collecting, CpuState, HostSample, HostWait, ThreadId, Trace},
};
use tempfile::TempDir;

/// Interpreters on this machine by minor version: `LLMPROF_PYTHON`, `python3` and those of pyenv.
fn interpreters() -> BTreeMap<u32, PathBuf> {
    let mut candidates: Vec<PathBuf> = std::env::var_os("LLMPROF_PYTHON")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    candidates.push("python3".into());
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = pyenv.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    for version in versions.into_iter().flatten().flatten() {
        candidates.push(version.path().join("bin/python3"));
    }
    let mut programs = BTreeMap::new();
    for candidate in candidates {
        let output = Command::new(&candidate)
            .args([
                "-c",
                "import sys; print(*sys.version_info[:2], sys.executable)",
            ])
            .output();
        let Ok(output) = output else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = text.trim().splitn(3, ' ');
        if let (Some("3"), Some(minor), Some(program)) = (words.next(), words.next(), words.next())
        {
            programs.insert(minor.parse().unwrap(), PathBuf::from(program));
        }
    }
    programs
}

/// Those whose stacks can be read.
fn supported() -> BTreeMap<u32, PathBuf> {
    let mut programs = interpreters();
    programs.retain(|minor, _| (11..=13).contains(minor));
    assert!(!programs.is_empty(), "Python 3.11, 3.12 or 3.13");
    programs
}

struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn python(interpreter: &PathBuf, source: &str) -> Self {
        // PR_SET_PDEATHSIG: it ends with the test, however that ends.
        let source = format!("import ctypes; ctypes.CDLL(None).prctl(1, 9); {source}");
        let mut program = Self::start(Command::new(interpreter).args(["-u", "-c", &source]));
        assert_eq!(program.line(), "ready");
        program
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Sampled {
    folder: TempDir,
    sampler: HostSampler,
}

impl Sampled {
    fn new(processes: &[u32]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sampler = HostSampler::start(folder.path(), None).unwrap();
        for &process in processes {
            sampler.add_process(process);
        }
        Self { folder, sampler }
    }

    fn trace(&self) -> Trace {
        let files = wire::wire_files(self.folder.path()).unwrap();
        if files.is_empty() {
            return Trace::default();
        }
        // A file that was just made may be empty.
        wire::read_files(&files, &Limits::default()).unwrap_or_default()
    }

    /// What was sampled when a sample is as it should be.
    fn until(&self, is_it: impl Fn(&Trace, &HostSample) -> bool) -> Trace {
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            let trace = self.trace();
            if trace
                .host_samples
                .rows()
                .any(|sample| is_it(&trace, &sample))
            {
                return trace;
            }
            let last = trace.host_samples.len().checked_sub(1);
            assert!(
                Instant::now() < deadline,
                "{:?}",
                last.map(|last| trace.host_samples.row(last))
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn stop(self) -> Vec<Issue> {
        self.sampler.stop()
    }
}

/// The functions of a sample, innermost first.
fn functions(trace: &Trace, sample: &HostSample) -> Vec<String> {
    let frames = trace.stack_frames.stack(sample.stack);
    frames
        .map(|frame| trace.text(frame.function).to_owned())
        .collect()
}

fn thread_number(trace: &Trace, thread: ThreadId) -> i64 {
    trace.threads.row(thread.0 as usize).thread
}

fn innermost(trace: &Trace, sample: &HostSample) -> String {
    functions(trace, sample)
        .first()
        .cloned()
        .unwrap_or_default()
}

#[test]
#[ignore = "live: needs Python 3.11, 3.12 or 3.13"]
fn garbage_collection_is_seen_with_its_caller() {
    for interpreter in supported().values() {
        let program = Program::python(
            interpreter,
            "import gc\ngc.disable()\nheap = [[] for _ in range(300000)]\nprint('ready')\ndef collect_all():\n    while True:\n        gc.collect()\ncollect_all()",
        );
        let sampled = Sampled::new(&[program.id()]);
        let trace = sampled.until(|trace, sample| {
            sample.collecting == Collecting::YES && innermost(trace, sample) == "collect_all"
        });
        let seen = |sample: HostSample| {
            sample.collecting == Collecting::YES && innermost(&trace, &sample) == "collect_all"
        };
        let sample = trace
            .host_samples
            .rows()
            .find(|sample| seen(*sample))
            .unwrap();
        assert_eq!(sample.gil_holder, sample.thread);
        let frame = trace.stack_frames.stack(sample.stack).next().unwrap();
        assert_eq!(frame.line, 7, "the line that collects");
        assert!(
            sampled
                .stop()
                .iter()
                .all(|issue| issue.code == IssueCode::HostStacksNotRead)
        );
    }
}

#[test]
#[ignore = "live: needs Python 3.11, 3.12 or 3.13"]
fn without_garbage_collection_none_is_seen() {
    for interpreter in supported().values() {
        let program = Program::python(
            interpreter,
            "import gc\ngc.disable()\nprint('ready')\ndef count():\n    number = 0\n    while True:\n        number += 1\ncount()",
        );
        let sampled = Sampled::new(&[program.id()]);
        let trace = sampled.until(|trace, sample| {
            innermost(trace, sample) == "count" && sample.cpu == CpuState::ON
        });
        let states: BTreeSet<Collecting> = trace.host_samples.collecting.iter().copied().collect();
        assert!(!states.contains(&Collecting::YES), "{states:?}");
        assert!(states.contains(&Collecting::NO), "{states:?}");
    }
}

#[test]
#[ignore = "live: needs Python 3.11, 3.12 or 3.13"]
fn a_wait_for_the_gil_names_its_holder() {
    for interpreter in supported().values() {
        // No thread asks for the GIL back before an hour has passed.
        let program = Program::python(
            interpreter,
            "import os, sys, threading\nsys.setswitchinterval(3600)\ndef one():\n    os.write(1, b'ready\\n')\n    while True:\n        pass\ndef other():\n    number = 0\n    while True:\n        number += 1\nthreading.Thread(target=one, daemon=True).start()\nother()",
        );
        let sampled = Sampled::new(&[program.id()]);
        // Whoever has the GIL keeps it, and the other one waits.
        let is_it = |sample: &HostSample| {
            sample.wait == HostWait::GIL && sample.gil_holder != ThreadId::NONE
        };
        let trace = sampled.until(|_, sample| is_it(sample));
        let sample = trace.host_samples.rows().find(is_it).unwrap();
        assert_eq!(trace.text(sample.call), "futex");
        assert_ne!(sample.gil_holder, sample.thread);
        let holder = trace
            .host_samples
            .rows()
            .find(|other| other.time == sample.time && other.thread == sample.gil_holder)
            .unwrap();
        assert_eq!(holder.gil_holder, holder.thread);
        let names = [innermost(&trace, &holder), innermost(&trace, &sample)];
        assert!(names.contains(&"one".to_owned()), "{names:?}");
        assert_eq!(holder.cpu, CpuState::ON);
    }
}

#[test]
#[ignore = "live: needs Python 3.11, 3.12 or 3.13"]
fn a_wait_for_a_lock_is_not_one_for_the_gil() {
    for interpreter in supported().values() {
        let program = Program::python(
            interpreter,
            "import threading\nlock = threading.Lock()\ndef wait_for_lock():\n    print('ready')\n    lock.acquire()\n    lock.acquire()\nwait_for_lock()",
        );
        let sampled = Sampled::new(&[program.id()]);
        let trace = sampled.until(|trace, sample| {
            sample.wait == HostWait::LOCK && innermost(trace, sample) == "wait_for_lock"
        });
        assert!(
            trace
                .host_samples
                .wait
                .iter()
                .all(|wait| *wait != HostWait::GIL)
        );
        let locked = trace
            .host_samples
            .rows()
            .find(|sample| sample.wait == HostWait::LOCK)
            .unwrap();
        assert_eq!(
            (locked.cpu, locked.gil_holder),
            (CpuState::OFF, ThreadId::NONE)
        );
    }
}

#[test]
#[ignore = "live: needs Python 3.11, 3.12 or 3.13"]
fn sleep_and_native_code_with_and_without_the_gil_are_told_apart() {
    for interpreter in supported().values() {
        for (source, cpu, wait, holds_gil) in [
            (
                "import time\ndef state():\n    print('ready')\n    time.sleep(100000)\nstate()",
                CpuState::OFF,
                HostWait::SLEEP,
                false,
            ),
            (
                "import collections, itertools\ndef state():\n    print('ready')\n    collections.deque(itertools.repeat(0), maxlen=0)\nstate()",
                CpuState::ON,
                HostWait::NONE,
                true,
            ),
            (
                "import hashlib\ndef state():\n    print('ready')\n    hashlib.pbkdf2_hmac('sha256', b'x', b'y', 2**31 - 1)\nstate()",
                CpuState::ON,
                HostWait::NONE,
                false,
            ),
        ] {
            let program = Program::python(interpreter, source);
            let sampled = Sampled::new(&[program.id()]);
            sampled.until(|trace, sample| {
                innermost(trace, sample) == "state"
                    && (sample.cpu, sample.wait) == (cpu, wait)
                    && (sample.gil_holder == sample.thread) == holds_gil
            });
        }
    }
}

#[test]
#[ignore = "live: needs Python 3.11, 3.12 or 3.13"]
fn threads_come_and_go() {
    for interpreter in supported().values() {
        let program = Program::python(
            interpreter,
            "import threading\nprint('ready')\ndef visit():\n    sum(range(10**6))\nwhile True:\n    visitor = threading.Thread(target=visit)\n    visitor.start()\n    visitor.join()",
        );
        let sampled = Sampled::new(&[program.id()]);
        let main = i64::from(program.id());
        let mut visitors: BTreeSet<i64> = BTreeSet::new();
        let deadline = Instant::now() + Duration::from_mins(2);
        while visitors.len() < 3 {
            assert!(Instant::now() < deadline);
            let trace = sampled.until(|trace, sample| thread_number(trace, sample.thread) != main);
            let threads = trace.host_samples.thread.iter();
            visitors.extend(threads.map(|thread| thread_number(&trace, *thread)));
            visitors.remove(&main);
        }
    }
}

#[test]
#[ignore = "live: needs Python 3.11, 3.12 or 3.13"]
fn a_fork_has_samples_of_its_own_and_a_death_ends_them() {
    for interpreter in supported().values() {
        let mut program = Program::python(
            interpreter,
            "import os\nprint('ready')\ndef parent():\n    os.read(0, 1)\ndef child():\n    os.read(0, 1)\npid = os.fork()\nif pid:\n    print(pid)\n    parent()\nelse:\n    child()",
        );
        let child: u32 = program.line().parse().unwrap();
        let sampled = Sampled::new(&[program.id(), child]);
        for (process, function) in [(program.id(), "parent"), (child, "child")] {
            sampled.until(|trace, sample| {
                let thread = trace.threads.row(sample.thread.0 as usize);
                thread.process == i64::from(process) && innermost(trace, sample) == function
            });
        }
        let status = Command::new("kill")
            .args(["-9", &child.to_string()])
            .status();
        assert!(status.unwrap().success());
        // The other one is sampled on.
        let before = sampled.trace().host_samples.len();
        let after = sampled.until(|trace, _| trace.host_samples.len() > before + 10);
        assert!(after.host_samples.len() > before);
        drop(program);
        let issues = sampled.stop();
        assert!(
            issues
                .iter()
                .all(|issue| issue.code == IssueCode::HostStacksNotRead),
            "{issues:?}"
        );
    }
}

#[test]
#[ignore = "live: needs a Python before 3.11"]
fn an_old_python_is_sampled_without_stacks() {
    let mut old = interpreters().into_iter().filter(|(minor, _)| *minor < 11);
    let (_, interpreter) = old.next().expect("a Python before 3.11");
    let program = Program::python(
        &interpreter,
        "import time\nprint('ready')\ntime.sleep(100000)",
    );
    let sampled = Sampled::new(&[program.id()]);
    let trace = sampled.until(|_, sample| sample.cpu == CpuState::OFF);
    assert!(trace.stack_frames.is_empty());
    let issues = sampled.stop();
    assert_eq!(
        issues[0].code,
        IssueCode::HostStacksUnsupported,
        "{issues:?}"
    );
}

#[test]
fn a_native_program_shows_the_call_that_it_waits_in() {
    let sleeper = Program::start(Command::new("sleep").arg("100000"));
    let reader = Program::start(&mut Command::new("cat"));
    let sampled = Sampled::new(&[sleeper.id(), reader.id()]);
    for (process, wait, call) in [
        (sleeper.id(), HostWait::SLEEP, "clock_nanosleep"),
        (reader.id(), HostWait::CALL, "read"),
    ] {
        sampled.until(|trace, sample| {
            thread_number(trace, sample.thread) == i64::from(process)
                && (sample.cpu, sample.wait) == (CpuState::OFF, wait)
                && trace.text(sample.call) == call
        });
    }
    assert!(sampled.stop().is_empty());
}
