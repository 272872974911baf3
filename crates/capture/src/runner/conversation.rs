use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::PollFlags,
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde::Deserialize;

use super::{
    connection::{Connection, Received},
    error::{Problem, WorkerError, WorkerStep},
    limits::Until,
    protocol::{ClientHello, PROTOCOL_VERSION, Progress, Reply, Request, WorkerHello},
};
use crate::{
    clock,
    process::{Child, Ended, Interrupt, Stop},
};

/// Lines of a worker's output that an error repeats.
const OUTPUT_LINES: usize = 12;
/// Bytes of a bad message that an error repeats.
const EXCERPT_BYTES: usize = 120;
/// How long a worker that closed its socket may take to end: a dying process closes its files first.
const EXIT_AFTER_CLOSE: Duration = Duration::from_secs(2);

/// The worker's process, as far as waiting for its messages needs it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    started: Instant,
    pidfd: OwnedFd,
    ended: Option<Ended>,
}

impl Process {
    pub(super) fn new(child: Child) -> io::Result<Self> {
        let started = Instant::now();
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pidfd = pidfd_open(pid.ok_or(rustix::io::Errno::SRCH)?, PidfdFlags::empty())?;
        Ok(Self {
            child,
            started,
            pidfd,
            ended: None,
        })
    }

    pub(super) fn child(&self) -> &Child {
        &self.child
    }

