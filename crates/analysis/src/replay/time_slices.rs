//! Times in which another process has the device: work of this one is queued, nothing keeps it back, and nothing of it runs.

use crate::thresholds::{GPU_SLICE_MIN_NS, GPU_SLICES_ALIKE_MIN_SHARE, GPU_SLICES_MIN};
use llmprof_record::trace::Trace;
use llmprof_units::stats::upper_median;

use super::graph::Graph;
use super::parts::part_at;
use super::windows::HostWindow;

/// Slices are alike: most of them are this close to their median.
const ALIKE_RANGE: std::ops::RangeInclusive<f64> = 0.75..=1.3;

/// Parts of the names of calls and kernels that keep queued work waiting for the host or for another device, which the trace does not
/// show.
const HIDDEN_WAITS: [&str; 6] = [
    "LaunchHostFunc",
    "StreamAddCallback",
    "StreamWaitValue",
    "IpcOpenEventHandle",
    "nccl",
    "cross_device_reduce",
];

/// Slices of other processes in order of time; empty where what is idle is not explained by them.
pub(super) fn time_slices(graph: &Graph, trace: &Trace) -> Vec<(i64, i64)> {
    let may_wait = |name: &str| HIDDEN_WAITS.iter().any(|part| name.contains(part));
    if trace.strings.iter().any(may_wait) {
        return Vec::new();
    }
    let idle = idle_while_queued(graph);
    let mut lengths: Vec<i64> = idle.iter().map(|(start, end)| end - start).collect();
    let Some(median) = upper_median(&mut lengths) else {
        return Vec::new();
    };
    let is_alike = |length: &&i64| ALIKE_RANGE.contains(&(**length as f64 / median as f64));
    let alike = lengths.iter().filter(is_alike).count();
    if idle.len() < GPU_SLICES_MIN
        || (alike as f64) < GPU_SLICES_ALIKE_MIN_SHARE * idle.len() as f64
    {
        return Vec::new();
    }
    idle
}

/// Times in which a kernel or copy was launched, all that began before it had ended, and it did not begin.
fn idle_while_queued(graph: &Graph) -> Vec<(i64, i64)> {
    let windows: Vec<HostWindow> = graph.parts.iter().map(|part| part.window).collect();
    let ends_before = |launched: i64| {
        let part = part_at(&windows, launched)?;
        graph.parts[part].stream_ends.iter().copied().max()
    };
    let mut order: Vec<usize> = (0..graph.work.len()).collect();
    order.sort_by_key(|&work| graph.work[work].start);
    let mut idle = Vec::new();
    let mut ended = i64::MIN;
    for index in order {
        let work = &graph.work[index];
        let segment = work.segment as usize;
        // A call that loads code returns when that is done.
        let call = graph
            .row_of_segment(segment)
            .map_or(segment, |row| graph.segments_of_row(row).end - 1);
        let returned = graph.segment_start(call) + graph.segment_duration(call);
        let before = ends_before(graph.segment_start(segment)).unwrap_or(i64::MIN);
        let ready = returned.max(ended).max(before);
        if work.start.saturating_sub(ready) >= GPU_SLICE_MIN_NS {
            idle.push((ready, work.start));
        }
        ended = ended.max(work.end());
    }
    idle
}
