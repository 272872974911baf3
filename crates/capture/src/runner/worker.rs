use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use super::protocol::{
    Empty, Failure, FailureKind, Generate, Generated, Load, Loaded, MAX_LINE_BYTES,
    PROTOCOL_VERSION, Progress, Reply, Request, WorkerHello,
};
use crate::clock;

/// How often progress is sent at most: it must not disturb what is measured.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// What a worker written in Rust can do.
pub trait Backend {
    /// The runtime's name and version.
    fn runtime_version(&self) -> (String, String);

    /// Makes a model ready, in place of the one before.
    fn load_model(
        &mut self,
        load: Load,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Loaded, Failure>;

    /// Runs a batch. `warm_up` says that its times do not count.
    fn generate_batch(
        &mut self,
        batch: Generate,
        warm_up: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Generated, Failure>;
}

/// Why a worker cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket is not there or broke.
    #[error("cannot {action}: {source}")]
    Socket {
        action: &'static str,
        source: io::Error,
    },
    /// llmprof sent a line without end.
    #[error("a request is longer than {MAX_LINE_BYTES} bytes")]
    LineTooLong,
}

/// Connects to `path` and answers requests until goodbye, or until the other side is gone.
pub fn serve_requests(backend: &mut dyn Backend, path: &Path) -> Result<(), ServeError> {
    let failed = |action| move |source| ServeError::Socket { action, source };
    let stream = UnixStream::connect(path).map_err(failed("connect to llmprof"))?;
    let mut output = stream.try_clone().map_err(failed("connect to llmprof"))?;
    let mut input = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let read = (&mut input)
            .take(MAX_LINE_BYTES as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(failed("read a request"))?;
        if read == 0 {
            return Ok(());
        }
        if read > MAX_LINE_BYTES {
            return Err(ServeError::LineTooLong);
        }
        let reply = match serde_json::from_slice(&line) {
            Ok(request) => answer_request(backend, request, &mut output),
            Err(error) => Reply::Error(Failure::new(
                FailureKind::Protocol,
                format!("not a request of protocol version {PROTOCOL_VERSION}: {error}"),
            )),
        };
        send_reply(&mut output, &reply).map_err(failed("answer a request"))?;
        if matches!(reply, Reply::Bye(_)) {
            return Ok(());
        }
    }
}

fn answer_request(backend: &mut dyn Backend, request: Request, output: &mut UnixStream) -> Reply {
    let mut last: Option<Instant> = None;
    let mut progress = |report: Progress| {
        let now = Instant::now();
        let due = last.is_none_or(|last| now.duration_since(last) >= PROGRESS_EVERY);
        if due || report.done == report.total {
            last = Some(now);
            // Progress is no part of the answer: if it cannot be sent, the answer will say so.
            let _ = send_reply(output, &Reply::Progress(report));
        }
    };
    let reply = match request {
        // Whatever version the other side speaks, it learns ours and decides.
        Request::Hello(_) => {
            let (runtime, runtime_version) = backend.runtime_version();
            Ok(Reply::Hello(WorkerHello {
                version: PROTOCOL_VERSION,
                runtime,
                runtime_version,
                pid: std::process::id(),
                monotonic_ns: clock::now(),
            }))
        }
        Request::Load(load) => backend.load_model(load, &mut progress).map(Reply::Load),
        Request::WarmUp(batch) => backend
            .generate_batch(batch, true, &mut progress)
            .map(Reply::WarmUp),
        Request::Generate(batch) => backend
            .generate_batch(batch, false, &mut progress)
            .map(Reply::Generate),
        Request::Measure(_) | Request::Trace(_) => Err(Failure::new(
            FailureKind::Unsupported,
            "kernels are measured and traced by the PyTorch worker",
        )),
        Request::Bye(Empty {}) => Ok(Reply::Bye(Empty {})),
    };
    reply.unwrap_or_else(Reply::Error)
}

fn send_reply(output: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    output.write_all(&line)
}
