//! Ranges of the program around forward passes: what runs between the start of such a range and the pass belongs to the pass.

use llmprof_record::trace::{ThreadId, Trace};
use rustc_hash::FxHashMap;

use super::forward_pass::ForwardPass;
use crate::labels::{is_annotation, own_name};

/// When each pass begins: with the largest range of its thread that holds no pass before it, and none of another kind.
pub(super) fn pass_starts(trace: &Trace, thread: u32, passes: &[ForwardPass]) -> Vec<i64> {
    let mut starts: Vec<i64> = passes.iter().map(|pass| pass.start).collect();
    let ranges = &trace.ranges;
    let mut is_own = FxHashMap::default();
    for row in 0..ranges.len() {
        if ranges.thread[row] != ThreadId(thread) || !is_annotation(ranges.kind[row]) {
            continue;
        }
        let name = ranges.name[row];
        if !*is_own
            .entry(name)
            .or_insert_with(|| own_name(trace.text(name)).is_some())
        {
            continue;
        }
        let start = ranges.start[row];
        let end = start.saturating_add(ranges.duration[row]);
        let first = passes.partition_point(|pass| pass.start < start);
        let last = passes.partition_point(|pass| pass.start < end);
        let within = passes.get(first..last).unwrap_or_default();
        let Some(kind) = within.first().map(ForwardPass::is_decode) else {
            continue;
        };
        if within.iter().all(|pass| pass.is_decode() == kind) {
            starts[first] = starts[first].min(start);
        }
    }
    starts
}