    pub(super) fn accept_worker(
        &mut self,
        listener: &UnixListener,
        until: Until,
        interrupt: &mut Interrupt,
    ) -> Result<UnixStream, Problem> {
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(source) => return Err(socket_error("accept the worker", source)),
            }
            self.wait_ready(listener.as_fd(), PollFlags::IN, until, interrupt)?;
        }
    }

    /// The version is looked at before anything else: a hello of another version may have other keys.
    pub(super) fn receive_hello(
        &mut self,
        connection: &mut Connection,
        until: Until,
        interrupt: &mut Interrupt,
    ) -> Result<WorkerHello, Problem> {
        #[derive(Deserialize)]
        struct AnyHello {
            hello: AnyVersion,
        }
        #[derive(Deserialize)]
        struct AnyVersion {
            version: u64,
        }

        let sent = clock::now();
        let request = Request::Hello(ClientHello {
            version: PROTOCOL_VERSION,
        });
        self.send_request(connection, &request, until, interrupt)?;
        let line = self.receive_message(connection, until, interrupt)?;
        let received = clock::now();
        if let Ok(any) = serde_json::from_slice::<AnyHello>(&line)
            && any.hello.version != u64::from(PROTOCOL_VERSION)
        {
            return Err(Problem::OtherVersion {
                ours: PROTOCOL_VERSION,
                theirs: any.hello.version,
            });
        }
        match parse_reply(&line)? {
            Reply::Hello(hello) if (sent..=received).contains(&hello.monotonic_ns) => Ok(hello),
            Reply::Hello(hello) => Err(Problem::other_clock(hello.monotonic_ns, sent, received)),
            Reply::Error(failure) => Err(Problem::Failed(failure)),
            other => Err(unexpected_reply(&other)),
        }
    }

    pub(super) fn ask_worker(
        &mut self,
        connection: &mut Connection,
        request: &Request,
        until: Until,
        interrupt: &mut Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reply, Problem> {
        self.send_request(connection, request, until, interrupt)?;
        loop {
            let line = self.receive_message(connection, until, interrupt)?;
            match parse_reply(&line)? {
                Reply::Progress(report) => progress(report),
                Reply::Error(failure) => return Err(Problem::Failed(failure)),
                reply => return Ok(reply),
            }
        }
    }

    fn send_request(
        &mut self,
        connection: &mut Connection,
        request: &Request,
        until: Until,
        interrupt: &mut Interrupt,
    ) -> Result<(), Problem> {
        let mut line = serde_json::to_vec(request)
            .map_err(|error| socket_error("write the request", error.into()))?;
        line.push(b'\n');
        let mut sent = 0;
        while sent < line.len() {
            match connection.send_available(&line[sent..]) {
                Ok(0) => self.wait_ready(connection.as_fd(), PollFlags::OUT, until, interrupt)?,
                Ok(more) => sent += more,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                    ) =>
                {
                    return Err(self.explain_gone(false, interrupt));
                }
                Err(source) => return Err(socket_error("write to the worker", source)),
            }
        }
        Ok(())
    }

    fn receive_message(
        &mut self,
        connection: &mut Connection,
        until: Until,
        interrupt: &mut Interrupt,
    ) -> Result<Vec<u8>, Problem> {
        loop {
            match connection
                .receive_available()
                .map_err(|source| socket_error("read from the worker", source))?
            {
                // A late answer is late even if we come to read it later still: the outcome does not depend on our own speed.
                Received::Line(_) if until.has_come() => {
                    return Err(Problem::TimedOut { limit: until.limit });
                }
                Received::Line(line) => return Ok(line),
                Received::TooLong => {
                    return Err(Problem::LineTooLong {
                        limit: connection.max_line(),
                    });
                }
                Received::Closed { mid_line } => return Err(self.explain_gone(mid_line, interrupt)),
                Received::Pending => {
                    self.wait_ready(connection.as_fd(), PollFlags::IN, until, interrupt)?;
                }
            }
        }
    }

    /// Sleeps until `fd` is ready; fails if the worker ends, the user asks to stop or time is up.
    fn wait_ready(
        &mut self,
        fd: BorrowedFd<'_>,
        flags: PollFlags,
        until: Until,
        interrupt: &mut Interrupt,
    ) -> Result<(), Problem> {
        loop {
            // Also what was asked before this call, which wakes nobody up.
            if interrupt.stop_count() > 0 {
                return Err(Problem::Interrupted);
            }
            let watched = [(fd, flags), (self.pidfd.as_fd(), PollFlags::IN)];
            let ready = interrupt
                .wait_for_any(&watched, until.deadline)
                .map_err(|source| socket_error("wait for the worker", source))?;
            // What it said before it ended comes first.
            if ready[0] {
                return Ok(());
            }
            if ready[1] {
                return Err(self.explain_gone(false, interrupt));
            }
            if until.has_come() {
                return Err(Problem::TimedOut { limit: until.limit });
            }
        }
    }

    /// Why nothing more comes from it.
    fn explain_gone(&mut self, mid_message: bool, interrupt: &mut Interrupt) -> Problem {
        match self.wait_exit(interrupt, Some(EXIT_AFTER_CLOSE)) {
            Ok(Ended {
                stopped: Some(Stop::TimedOut),
                ..
            }) => Problem::Closed,
            Ok(ended) => Problem::Died {
                how: ended.describe(),
                mid_message,
            },
            Err(problem) => problem,
        }
    }

    /// Waits for its end; `limit` counts from now.
    pub(super) fn wait_exit(
        &mut self,
        interrupt: &mut Interrupt,
        limit: Option<Duration>,
    ) -> Result<Ended, Problem> {
        // Its id may name another process once it has been waited for.
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        let limit = limit.map(|limit| self.started.elapsed() + limit);
        let ended = self.child.wait(interrupt, limit).map_err(Problem::Start)?;
        self.ended = Some(ended);
        Ok(ended)
    }

    pub(super) fn worker_error(&self, step: WorkerStep, problem: Problem) -> WorkerError {
        let output = if problem.needs_output() {
            self.child.last_lines(OUTPUT_LINES)
        } else {
            Vec::new()
        };
        WorkerError {
            step,
            problem,
            output,
        }
    }
}

pub(super) fn socket_error(action: &'static str, source: io::Error) -> Problem {
    Problem::Socket { action, source }
}

pub(super) fn unexpected_reply(reply: &Reply) -> Problem {
    Problem::Unexpected { got: reply.kind() }
}

fn parse_reply(line: &[u8]) -> Result<Reply, Problem> {
    serde_json::from_slice(line).map_err(|error| {
        let shown = &line[..line.len().min(EXCERPT_BYTES)];
        let mut excerpt = String::from_utf8_lossy(shown).into_owned();
        if shown.len() < line.len() {
            excerpt.push('…');
        }
        Problem::Garbage {
            reason: error.to_string(),
            excerpt,
        }
    })
}
