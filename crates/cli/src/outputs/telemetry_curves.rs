//! Curves of samples as a file, so that a report can be rendered again.

use std::path::Path;

use llmprof_record::store::write_atomically;
use llmprof_report::view::Series;

use super::text;
use crate::failure::Failure;

/// Where the curves of a run are kept.
pub(crate) const FILE: &str = "plots/telemetry.json";

/// Saves the curves; no file where there are none.
pub(super) fn save(curves: &[Series], run: &Path) -> Result<(), Failure> {
    if curves.is_empty() {
        return Ok(());
    }
    let file = run.join(FILE);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::new(format!("cannot create {}: {error}", folder.display()))
        })?;
    }
    write_atomically(&file, text(&curves)?.as_bytes())?;
    Ok(())
}

/// Reads them back; none where a run has no such file.
pub(crate) fn load(run: &Path) -> Result<Vec<Series>, Failure> {
    Ok(super::recorded::json(&run.join(FILE))?.unwrap_or_default())
}
