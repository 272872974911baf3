//! Latency and rates of requests.

use llmprof_units::format_significant;

use crate::analyzed::{Analysis, RepeatSummary};
use crate::text::time;

/// What the table's figures are of.
pub(super) fn basis(analysis: &Analysis) -> String {
    let latency = &analysis.latency;
    format!(
        "Plain passes (no profiler attached): {}; warm-up passes, left out: {}. ± is half the 95 % confidence interval of the mean.",
        latency.repeats, latency.warm_up_passes
    )
}

/// `12.3 ms ± 0.4 ms`, the half width of the 95 % interval.
pub(crate) fn with_interval(summary: &RepeatSummary) -> String {
    match summary.ci95_half_width {
        Some(half) => format!("{} ± {}", time(summary.mean), time(half)),
        None => time(summary.mean),
    }
}

/// The same of a rate.
pub(crate) fn rate_with_interval(rate: &RepeatSummary) -> String {
    let half = rate.ci95_half_width;
    let half = half.map(|half| format!(" ± {}", format_significant(half)));
    format!(
        "{}{}",
        format_significant(rate.mean),
        half.unwrap_or_default()
    )
}
