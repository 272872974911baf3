//! What a Python worker leaves behind, and why it did not start.

use std::path::Path;

use llmprof_record::{
    import::{self, Limits, Profile},
    plan::RuntimeType,
    run::RunRecord,
};

use super::Halt;
use crate::{
    process::{Launch, ProcessError},
    runner::{Problem, WorkerError, WorkerStep},
};

/// Reads the history of the allocator that a worker left.
pub(super) fn read_snapshot(path: &Path, record: &mut RunRecord) -> Result<(), Halt> {
    let (_, imported) = import::import(path, &Limits::default())
        .map_err(|error| Halt::failed(error.to_string()))?;
    if let Profile::Memory(history) = imported {
        record.memory = Some(*history);
    }
    Ok(())
}

/// Why a worker did not come as far as its hello. Whatever it was, the interpreter that was named is the first suspect.
pub(super) fn not_started(error: WorkerError, launch: &Launch, kind: RuntimeType) -> Halt {
    let by_interpreter = match &error.problem {
        Problem::Start(ProcessError::NotFound { .. } | ProcessError::Spawn { .. }) => true,
        Problem::Died { .. } | Problem::Closed | Problem::TimedOut { .. } => {
            matches!(error.step, WorkerStep::Connect | WorkerStep::Hello)
        }
        _ => false,
    };
    if !by_interpreter || kind == RuntimeType::Worker {
        return error.into();
    }
    let hint = format!(
        "`{}` was to be a Python interpreter; runtime.python=PATH names one of Python 3 with torch and transformers",
        launch.program
    );
    Halt::of_worker(&error, Some(&hint))
}
