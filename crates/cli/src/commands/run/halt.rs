//! Why a stage stopped its job.

use llmprof_capture::process::ProcessError;
use llmprof_record::store::StoreError;

use crate::failure::Failure;

pub(super) enum Halt {
    Failed(String),
    Interrupted,
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
