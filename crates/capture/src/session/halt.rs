//! Why a run stopped before its end.

use llmprof_record::{run::RecordError, store::StoreError};

use crate::{
    process::ProcessError,
    runner::{Problem, WorkerError, WorkerStep},
};

#[derive(Debug)]
pub enum Halt {
    Failed {
        message: String,
        hint: Option<String>,
    },
    Interrupted,
}

impl Halt {
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
            hint: None,
        }
    }

    /// That of a worker, with what helps.
    pub(super) fn of_worker(error: &WorkerError, hint: Option<&str>) -> Self {
        if matches!(error.problem, Problem::Interrupted) {
            return Self::Interrupted;
        }
        Self::Failed {
            message: error.to_string(),
            hint: hint.map(str::to_owned),
        }
    }

    /// The first line of what failed.
    pub(super) fn first_line(&self) -> &str {
        match self {
            Self::Failed { message, .. } => message.lines().next().unwrap_or_default(),
            Self::Interrupted => "it was interrupted",
        }
    }
}

impl From<WorkerError> for Halt {
    fn from(error: WorkerError) -> Self {
        let slow = matches!(error.problem, Problem::TimedOut { .. })
            && matches!(
                error.step,
                WorkerStep::Load | WorkerStep::WarmUp | WorkerStep::Generate
            );
        let hint = slow.then_some("runtime.timeout_s=SECONDS gives a step more time");
        Self::of_worker(&error, hint)
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed {
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<RecordError> for Halt {
    fn from(error: RecordError) -> Self {
        Self::Failed {
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<ProcessError> for Halt {
    fn from(error: ProcessError) -> Self {
        Self::failed(error.to_string())
    }
}
