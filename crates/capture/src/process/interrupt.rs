use std::{
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use super::ProcessError;

/// What the signals of this process asked for since its first [`Interrupt`], which a later one must not miss.
#[derive(Default)]
struct Asked {
    stop: Arc<AtomicBool>,
    /// Whether SIGTERM or SIGHUP was among them.
    termination: Arc<AtomicBool>,
}

static ASKED: LazyLock<Asked> = LazyLock::new(Asked::default);

/// Ctrl-C, SIGTERM and the loss of the terminal (SIGHUP), counted instead of deadly.
///
/// The handlers only write a byte to a socket; whoever waits on a child reads it and decides.
#[derive(Debug)]
pub struct Interrupt {
    signals: UnixStream,
    count: u32,
}

impl Interrupt {
    /// Takes over SIGINT, SIGTERM and SIGHUP for the rest of the process's life. Under `nohup` SIGHUP stays ignored.
    pub fn install() -> Result<Self, ProcessError> {
        let system = |action| move |source| ProcessError::System { action, source };
        let (signals, write_end) = UnixStream::pair().map_err(system("make a signal channel"))?;
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        let asked_before = ASKED.stop.load(Ordering::Relaxed);
        // Before the pipe: whoever reads that a signal came knows which.
        for signal in [SIGTERM].into_iter().chain(hangup) {
            signal_hook::flag::register(signal, Arc::clone(&ASKED.termination))
                .map_err(system("handle SIGTERM"))?;
        }
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            signal_hook::flag::register(signal, Arc::clone(&ASKED.stop))
                .map_err(system("handle Ctrl-C"))?;
            let end = write_end
                .try_clone()
                .map_err(system("make a signal channel"))?;
            signal_hook::low_level::pipe::register(signal, end).map_err(system("handle Ctrl-C"))?;
        }
        signals
            .set_nonblocking(true)
            .map_err(system("make a signal channel"))?;
        Ok(Self {
            signals,
            count: u32::from(asked_before),
        })
    }

    /// Whether somebody sent us SIGTERM or SIGHUP, of which a command does not know as it knows of a Ctrl-C.
    #[expect(clippy::unused_self, reason = "without handlers no signal is heard of")]
    pub(crate) fn is_termination(&self) -> bool {
        ASKED.termination.load(Ordering::Relaxed)
    }

    /// How many times the user asked to stop so far.
    pub fn stop_count(&mut self) -> u32 {
        let mut buffer = [0; 16];
        while let Ok(read) = self.signals.read(&mut buffer) {
            if read == 0 {
                break;
            }
            self.count += read as u32;
        }
        self.count
    }

    /// Sleeps until the user asks to stop.
    pub fn wait_for_stop(&mut self) -> Result<(), ProcessError> {
        while self.stop_count() == 0 {
            self.wait_for_any(&[], None)
                .map_err(|source| ProcessError::System {
                    action: "wait for Ctrl-C",
                    source,
                })?;
        }
        Ok(())
    }

    /// Sleeps until `fd` is readable, a signal comes, or `deadline` passes; true if `fd` is readable.
    pub(super) fn wait_for(
        &self,
        fd: BorrowedFd<'_>,
        deadline: Option<Instant>,
    ) -> io::Result<bool> {
        let ready = self.wait_for_any(&[(fd, PollFlags::IN)], deadline)?;
        Ok(ready.first().is_some_and(|&ready| ready))
    }

    /// Sleeps until one of `fds` is ready (or closed by its other side), a signal comes, or `deadline` passes; says
    /// which of them are ready.
    pub(crate) fn wait_for_any(
        &self,
        fds: &[(BorrowedFd<'_>, PollFlags)],
        deadline: Option<Instant>,
    ) -> io::Result<Vec<bool>> {
        let watched = fds
            .iter()
            .copied()
            .chain([(self.signals.as_fd(), PollFlags::IN)]);
        let mut polled: Vec<PollFd<'_>> = watched
            .map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags))
            .collect();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map(to_timespec);
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) => Ok(polled[..fds.len()]
                .iter()
                .map(|fd| !fd.revents().is_empty())
                .collect()),
            Err(rustix::io::Errno::INTR) => Ok(vec![false; fds.len()]),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Makes a file that grows past its limit (`ulimit -f`) an error of the write instead of our death. Commands that we start
/// have the default again.
pub fn survive_file_size_limit() {
    let seen = Arc::new(AtomicBool::new(false));
    // Where it cannot be handled, the limit is as deadly as before.
    let _ = signal_hook::flag::register(SIGXFSZ, seen);
}

/// Whether whoever started us had us ignore a signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn to_timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs() as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
