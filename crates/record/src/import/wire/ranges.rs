//! Beginnings and ends of ranges into ranges.

use std::collections::HashMap;

use llmprof_wire::{Mark, Pop, Push, RangeEnd, RangeStart};

use crate::import::torch_names::add_pushed_range;
use crate::trace::{Range, RangeKind, StrId, ThreadId, TraceBuilder};

#[derive(Clone, Copy)]
struct OpenRange {
    start: i64,
    name: StrId,
    domain: StrId,
    thread: ThreadId,
}

/// Ranges of one process that have begun.
pub(super) struct OpenRanges {
    process: i64,
    domains: HashMap<u32, StrId>,
    /// By thread and domain, innermost last.
    pushed: HashMap<(u32, u32), Vec<OpenRange>>,
    started: HashMap<u64, OpenRange>,
    /// Ends without a beginning, whose chunk was dropped.
    pub(super) unmatched: u64,
}

impl OpenRanges {
    pub(super) fn new(process: i64) -> Self {
        Self {
            process,
            domains: HashMap::new(),
            pushed: HashMap::new(),
            started: HashMap::new(),
            unmatched: 0,
        }
    }

    pub(super) fn name_domain(&mut self, id: u32, name: StrId) {
        self.domains.insert(id, name);
    }

    fn open(&self, builder: &mut TraceBuilder, at: (i64, u32, u32), text: &[u8]) -> OpenRange {
        let (start, thread, domain) = at;
        OpenRange {
            start,
            name: builder.intern(&String::from_utf8_lossy(text)),
            domain: self.domains.get(&domain).copied().unwrap_or_default(),
            thread: builder.thread(self.process, i64::from(thread)),
        }
    }

    pub(super) fn push(&mut self, push: Push<'_>, builder: &mut TraceBuilder) {
        let open = self.open(builder, (push.time, push.thread, push.domain), push.text);
        let stack = self.pushed.entry((push.thread, push.domain)).or_default();
        stack.push(open);
    }

    pub(super) fn pop(&mut self, pop: Pop, builder: &mut TraceBuilder) {
        let stack = self.pushed.get_mut(&(pop.thread, pop.domain));
        match stack.and_then(Vec::pop) {
            Some(open) => close(open, pop.time, RangeKind::NVTX, builder),
            None => self.unmatched += 1,
        }
    }

    pub(super) fn start(&mut self, start: RangeStart<'_>, builder: &mut TraceBuilder) {
        let at = (start.time, start.thread, start.domain);
        let open = self.open(builder, at, start.text);
        self.started.insert(start.range, open);
    }

    pub(super) fn end(&mut self, end: RangeEnd, builder: &mut TraceBuilder) {
        match self.started.remove(&end.range) {
            Some(open) => close(open, end.time, RangeKind::NVTX_START_END, builder),
            None => self.unmatched += 1,
        }
    }

    pub(super) fn mark(&mut self, mark: Mark<'_>, builder: &mut TraceBuilder) {
        let open = self.open(builder, (mark.time, mark.thread, mark.domain), mark.text);
        close(open, mark.time, RangeKind::MARK, builder);
    }

    /// Gives ranges that were not closed the end `last`; says how many.
    pub(super) fn finish(self, last: i64, builder: &mut TraceBuilder) -> u64 {
        let pushed = self.pushed.into_values().flatten();
        let all = pushed.map(|open| (open, RangeKind::NVTX)).chain(
            self.started
                .into_values()
                .map(|open| (open, RangeKind::NVTX_START_END)),
        );
        let mut count = 0;
        for (open, kind) in all {
            count += 1;
            close(open, last, kind, builder);
        }
        count
    }
}

fn close(open: OpenRange, end: i64, kind: RangeKind, builder: &mut TraceBuilder) {
    builder.events_read += 1;
    let range = Range {
        start: open.start,
        duration: end.saturating_sub(open.start).max(0),
        name: open.name,
        domain: open.domain,
        thread: open.thread,
        kind,
        ..Range::default()
    };
    add_pushed_range(builder, range);
}
