//! The jobs of a sweep side by side.

pub(super) const TITLE: &str = "Jobs side by side";
/// The head of the column that compares tokens/s.
pub(super) const AGAINST_FIRST: &str = "TOKENS/S ÷ JOB 0";

/// A phase that was measured and has no class.
pub(super) const NO_BOTTLENECK: &str = "none dominant";

/// What the columns are.
pub(super) fn basis(has_energy: bool) -> String {
    let energy = if has_energy {
        " J/token is energy of decode."
    } else {
        ""
    };
    format!(
        "TTFT, TPOT and tokens/s are means over the plain passes; each job's own report has the intervals.{energy}"
    )
}

pub(super) fn common(overrides: &[String]) -> String {
    format!("All jobs: {}", overrides.join(" "))
}
