use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::{Duration, Instant},
};

use llmprof_units::Nanos;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use super::{Interrupt, ProcessError, orphan::Guard, tree::Leftovers};

/// How long a process may take to end after SIGTERM before it is killed.
const SIGTERM_GRACE: Duration = Duration::from_secs(5);
/// How much of a log's end is read when its last lines are asked for.
const TAIL_BYTES: u64 = 16 * 1024;

/// Why a child was ended by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Interrupted,
    /// It took longer than it was given.
    TimedOut,
}

#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// What the system says of it.
    pub status: ExitStatus,
    /// Why we ended it; `None` if it ended by itself.
    pub stopped: Option<Stop>,
    /// Wall time from start to end.
    pub duration: Nanos,
}

impl Ended {
    /// In words: `exit code 3`, `killed by signal 9`.
    pub fn describe(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("killed by signal {signal}"),
            (None, None) => self.status.to_string(),
        }
    }
}

/// A running process and the group it leads. Dropping it kills the whole group, and what else it holds.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    started: Instant,
    stdout: PathBuf,
    stderr: PathBuf,
    ended: bool,
    guard: Option<Guard>,
    /// Where everything below it ends with it.
    left: Option<Leftovers>,
}

impl Child {
    pub(super) fn new(
        process: std::process::Child,
        [stdout, stderr]: [PathBuf; 2],
        guard: Option<Guard>,
        left: Option<Leftovers>,
    ) -> Self {
        Self {
            process,
            started: Instant::now(),
            stdout,
            stderr,
            ended: false,
            guard,
            left,
        }
    }

    /// Its process id, which is also its group's.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Where its standard output goes.
    pub fn stdout(&self) -> &Path {
        &self.stdout
    }

    /// Where its standard error goes.
    pub fn stderr(&self) -> &Path {
        &self.stderr
    }

    /// The last `lines` lines it wrote: standard error, or standard output where that is empty.
    pub fn last_lines(&self, lines: usize) -> Vec<String> {
        let tail = tail_lines(&self.stderr, lines);
        if tail.is_empty() {
            tail_lines(&self.stdout, lines)
        } else {
            tail
        }
    }

    /// The last `lines` lines of standard output, then those of standard error: servers log to either.
    pub fn last_lines_of_both(&self, lines: usize) -> Vec<String> {
        let mut tail = tail_lines(&self.stdout, lines);
        tail.extend(tail_lines(&self.stderr, lines));
        tail
    }

    /// Whether it has ended by itself; it is collected by [`wait`](Self::wait).
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.ended
            || waitid(WaitId::Pid(self.group_leader()), options)
                .is_ok_and(|status| status.is_some())
    }

    /// Waits until it ends. An interrupt or the time limit sends SIGTERM to its group; a second interrupt, or a group
    /// that is still there after the grace period, gets SIGKILL. Whatever it left running in its group ends with it, and so
    /// does everything below it where it was started so. An interrupt from before its start ends it as well.
    pub fn wait(
        &mut self,
        interrupt: &mut Interrupt,
        limit: Option<Duration>,
    ) -> Result<Ended, ProcessError> {
        self.wait_beyond(0, interrupt, limit)
    }

    /// As [`wait`](Self::wait), for one that is to end by itself although the user asked to stop: it keeps what was captured
    /// until then. Only an interrupt from now on ends it.
    pub(crate) fn wait_after_stop(
        &mut self,
        interrupt: &mut Interrupt,
    ) -> Result<Ended, ProcessError> {
        self.wait_beyond(interrupt.stop_count(), interrupt, None)
    }

    fn wait_beyond(
        &mut self,
        interrupts_before: u32,
        interrupt: &mut Interrupt,
        limit: Option<Duration>,
    ) -> Result<Ended, ProcessError> {
        let system = |action| move |source| ProcessError::System { action, source };
        let pid = self.group_leader();
        let pidfd = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|errno| system("watch the process")(errno.into()))?;
        let mut deadline = limit.map(|limit| self.started + limit);
        let mut stopped = None;
        let mut killed = false;
        loop {
            let acted_on = match stopped {
                None => 0,
                Some(_) if !killed => 1,
                Some(_) => u32::MAX,
            };
            // A signal that came before this call wakes nobody up.
            let is_asked = interrupt.stop_count() - interrupts_before > acted_on;
            let wake = if is_asked {
                Some(Instant::now())
            } else {
                deadline
            };
            let ended = interrupt
                .wait_for(rustix::fd::AsFd::as_fd(&pidfd), wake)
                .map_err(system("wait for the process"))?;
            if ended {
                break;
            }
            let interrupts = interrupt.stop_count() - interrupts_before;
            let expired = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if stopped.is_none() && (interrupts > 0 || expired) {
                stopped = Some(if interrupts > 0 {
                    Stop::Interrupted
                } else {
                    Stop::TimedOut
                });
                self.signal_group(Signal::TERM);
                deadline = Some(Instant::now() + SIGTERM_GRACE);
            } else if stopped.is_some() && !killed && (interrupts > 1 || expired) {
                self.signal_group(Signal::KILL);
                killed = true;
                // SIGKILL cannot be refused; the process may still need a moment in the kernel.
                deadline = None;
            }
        }
        // The leader is gone but not yet reaped, so its id still names its group alone: end what it left behind.
        self.signal_group(Signal::KILL);
        let status = self.process.wait().map_err(system("collect the process"))?;
        self.ended = true;
        self.end_rest();
        Ok(Ended {
            status,
            stopped,
            duration: Nanos(self.started.elapsed().as_nanos() as i64),
        })
    }

    /// Once it has ended: ends what it left behind, then the guard.
    fn end_rest(&mut self) {
        if let Some(left) = self.left.take() {
            left.end_leftovers();
        }
        self.guard = None;
    }

    fn group_leader(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Signals the whole group; a group that has gone already is what was wanted.
    fn signal_group(&self, signal: Signal) {
        let _ = kill_process_group(self.group_leader(), signal);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            self.signal_group(Signal::KILL);
            let _ = self.process.wait();
        }
        self.end_rest();
    }
}

/// The last `lines` lines of a file, as text; none if it cannot be read.
fn tail_lines(path: &Path, lines: usize) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..]
        .iter()
        .map(|&line| line.to_owned())
        .collect()
}
