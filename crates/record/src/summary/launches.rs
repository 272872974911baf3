//! Which API call launched what, and inside which ranges.

use std::collections::HashMap;

use crate::trace::{HostKind, RangeKind, ThreadId, Trace};

/// Rows of API calls by the correlation id that their device activities carry.
pub(super) struct Calls(HashMap<u32, usize>);

impl Calls {
    pub(super) fn by_correlation(trace: &Trace) -> Self {
        let mut calls = HashMap::new();
        for (row, (&correlation, &kind)) in trace
            .hosts
            .correlation
            .iter()
            .zip(trace.hosts.kind.iter())
            .enumerate()
        {
            if correlation != 0 && is_api(kind) {
                // Rows are sorted with the outer call first: a runtime call before the driver call inside it.
                calls.entry(correlation).or_insert(row);
            }
        }
        Self(calls)
    }

    pub(super) fn get(&self, correlation: u32) -> Option<usize> {
        if correlation == 0 {
            None
        } else {
            self.0.get(&correlation).copied()
        }
    }
}

pub(super) fn is_api(kind: HostKind) -> bool {
    kind == HostKind::RUNTIME || kind == HostKind::DRIVER
}

pub(super) fn is_nvtx(kind: RangeKind) -> bool {
    kind == RangeKind::NVTX || kind == RangeKind::NVTX_START_END
}

/// For every API call that launched something, the NVTX ranges of its thread that hold the whole call, outermost first.
pub(super) fn ranges_around(
    trace: &Trace,
    calls: impl Iterator<Item = usize>,
) -> HashMap<usize, Vec<usize>> {
    let mut calls: Vec<usize> = calls.collect();
    calls.sort_unstable();
    calls.dedup();
    let mut around: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut open: Vec<usize> = Vec::new();
    let mut thread = ThreadId::NONE;
    let mut next = 0;
    let end = |row: usize| trace.ranges.start[row].saturating_add(trace.ranges.duration[row]);
    // Both tables are sorted by thread and start, so one walk over both finds all pairs.
    for call in calls {
        let (call_thread, call_start) = (trace.hosts.thread[call], trace.hosts.start[call]);
        let call_end = call_start.saturating_add(trace.hosts.duration[call]);
        if call_thread != thread {
            open.clear();
            thread = call_thread;
        }
        while next < trace.ranges.len() {
            let (range_thread, range_start) = (trace.ranges.thread[next], trace.ranges.start[next]);
            if (range_thread, range_start) > (call_thread, call_start) {
                break;
            }
            if range_thread == call_thread && is_nvtx(trace.ranges.kind[next]) {
                open.push(next);
            }
            next += 1;
        }
        open.retain(|range| end(*range) >= call_start);
        let holding: Vec<usize> = open
            .iter()
            .copied()
            .filter(|range| end(*range) >= call_end)
            .collect();
        if !holding.is_empty() {
            around.insert(call, holding);
        }
    }
    around
}
