//! What an attempt at a job of a sweep left, before another one.

use std::path::Path;

use llmprof_record::{
    predictions::DirectRequest,
    store::{Liveness, StoredRun},
};

use crate::failure::Failure;

/// Moves what an attempt left in a job's directory beside it, so that nothing is overwritten. Direct inference stays: it goes on
/// with the samples that are left. A run that goes on is left alone.
pub(super) fn set_aside(run: &StoredRun, dir: &Path) -> Result<(), Failure> {
    if run.liveness() == Liveness::Live {
        return Err(Failure::new(format!("{} is still running", dir.display()))
            .hint("wait for it, or end it first".to_owned()));
    }
    if matches!(DirectRequest::load(dir), Ok(Some(_))) {
        return Ok(());
    }
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let mut places = (1..).map(|count| dir.with_file_name(format!("{name}.attempt{count}")));
    let aside = places
        .find(|place| place.symlink_metadata().is_err())
        .expect("some number is free");
    std::fs::rename(dir, &aside)
        .map_err(|error| Failure::new(format!("cannot move {} aside: {error}", dir.display())))
}
