//! Recordings whose recorder was killed: its processes wrote until then, and what they wrote is read here.

use llmprof_record::{
    import::wire,
    issue::{Issue, IssueCode},
    run::RunRecord,
    store::{Liveness, LockedRun, StoredRun},
};
use llmprof_units::Bytes;

use super::read;
use crate::{
    failure::Failure,
    recording::{WIRE_FOLDER, scrub},
};

/// What processes had written when their recorder was killed.
pub(crate) struct Unread {
    pub(crate) files: usize,
    pub(crate) bytes: Bytes,
}

/// What is left of a recording whose recorder is gone and has not read it.
pub(crate) fn find_unread(run: &StoredRun) -> Option<Unread> {
    let is_killed = run.manifest.experiment == "record" && run.liveness() == Liveness::Dead;
    if !is_killed || has_record(run) {
        return None;
    }
    let files = wire::wire_files(&run.path.join(WIRE_FOLDER)).unwrap_or_default();
    let sizes = files.iter().filter_map(|file| file.symlink_metadata().ok());
    Some(Unread {
        files: files.len(),
        bytes: sizes.map(|file| Bytes(file.len())).sum(),
    })
}

fn has_record(run: &StoredRun) -> bool {
    RunRecord::load(&run.path).is_ok_and(|record| record.is_some_and(|record| !record.is_empty()))
}

/// Reads what was recorded until the recorder was killed into the record of its run. Nothing happens to other runs.
pub(crate) fn recover(locked: &mut LockedRun) -> Result<(), Failure> {
    let run = &mut locked.run;
    let is_killed = run.manifest.experiment == "record" && run.manifest.finished.is_none();
    let folder = run.path.join(WIRE_FOLDER);
    let files = wire::wire_files(&folder).unwrap_or_default();
    if !is_killed || has_record(run) || files.is_empty() {
        return Ok(());
    }
    let mut issues = scrub(&folder);
    let mut record = read(&[folder])?;
    issues.push(Issue::error(IssueCode::RecordRecorderKilled));
    record.issues = issues;
    record.save(&run.path)?;
    Ok(())
}
