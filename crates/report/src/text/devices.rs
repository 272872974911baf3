//! Devices that are shown one by one.

use llmprof_units::Count;

/// How many a summary shows.
pub const IN_SUMMARY: usize = 16;

/// Devices that are left out, and the file of the run that has them.
pub fn more(count: usize, file: &str) -> String {
    format!("{} more in `{file}`.", Count(count as u64, "device"))
}
