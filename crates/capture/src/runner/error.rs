use std::{fmt, io, time::Duration};

use llmprof_units::Nanos;

use super::protocol::Failure;
use crate::process::ProcessError;

/// A step of a worker's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerStep {
    /// From its start until it is on the socket.
    Connect,
    Hello,
    Load,
    /// A batch that does not count.
    WarmUp,
    Generate,
    Measure,
    /// Finding the kernels of a model.
    Trace,
    Bye,
    /// From its goodbye until its process has ended.
    Exit,
}

impl fmt::Display for WorkerStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Hello => "start",
            Self::Load => "load the model",
            Self::WarmUp => "warm up",
            Self::Generate => "generate",
            Self::Measure => "measure kernels",
            Self::Trace => "trace the model",
            Self::Bye => "say goodbye",
            Self::Exit => "exit",
        })
    }
}

/// A step that a worker did not complete.
#[derive(Debug)]
pub struct WorkerError {
    pub step: WorkerStep,
    pub problem: Problem,
    /// The last lines that the worker wrote; empty where they would explain nothing.
    pub output: Vec<String>,
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the worker did not {}: {}", self.step, self.problem)?;
        if matches!(self.problem, Problem::Died { .. }) && self.output.is_empty() {
            f.write_str(" and wrote nothing")?;
        }
        if !self.output.is_empty() {
            f.write_str("\nits last output:")?;
            for line in &self.output {
                write!(f, "\n  | {line}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for WorkerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Start(source) => Some(source),
            Problem::Socket { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Why a step was not completed.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Its process could not be started or waited for.
    #[error("{0}")]
    Start(ProcessError),
    /// The socket failed on our side.
    #[error("cannot {action}: {source}")]
    Socket {
        action: &'static str,
        source: io::Error,
    },
    #[error("it ended ({how}){}", if *.mid_message { " in the middle of a message" } else { "" })]
    Died {
        how: String,
        /// Whether it had begun a message.
        mid_message: bool,
    },
    /// It closed the socket and went on running.
    #[error("it closed the connection")]
    Closed,
    /// It took longer than it was given.
    #[error("it took longer than {limit:?}")]
    TimedOut {
        /// The time limit of the step.
        limit: Duration,
    },
    /// It sent something that is not a message.
    #[error("it sent an invalid message: {reason} in `{excerpt}`")]
    Garbage {
        /// What is wrong with it.
        reason: String,
        excerpt: String,
    },
    /// It sent a line without end.
    #[error("it sent a line longer than {limit} bytes")]
    LineTooLong { limit: usize },
    /// It speaks another version of the protocol.
    #[error("it speaks version {theirs} of the protocol, llmprof speaks {ours}")]
    OtherVersion { ours: u32, theirs: u64 },
    /// Its times are not on our clock, so nothing it reports could be placed.
    #[error("its clock is not ours: it read {theirs} ns between {sent} ns and {received} ns")]
    OtherClock {
        theirs: i64,
        /// When llmprof sent the request, ns.
        sent: i64,
        /// When its answer was there.
        received: i64,
    },
    /// It answered a question that was not asked.
    #[error("it answered with `{got}`")]
    Unexpected {
        /// The kind of its answer.
        got: &'static str,
    },
    /// Its answer contradicts itself or the request.
    #[error("its answer makes no sense: {0}")]
    Inconsistent(String),
    /// It failed for a reason it knows; it can be asked again.
    #[error("{}{}", .0.message, .0.hint.as_ref().map(|hint| format!(" (hint: {hint})")).unwrap_or_default())]
    Failed(Failure),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// An earlier step broke the conversation.
    #[error("an earlier step failed")]
    Broken,
}

impl Problem {
    pub(super) fn other_clock(theirs: Nanos, sent: Nanos, received: Nanos) -> Self {
        Self::OtherClock {
            theirs: theirs.0,
            sent: sent.0,
            received: received.0,
        }
    }

    /// Whether the conversation can go on after it.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Whether the worker's own words would help to understand it.
    pub(super) fn needs_output(&self) -> bool {
        !matches!(
            self,
            Self::Failed(_) | Self::Interrupted | Self::Broken | Self::Start(_)
        )
    }
}
