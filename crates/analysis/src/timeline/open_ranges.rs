//! Ranges of the program that are open while nothing runs: its own data loader, writing a checkpoint, an evaluation.

use llmprof_record::trace::{HostKind, StrId, Trace};
use llmprof_units::Nanos;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::engine_label::EngineLabel;
use crate::labels::{PROFILER_STEP, is_annotation, own_name, phase_of_name};
use crate::phases::Phases;
use crate::row_order::sort_descending_named;
use crate::timeline::launches::is_api;
use crate::waterfall::idle_parts::NamedTime;

/// A piece of time in which one range of a thread is the innermost that has a name to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InnermostPiece {
    start: i64,
    end: i64,
    name: StrId,
    /// Start and end of the range.
    range: (i64, i64),
}

/// The ranges of threads that run operators or launch work.
#[derive(Debug, Default)]
pub(crate) struct ProgramRanges {
    pieces: Vec<InnermostPiece>,
}

impl ProgramRanges {
    /// The ranges of a trace without those that are its phases.
    pub(crate) fn from_trace(trace: &Trace, phases: Option<&Phases>) -> Self {
        let names = phases.map_or(&[][..], |phases| &phases.names);
        let windows: FxHashSet<(i64, i64)> = phases.map_or_else(FxHashSet::default, |phases| {
            (0..phases.windows.len())
                .map(|window| phases.host_window(window))
                .collect()
        });
        let (hosts, ranges) = (&trace.hosts, &trace.ranges);
        let works =
            |row: &usize| hosts.kind[*row] == HostKind::OPERATOR || is_api(hosts.kind[*row]);
        let threads = (0..hosts.len()).filter(works).map(|row| hosts.thread[row]);
        let threads: FxHashSet<_> = threads.collect();
        let mut told: FxHashMap<StrId, bool> = FxHashMap::default();
        let mut rows: Vec<usize> = (0..ranges.len())
            .filter(|&row| is_annotation(ranges.kind[row]) && threads.contains(&ranges.thread[row]))
            .filter(|&row| {
                let name = ranges.name[row];
                *told
                    .entry(name)
                    .or_insert_with(|| is_told(trace.text(name), names))
            })
            .collect();
        let end = |row: usize| ranges.start[row].saturating_add(ranges.duration[row]);
        rows.retain(|&row| !windows.contains(&(ranges.start[row], end(row))));
        rows.sort_by_key(|&row| {
            (
                ranges.thread[row],
                ranges.start[row],
                std::cmp::Reverse(end(row)),
            )
        });
        let mut pieces = Vec::with_capacity(rows.len());
        for thread in rows.chunk_by(|a, b| ranges.thread[*a] == ranges.thread[*b]) {
            let ranges = thread
                .iter()
                .map(|&row| ((ranges.start[row], end(row)), ranges.name[row]));
            add_pieces(ranges, &mut pieces);
        }
        Self { pieces }
    }

    /// How long each range was open in some spans, which are in order and do not overlap, and in how many of them; the longest first.
    /// Ranges of more than `range_max_ns` do not count: one around all of a program says nothing of what is done there.
    pub(crate) fn during(
        &self,
        trace: &Trace,
        spans: &[(i64, i64)],
        range_max_ns: i64,
    ) -> Vec<NamedTime> {
        let mut times: FxHashMap<StrId, (i64, FxHashSet<usize>)> = FxHashMap::default();
        for piece in &self.pieces {
            if piece.range.1.saturating_sub(piece.range.0) > range_max_ns {
                continue;
            }
            let first = spans.partition_point(|span| span.1 <= piece.start);
            let later = spans.iter().enumerate().skip(first);
            for (number, span) in later.take_while(|(_, span)| span.0 < piece.end) {
                let (from, to) = (span.0.max(piece.start), span.1.min(piece.end));
                let (time, numbers) = times.entry(piece.name).or_default();
                *time = time.saturating_add(to.saturating_sub(from));
                numbers.insert(number);
            }
        }
        let mut named: FxHashMap<String, NamedTime> = FxHashMap::default();
        for (name, (time, numbers)) in times {
            let text = trace.text(name);
            let name = own_name(text).unwrap_or_else(|| text.to_owned());
            let row = named.entry(name.clone()).or_insert(NamedTime {
                name,
                time_ns: Nanos(0),
                count: 0,
            });
            row.time_ns.0 = row.time_ns.0.saturating_add(time);
            row.count += numbers.len() as u64;
        }
        let mut rows: Vec<NamedTime> = named.into_values().collect();
        sort_descending_named(&mut rows, |row| (row.time_ns.0, &row.name));
        rows
    }
}

/// Ranges of the program itself and those of a DataLoader, unless they are the phases.
fn is_told(text: &str, phases: &[String]) -> bool {
    match own_name(text) {
        Some(name) => {
            let is_step = name.starts_with(PROFILER_STEP) || EngineLabel::parse(text).is_some();
            let phase = phase_of_name(text).unwrap_or(name);
            !is_step && !phases.contains(&phase)
        }
        None => text.starts_with("enumerate(DataLoader)"),
    }
}

/// Cuts the ranges of a thread, which come in order of their starts, into pieces of the innermost.
fn add_pieces(ranges: impl Iterator<Item = ((i64, i64), StrId)>, pieces: &mut Vec<InnermostPiece>) {
    let mut open: Vec<((i64, i64), StrId)> = Vec::new();
    let mut reached = i64::MIN;
    let mut emit = |until: i64, reached: &mut i64, inner: &((i64, i64), StrId)| {
        let (range, name) = *inner;
        let (start, end) = (range.0.max(*reached), range.1.min(until));
        if start < end {
            pieces.push(InnermostPiece {
                start,
                end,
                name,
                range,
            });
        }
        *reached = (*reached).max(end);
    };
    for (range, name) in ranges {
        while let Some(inner) = open.pop_if(|(inner, _)| inner.1 <= range.0) {
            emit(range.0, &mut reached, &inner);
        }
        if let Some(inner) = open.last() {
            emit(range.0, &mut reached, inner);
        }
        open.push((range, name));
    }
    while let Some(inner) = open.pop() {
        emit(i64::MAX, &mut reached, &inner);
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Host, Range, RangeKind, TraceBuilder};

    use super::*;

    /// `save` 10…90 holds `upload` 20…40; `other` is on a thread without operators.
    #[test]
    fn the_innermost_range_that_is_not_around_everything_counts() {
        let mut builder = TraceBuilder::default();
        let (main, side) = (builder.thread(1, 1), builder.thread(1, 2));
        let op = builder.intern("aten::mm");
        builder.hosts.push(Host {
            start: 0,
            duration: 5,
            name: op,
            thread: main,
            kind: HostKind::OPERATOR,
            ..Host::default()
        });
        for (name, start, end, thread) in [
            ("whole_program", -50, 500, main),
            ("save", 10, 90, main),
            ("upload", 20, 40, main),
            ("other", 10, 90, side),
        ] {
            let name = builder.intern(name);
            builder.ranges.push(Range {
                start,
                duration: end - start,
                name,
                thread,
                kind: RangeKind::ANNOTATION,
                ..Range::default()
            });
        }
        let trace = builder.finish();
        let ranges = ProgramRanges::from_trace(&trace, None);
        let rows = ranges.during(&trace, &[(5, 30), (50, 100)], 100);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.time_ns.0, row.count))
            .collect();
        assert_eq!(rows, [("save", 50, 2), ("upload", 10, 1)]);
    }
}
