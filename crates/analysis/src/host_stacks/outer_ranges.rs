//! The outermost range of each thread at a moment: what a program calls its phases and steps.

use std::collections::{HashMap, HashSet};

use llmprof_record::trace::{RangeKind, ThreadId, Trace};

pub(super) struct OuterRanges<'a> {
    /// Start, end and name, in order and without overlap.
    by_thread: HashMap<ThreadId, Vec<(i64, i64, &'a str)>>,
}

impl<'a> OuterRanges<'a> {
    pub(super) fn read(trace: &'a Trace, threads: &HashSet<ThreadId>) -> Self {
        let mut by_thread: HashMap<ThreadId, Vec<(i64, i64, &str)>> = HashMap::new();
        // By thread and start, the longer first: an outer range comes before those in it.
        for range in trace.ranges.rows() {
            let is_named = matches!(range.kind, RangeKind::ANNOTATION | RangeKind::NVTX);
            if !is_named || !threads.contains(&range.thread) {
                continue;
            }
            let outer = by_thread.entry(range.thread).or_default();
            if outer.last().is_none_or(|last| last.1 <= range.start) {
                let end = range.start.saturating_add(range.duration);
                outer.push((range.start, end, without_number(trace.text(range.name))));
            }
        }
        Self { by_thread }
    }

    pub(super) fn name_at(&self, thread: ThreadId, time: i64) -> Option<&'a str> {
        let ranges = self.by_thread.get(&thread)?;
        let after = ranges.partition_point(|range| range.0 <= time);
        let &(_, end, name) = ranges.get(after.checked_sub(1)?)?;
        (time < end).then_some(name)
    }
}

/// `ProfilerStep#12` and `ProfilerStep#13` are the same range.
fn without_number(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() {
        return name;
    }
    let stem = stem.trim_end_matches(['#', '_', ':', ' ', '=']);
    if stem.is_empty() { name } else { stem }
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Range, TraceBuilder};

    use super::*;

    #[test]
    fn steps_have_one_name_and_inner_ranges_none() {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        for (name, start, duration) in [
            ("ProfilerStep#1", 0, 10),
            ("forward", 2, 5),
            ("ProfilerStep#2", 10, 10),
            ("7", 30, 1),
        ] {
            let name = builder.intern(name);
            builder.ranges.push(Range {
                start,
                duration,
                name,
                thread,
                kind: RangeKind::ANNOTATION,
                ..Range::default()
            });
        }
        let trace = builder.finish();
        let thread = trace.ranges.thread[0];
        let ranges = OuterRanges::read(&trace, &HashSet::from([thread]));
        let names = [3, 10, 25, 30].map(|time| ranges.name_at(thread, time));
        let step = Some("ProfilerStep");
        assert_eq!(names, [step, step, None, Some("7")]);
    }
}
