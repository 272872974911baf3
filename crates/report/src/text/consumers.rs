//! What the GPU time went to, whatever the bottleneck is.

use llmprof_units::{Count, Nanos, Percent};

use crate::analyzed::{Analysis, CollectiveKind, OperatorRow, OwnCollectives, TraceAnalysis};
use crate::kernel_label::kernel_label;
use crate::text::job::group_kind;

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
    if all <= Nanos(0) {
        return host_operators(timeline);
    }
    let share = |time: Nanos| time.0 as f64 / all.0 as f64;
    let mut categories = by_category(timeline);
    let rest: i64 = categories
        .drain(CATEGORIES_NAMED.min(categories.len())..)
        .map(|(_, time)| time)
        .fold(0, i64::saturating_add);
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

/// Operators of the host by their own time, where no device was recorded.
fn host_operators(timeline: &TraceAnalysis) -> Vec<String> {
    let own = |row: &OperatorRow| row.times.host_self_ns;
    let all = timeline.operators.iter().map(|row| own(row).0);
    let all = all.fold(0, i64::saturating_add);
    if all <= 0 {
        return Vec::new();
    }
    let share = |time: Nanos| time.0 as f64 / all as f64;
    let mut rows: Vec<&OperatorRow> = timeline.operators.iter().collect();
    rows.sort_by(|a, b| own(b).cmp(&own(a)).then_with(|| a.name.cmp(&b.name)));
    let rows = rows.into_iter().take(KERNELS_NAMED);
    let rows: Vec<String> = rows
        .filter(|row| share(own(row)) >= MIN_NAMED_SHARE)
        .map(|row| {
            let percent = Percent(share(own(row)));
            format!(
                "`{}` {percent} ({} ×)",
                kernel_label(&row.name),
                row.times.calls
            )
        })
        .collect();
    vec![format!(
        "Host time in ops, all threads, {}: {}.",
        Nanos(all),
        rows.join(", ")
    )]
}

/// Collectives of one rank: calls, time, bytes and bus bandwidth.
pub fn collectives(analysis: &Analysis) -> Option<String> {
    let rows = analysis.collectives.iter().take(KERNELS_NAMED);
    let rows: Vec<String> = rows.map(collective).collect();
    (!rows.is_empty()).then(|| {
        format!(
            "Collectives of this rank, waiting for other ranks included: {}.",
            rows.join("; ")
        )
    })
}

fn collective(row: &OwnCollectives) -> String {
    let group = match row.group_size {
        0 => String::new(),
        size => format!(" among {size} ranks"),
    };
    let group = match row.group {
        Some(kind) => format!("{group} ({})", group_kind(kind)),
        None => group,
    };
    let calls = Count(row.calls, "call");
    let calls = match row.kind {
        CollectiveKind::Other => format!("{calls} of unknown kind"),
        kind => format!("{} {calls}", kind.name()),
    };
    let mut text = format!("{calls}{group}, {} in all", row.time_ns);
    if let (Some(bytes), Some(rate)) = (row.bytes, row.bus_bytes_per_s) {
        text += &format!(", {bytes}, bus bandwidth at least {rate}");
    }
    text
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
