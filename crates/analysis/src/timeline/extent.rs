//! First and last moments of a trace.

use llmprof_record::trace::Trace;

/// First and last moment of some events, given by columns of starts and durations.
fn extent_of(columns: &[(&[i64], &[i64])]) -> Option<(i64, i64)> {
    let mut extent: Option<(i64, i64)> = None;
    for (starts, durations) in columns {
        for (row, &start) in starts.iter().enumerate() {
            let end = start.saturating_add(durations.get(row).copied().unwrap_or(0));
            extent = Some(extent.map_or((start, end), |(first, last)| {
                (first.min(start), last.max(end))
            }));
        }
    }
    extent
}

/// First start and last end of host slices.
pub(crate) fn host_span(trace: &Trace) -> Option<(i64, i64)> {
    extent_of(&[(&trace.hosts.start, &trace.hosts.duration)])
}

/// First and last moment of any event.
pub(crate) fn trace_span(trace: &Trace) -> Option<(i64, i64)> {
    extent_of(&[
        (&trace.hosts.start, &trace.hosts.duration),
        (&trace.kernels.start, &trace.kernels.duration),
        (&trace.copies.start, &trace.copies.duration),
        (&trace.memsets.start, &trace.memsets.duration),
        (&trace.ranges.start, &trace.ranges.duration),
        (&trace.syncs.start, &trace.syncs.duration),
        (&trace.memory.time, &[]),
    ])
}
