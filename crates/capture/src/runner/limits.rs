use std::time::{Duration, Instant};

use super::{error::WorkerStep, protocol::MAX_LINE_BYTES};

/// How long each step may take; `None` waits for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the process to its connection.
    pub connect: Option<Duration>,
    /// To say hello; a Python worker imports its libraries here.
    pub hello: Option<Duration>,
    pub load: Option<Duration>,
    pub warm_up: Option<Duration>,
    pub generate: Option<Duration>,
    pub bye: Option<Duration>,
    /// From goodbye to the end of the process: libraries give the device back here, and a profiler writes its report.
    pub exit: Option<Duration>,
    /// The longest line that is accepted, in bytes.
    pub max_line_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        Self {
            connect: seconds(120),
            hello: seconds(300),
            load: seconds(1800),
            warm_up: seconds(1800),
            generate: seconds(1800),
            bye: seconds(60),
            exit: seconds(60),
            max_line_bytes: MAX_LINE_BYTES,
        }
    }
}

impl Limits {
    /// No limits in time: under a profiler that replays kernels a step may take hours.
    pub fn without_limits() -> Self {
        Self {
            connect: None,
            hello: None,
            load: None,
            warm_up: None,
            generate: None,
            bye: None,
            exit: None,
            max_line_bytes: MAX_LINE_BYTES,
        }
    }

    pub(super) fn limit_of(&self, step: WorkerStep) -> Option<Duration> {
        match step {
            WorkerStep::Connect => self.connect,
            WorkerStep::Hello => self.hello,
            WorkerStep::Load => self.load,
            WorkerStep::WarmUp => self.warm_up,
            WorkerStep::Generate | WorkerStep::Measure | WorkerStep::Trace => self.generate,
            WorkerStep::Bye => self.bye,
            WorkerStep::Exit => self.exit,
        }
    }
}

/// A time limit that has begun to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    pub(super) limit: Duration,
    /// The wait has no end if this is `None`.
    pub(super) deadline: Option<Instant>,
}

impl Until {
    pub(super) fn from_now(limit: Option<Duration>) -> Self {
        Self {
            limit: limit.unwrap_or_default(),
            deadline: limit.and_then(|limit| Instant::now().checked_add(limit)),
        }
    }

    pub(super) fn has_come(self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }
}
