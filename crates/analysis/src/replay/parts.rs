//! Parts of a trace that are replayed, each by itself.

use std::ops::Range;

use super::windows::HostWindow;

/// A part that holds all of a trace.
pub(super) const WHOLE: HostWindow = HostWindow {
    start: i64::MIN,
    end: i64::MAX,
};

/// A stretch of time whose events the graph holds. The host begins it when it did in the recording, and finds the streams as they were.
#[derive(Clone, Debug)]
pub(super) struct GraphPart {
    pub(super) window: HostWindow,
    pub(super) nodes: Range<usize>,
    /// By stream: when the work ends that was launched before.
    pub(super) stream_ends: Vec<i64>,
    /// When the program's streams have done what was launched before.
    pub(super) device_end: i64,
}

/// Which of sorted, disjoint parts holds a time.
pub(super) fn part_at(parts: &[HostWindow], time: i64) -> Option<usize> {
    let after = parts.partition_point(|part| part.start <= time);
    let part = after.checked_sub(1)?;
    (time < parts[part].end).then_some(part)
}
