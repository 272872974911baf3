//! The jobs of a sweep side by side.

use llmprof_units::format_significant;

pub(super) const TITLE: &str = "Jobs side by side";
/// The head of the column that compares tokens/s.
pub(super) const AGAINST_FIRST: &str = "TOKENS/S ÷ JOB 0";

/// A phase that was measured and has no class.
pub(super) const NO_BOTTLENECK: &str = "none dominant";

/// A job with what tells it from the others.
pub(super) fn job(number: usize, overrides: &str) -> String {
    if overrides.is_empty() {
        format!("job {number}")
    } else {
        format!("job {number} ({overrides})")
    }
}

/// `of_first`: the rate as a multiple of that of job 0.
pub(super) fn most_tokens(job: &str, rate: f64, of_first: Option<f64>) -> String {
    let ratio = of_first.map_or_else(String::new, |ratio| format!(", {ratio:.2}× job 0"));
    format!(
        "Most tokens/s: {job}, {} tokens/s{ratio}.",
        format_significant(rate)
    )
}

pub(super) fn lowest(metric: &str, job: &str, time: &str) -> String {
    format!("Lowest {metric}: {job}, {time}.")
}

/// The job with the best mean is no winner of those that may be as good.
pub(super) fn no_winner(name: &str, best: usize, rivals: &[usize]) -> String {
    let others: Vec<String> = rivals.iter().map(ToString::to_string).collect();
    let those = match others.as_slice() {
        [one] => format!("that of job {one}"),
        _ => format!("those of jobs {}", others.join(", ")),
    };
    format!("{name}: cannot tell from noise; the 95 % interval of job {best} overlaps {those}.")
}

pub(super) fn no_intervals(name: &str) -> String {
    format!(
        "{name}: cannot tell from noise, since one pass has no interval; runtime.repeats=5 measures five."
    )
}

pub(super) fn incomplete(jobs: usize, all: usize) -> String {
    format!("{jobs} of {all} jobs did not complete.")
}

pub(super) fn basis(has_energy: bool) -> String {
    let energy = if has_energy {
        " J/token is energy of decode."
    } else {
        ""
    };
    format!(
        "TTFT, TPOT and tokens/s are means over the plain passes; ± is half the 95 % confidence interval of the mean, which one pass does not give.{energy}"
    )
}

pub(super) fn common(overrides: &[String]) -> String {
    format!("All jobs: {}", overrides.join(" "))
}
