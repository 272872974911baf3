//! What the GPU time went to, whatever the bottleneck is.

use llmprof_units::{Nanos, Percent};

use crate::analyzed::{Analysis, TraceAnalysis};
use crate::kernel_label::kernel_label;

/// Kernels that are named.
const KERNELS_NAMED: usize = 5;
/// Categories that are named; the rest shares an entry.
const CATEGORIES_NAMED: usize = 5;
/// A smaller share of the GPU time is not named.
const MIN_NAMED_SHARE: f64 = 0.01;

/// GPU time by category, and the kernels with most of it. Shares are of the summed times of all kernels, copies and memsets.
pub fn lines(analysis: &Analysis) -> Vec<String> {
    let Some(timeline) = analysis.timeline.as_deref() else {
        return Vec::new();
    };
    let all = timeline.totals.device_time_ns;
    if timeline.kernels.is_empty() || all <= Nanos(0) {
        return Vec::new();
    }
    let share = |time: Nanos| time.0 as f64 / all.0 as f64;
    let mut categories = by_category(timeline);
    let rest: i64 = categories
        .drain(CATEGORIES_NAMED.min(categories.len())..)
        .map(|(_, time)| time)
        .sum();
    let mut parts: Vec<String> = categories
        .iter()
        .filter(|(_, time)| share(Nanos(*time)) >= MIN_NAMED_SHARE)
        .map(|(name, time)| format!("{name} {}", Percent(share(Nanos(*time)))))
        .collect();
    if share(Nanos(rest)) >= MIN_NAMED_SHARE {
        parts.push(format!("rest {}", Percent(share(Nanos(rest)))));
    }
    let mut lines = vec![format!("GPU time {all}: {}.", parts.join(", "))];
    let kernels = timeline.kernels.iter().take(KERNELS_NAMED);
    let kernels: Vec<String> = kernels
        .filter(|kernel| share(kernel.total_ns) >= MIN_NAMED_SHARE)
        .map(|kernel| {
            let label = kernel_label(&kernel.name);
            format!(
                "`{label}` {} ({} ×)",
                Percent(share(kernel.total_ns)),
                kernel.calls
            )
        })
        .collect();
    if !kernels.is_empty() {
        lines.push(format!("Top kernels: {}.", kernels.join(", ")));
    }
    lines
}

/// The time of each category of kernels, of copies and of memsets, the longest first.
fn by_category(timeline: &TraceAnalysis) -> Vec<(String, i64)> {
    let mut sums: Vec<(String, i64)> = Vec::new();
    let mut add = |name: String, time: i64| match sums.iter_mut().find(|(known, _)| *known == name)
    {
        Some((_, sum)) => *sum = sum.saturating_add(time),
        None => sums.push((name, time)),
    };
    for kernel in &timeline.kernels {
        add(kernel.category.to_string(), kernel.total_ns.0);
    }
    for transfer in &timeline.transfers {
        add("copies and memsets".to_owned(), transfer.total_ns.0);
    }
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}
