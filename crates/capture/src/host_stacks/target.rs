//! One sampled process.

use std::{collections::HashSet, io, path::Path};

use llmprof_record::{
    issue::{Issue, IssueCode},
    trace::{Collecting, CpuState, HostWait},
};
use llmprof_wire::HostSample;

use super::{
    interpreter::Interpreter,
    python::{Moment, PythonThread, Refusal},
    sample_file::SampleFile,
    thread_state::{ThreadState, is_ended, list_threads},
};
use crate::clock;

/// An interpreter that is starting is asked this often before it is given up.
const ATTEMPTS_MAX: u32 = 20;

/// How the stacks of a process are read.
enum Stacks {
    /// Asked for so many times.
    Pending(u32),
    Python(Box<Interpreter>),
    /// They are not: it is no Python, or one that cannot be read.
    Native,
}

pub(super) struct Target {
    process: u32,
    file: SampleFile,
    stacks: Stacks,
    /// When it was last sampled.
    last: i64,
    issue: Option<Issue>,
    /// Samples whose stacks could not be read, and why the last time.
    unread: (u64, String),
    is_gone: bool,
}

impl Target {
    pub(super) fn open(directory: &Path, process: u32) -> io::Result<Self> {
        Ok(Self {
            process,
            file: SampleFile::create(directory, process)?,
            stacks: Stacks::Pending(0),
            last: clock::now().0,
            issue: None,
            unread: (0, String::new()),
            is_gone: false,
        })
    }

    /// The next sample stands for the time from now on.
    pub(super) fn restart_clock(&mut self) {
        self.last = clock::now().0;
    }

    pub(super) fn process(&self) -> u32 {
        self.process
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// What was not sampled, and why.
    pub(super) fn into_issues(self) -> Vec<Issue> {
        let (unread, why) = self.unread;
        let unread = (unread > 0).then(|| {
            Issue::info(IssueCode::HostStacksNotRead)
                .with("process", self.process)
                .with("why", why)
                .counting(unread)
        });
        self.issue.into_iter().chain(unread).collect()
    }

    /// Takes one sample of its threads.
    pub(super) fn take_sample(&mut self) {
        if let Stacks::Pending(attempts) = self.stacks {
            self.try_attach(attempts + 1);
        }
        let time = clock::now().0;
        let period = time.saturating_sub(self.last) as u64;
        self.last = time;
        let threads = list_threads(self.process);
        if threads.is_empty() {
            self.is_gone = true;
            return;
        }
        let moment = match &mut self.stacks {
            Stacks::Python(interpreter) => match interpreter.read_threads() {
                Ok(moment) => Some(moment),
                Err(_) if is_ended(self.process) => {
                    self.is_gone = true;
                    return;
                }
                Err(why) => {
                    self.unread.0 += 1;
                    self.unread.1 = why;
                    None
                }
            },
            Stacks::Pending(_) | Stacks::Native => None,
        };
        match (moment, &self.stacks) {
            (Some(moment), _) => self.add_python(&moment, (time, period)),
            // Which of its threads run Python is not known: those that do not are many.
            (None, Stacks::Python(_)) => {}
            (None, _) => self.add_native(&threads, (time, period)),
        }
        // A full disk costs samples, of which the next one says nothing: those that are there are whole.
        let _ = self.file.flush();
    }

    fn add_python(&mut self, moment: &Moment, (time, period): (i64, u64)) {
        let holder = moment.threads.iter().find(|thread| thread.owns_gil);
        let gil_holder = holder.map_or(0, |holder| holder.thread);
        for thread in &moment.threads {
            let Some(state) = self.read_state(thread.thread) else {
                continue;
            };
            let stack = self.add_stack(thread);
            let call = self.file.text_number(&state.call);
            self.file.add_sample(&HostSample {
                time,
                period,
                thread: thread.thread,
                gil_holder,
                stack,
                call,
                cpu: state.cpu.0,
                wait: state.wait.0,
                collecting: moment.collecting.0,
            });
        }
    }

    fn add_native(&mut self, threads: &[u32], (time, period): (i64, u64)) {
        for &thread in threads {
            let Some(state) = self.read_state(thread) else {
                continue;
            };
            let call = self.file.text_number(&state.call);
            self.file.add_sample(&HostSample {
                time,
                period,
                thread,
                gil_holder: 0,
                stack: 0,
                call,
                cpu: state.cpu.0,
                wait: state.wait.0,
                collecting: Collecting::UNKNOWN.0,
            });
        }
    }

    /// The state of a thread, with a wait for the GIL apart from one for a lock.
    fn read_state(&self, thread: u32) -> Option<ThreadState> {
        let mut state = ThreadState::read_state(self.process, thread)?;
        if let (Stacks::Python(interpreter), Some(futex)) = (&self.stacks, state.futex)
            && interpreter.is_gil(futex)
        {
            state.wait = HostWait::GIL;
        }
        debug_assert!(state.cpu != CpuState::ON || state.wait == HostWait::NONE);
        Some(state)
    }

    fn add_stack(&mut self, thread: &PythonThread) -> u32 {
        let outermost_first = thread.frames.iter().rev();
        outermost_first.fold(0, |parent, frame| {
            self.file
                .frame_number(parent, &frame.function, &frame.file, frame.line)
        })
    }

    fn try_attach(&mut self, attempt: u32) {
        let attached = match is_python(self.process) {
            Ok(true) => Interpreter::attach_to(self.process),
            Ok(false) => {
                self.stacks = Stacks::Native;
                return;
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(Refusal::NotPermitted(error.to_string()))
            }
            Err(_) if is_ended(self.process) => {
                self.is_gone = true;
                return;
            }
            Err(error) => Err(Refusal::NotYet(error.to_string())),
        };
        let refusal = match attached {
            Ok(interpreter) => {
                self.stacks = Stacks::Python(Box::new(interpreter));
                return;
            }
            Err(Refusal::NotYet(_)) if attempt < ATTEMPTS_MAX => {
                self.stacks = Stacks::Pending(attempt);
                return;
            }
            Err(refusal) => refusal,
        };
        self.stacks = Stacks::Native;
        let (code, why) = match refusal {
            Refusal::NotPermitted(why) => (IssueCode::HostStacksNotPermitted, why),
            Refusal::Unsupported(why) | Refusal::NotYet(why) => {
                (IssueCode::HostStacksUnsupported, why)
            }
            Refusal::NotBuilt => {
                self.issue = Some(Issue::info(IssueCode::HostStacksNotBuilt));
                return;
            }
        };
        let issue = Issue::warning(code).with("process", self.process);
        self.issue = Some(issue.with("why", why));
    }
}

/// Whether a process runs an interpreter: by its program, or by a library that a program embeds. An error says that this cannot be
/// told, as for processes of other users.
fn is_python(process: u32) -> io::Result<bool> {
    let program = std::fs::read_link(format!("/proc/{process}/exe"))?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("python") {
        return Ok(true);
    }
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
    let files: HashSet<&str> = maps
        .lines()
        .filter_map(|line| line.rsplit('/').next())
        .collect();
    Ok(files.iter().any(|file| file.starts_with("libpython")))
}
