//! Why a stage stopped its job.

use llmprof_capture::{
    process::ProcessError,
    runner::{Problem, WorkerError},
};
use llmprof_record::store::StoreError;

use crate::failure::Failure;

pub(super) enum Halt {
    Failed(String),
    Interrupted,
}

impl Halt {
    /// That of a worker, with what helps. Advice has a line of its own: a worker's last output may stand before it.
    pub(super) fn of_worker(error: &WorkerError, advice: Option<&str>) -> Self {
        if matches!(error.problem, Problem::Interrupted) {
            return Self::Interrupted;
        }
        let advice = advice.map(|advice| format!("\nhint: {advice}"));
        Self::Failed(format!("{error}{}", advice.unwrap_or_default()))
    }
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.in_a_line())
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::from(Failure::from(error))
    }
}

impl From<ProcessError> for Halt {
    fn from(error: ProcessError) -> Self {
        Self::Failed(error.to_string())
    }
}
