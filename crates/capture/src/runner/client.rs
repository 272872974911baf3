use std::{os::unix::net::UnixListener, path::Path, time::Duration};

use super::{
    check,
    connection::Connection,
    conversation::{Process, socket_error, unexpected_reply},
    error::{Problem, WorkerError, WorkerStep},
    limits::{Limits, Until},
    protocol::{
        Empty, Generate, Generated, Load, Loaded, Measure, Measured, Progress, Reply, Request,
        SOCKET_VARIABLE, Trace, WorkerHello,
    },
};
use llmprof_theory::kernels::TracedModel;

use crate::{
    process::{Ended, Interrupt, Launch, Stop},
    scratch::Scratch,
};

/// A worker that has said hello. Dropping it ends the worker and everything that it started.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    process: Process,
    limits: Limits,
    hello: WorkerHello,
    broken: bool,
}

impl Client {
    /// Starts a worker and hears its hello. The path of its socket is in the environment variable
    /// [`SOCKET_VARIABLE`], so that whatever wraps the worker passes it on. Its output goes to
    /// `logs/<name>.stdout.log` and `logs/<name>.stderr.log`.
    pub fn start(
        launch: &Launch,
        logs: &Path,
        name: &str,
        limits: Limits,
        interrupt: &mut Interrupt,
    ) -> Result<Self, WorkerError> {
        let refuse = |problem| WorkerError {
            step: WorkerStep::Connect,
            problem,
            output: Vec::new(),
        };
        // Not in the run directory: a socket's path may have 107 bytes, a run directory's may have more.
        let folder = Scratch::new()
            .map_err(|source| refuse(socket_error("make a folder for the socket", source)))?;
        let path = folder.path().join("worker");
        let listener = UnixListener::bind(&path)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|source| refuse(socket_error("listen on the socket", source)))?;
        let child = launch
            .clone()
            .env(SOCKET_VARIABLE, path.to_string_lossy())
            .spawn(logs, name)
            .map_err(|error| refuse(Problem::Start(error)))?;
        let mut process = Process::new(child)
            .map_err(|source| refuse(socket_error("watch the worker", source)))?;
        let connected = process
            .accept_worker(&listener, Until::from_now(limits.connect), interrupt)
            .and_then(|stream| {
                Connection::new(stream, limits.max_line_bytes)
                    .map_err(|source| socket_error("use the socket", source))
            });
        let mut connection =
            connected.map_err(|problem| process.worker_error(WorkerStep::Connect, problem))?;
        let hello = process
            .receive_hello(&mut connection, Until::from_now(limits.hello), interrupt)
            .map_err(|problem| process.worker_error(WorkerStep::Hello, problem))?;
        Ok(Self {
            connection,
            process,
            limits,
            hello,
            broken: false,
        })
    }

    pub fn hello(&self) -> &WorkerHello {
        &self.hello
    }

    /// The last `lines` lines that the worker wrote.
    pub fn last_lines(&self, lines: usize) -> Vec<String> {
        self.process.child().last_lines(lines)
    }

    /// Where its standard output and its standard error go.
    pub fn log_paths(&self) -> (&Path, &Path) {
        let child = self.process.child();
        (child.stdout(), child.stderr())
    }

    /// Has it make a model ready.
    pub fn load_model(
        &mut self,
        load: &Load,
        interrupt: &mut Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Loaded, WorkerError> {
        let request = Request::Load(load.clone());
        self.ask_worker(
            WorkerStep::Load,
            &request,
            interrupt,
            progress,
            |reply| match reply {
                Reply::Load(loaded) => check::check_loaded(&loaded)
                    .map(|()| loaded)
                    .map_err(Problem::Inconsistent),
                other => Err(unexpected_reply(&other)),
            },
        )
    }

    /// Has it run a batch whose times do not count.
    pub fn warm_up(
        &mut self,
        batch: &Generate,
        interrupt: &mut Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Generated, WorkerError> {
        let request = Request::WarmUp(batch.clone());
        self.ask_worker(
            WorkerStep::WarmUp,
            &request,
            interrupt,
            progress,
            |reply| match reply {
                Reply::WarmUp(generated) => check_answer(batch, generated),
                other => Err(unexpected_reply(&other)),
            },
        )
    }

    /// Has it run a batch.
    pub fn generate_batch(
        &mut self,
        batch: &Generate,
        interrupt: &mut Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Generated, WorkerError> {
        let request = Request::Generate(batch.clone());
        self.ask_worker(
            WorkerStep::Generate,
            &request,
            interrupt,
            progress,
            |reply| match reply {
                Reply::Generate(generated) => check_answer(batch, generated),
                other => Err(unexpected_reply(&other)),
            },
        )
    }

    /// Has it measure how long kernels take on a device.
    pub fn measure_kernels(
        &mut self,
        request: &Measure,
        interrupt: &mut Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Measured, WorkerError> {
        let request = Request::Measure(request.clone());
        self.ask_worker(
            WorkerStep::Measure,
            &request,
            interrupt,
            progress,
            |reply| match reply {
                Reply::Measure(measured) => Ok(measured),
                other => Err(unexpected_reply(&other)),
            },
        )
    }

    /// Has it find the kernels of a model.
    pub fn trace_model(
        &mut self,
        request: &Trace,
        interrupt: &mut Interrupt,
    ) -> Result<TracedModel, WorkerError> {
        let contexts = request.contexts.len();
        let request = Request::Trace(request.clone());
        self.ask_worker(
            WorkerStep::Trace,
            &request,
            interrupt,
            &mut |_| (),
            |reply| match reply {
                Reply::Trace(traced) if traced.decode.len() == contexts => Ok(traced),
                Reply::Trace(traced) => Err(Problem::Inconsistent(format!(
                    "{} decode steps for {contexts} contexts",
                    traced.decode.len()
                ))),
                other => Err(unexpected_reply(&other)),
            },
        )
    }

    /// Says goodbye and waits until the process has ended, with everything it started.
    pub fn finish(mut self, interrupt: &mut Interrupt) -> Result<Ended, WorkerError> {
        let request = Request::Bye(Empty {});
        self.ask_worker(
            WorkerStep::Bye,
            &request,
            interrupt,
            &mut |_| (),
            |reply| match reply {
                Reply::Bye(Empty {}) => Ok(()),
                other => Err(unexpected_reply(&other)),
            },
        )?;
        drop(self.connection);
        let limit = self.limits.exit;
        self.process
            .wait_exit(interrupt, limit)
            .and_then(|ended| match ended.stopped {
                None => Ok(ended),
                Some(Stop::Interrupted) => Err(Problem::Interrupted),
                Some(Stop::TimedOut) => Err(Problem::TimedOut {
                    limit: limit.unwrap_or_default(),
                }),
            })
            .map_err(|problem| self.process.worker_error(WorkerStep::Exit, problem))
    }

    /// Ends the worker now, kindly at first, whatever it is doing.
    pub fn abort(mut self, interrupt: &mut Interrupt) -> Result<Ended, WorkerError> {
        self.process
            .wait_exit(interrupt, Some(Duration::ZERO))
            .map_err(|problem| self.process.worker_error(WorkerStep::Exit, problem))
    }

    fn ask_worker<T>(
        &mut self,
        step: WorkerStep,
        request: &Request,
        interrupt: &mut Interrupt,
        progress: &mut dyn FnMut(Progress),
        accept: impl FnOnce(Reply) -> Result<T, Problem>,
    ) -> Result<T, WorkerError> {
        let until = Until::from_now(self.limits.limit_of(step));
        let answer = if self.broken {
            Err(Problem::Broken)
        } else {
            self.process
                .ask_worker(&mut self.connection, request, until, interrupt, progress)
                .and_then(accept)
        };
        answer.map_err(|problem| {
            self.broken |= !problem.is_answer();
            self.process.worker_error(step, problem)
        })
    }
}

fn check_answer(batch: &Generate, answer: Generated) -> Result<Generated, Problem> {
    check::check_generated(batch, &answer)
        .map(|()| answer)
        .map_err(Problem::Inconsistent)
}
