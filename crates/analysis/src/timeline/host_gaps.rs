//! Time of a program on the CPU alone in which no op runs, and what the trace shows of it: a Python function, a range, the ops around it.

use llmprof_record::trace::{HostKind, StrId, ThreadId, Trace};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::labels::runs_on_host;
use crate::thresholds::{HOST_GAP_MIN_NS, HOST_WORK_MIN_SHARE};
use crate::timeline::intervals::add_saturating;
use crate::timeline::open_ranges::ProgramRanges;
use crate::timeline::source_lines::{innermost_functions, times_inside};
use crate::waterfall::idle_parts::NamedTime;

/// Gaps between ops of a program on the CPU, of 0.2 ms and more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct HostGaps {
    /// From the first op to the end of the last.
    pub span_ns: Nanos,
    /// Time of the gaps.
    pub time_ns: Nanos,
    /// Number of gaps.
    pub gaps: u64,
    /// Length of the longest gap.
    pub longest_ns: Nanos,
    /// Op that ends before the longest gap.
    pub after: String,
    /// Op that begins after the longest gap.
    pub before: String,
    /// Innermost Python function of the program in most of the time; absent where no function takes a good part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<NamedTime>,
    /// Range of the program that is open in most of the time; absent where no range is for a good part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<NamedTime>,
}

/// An op that no other one of its thread holds, or a collective that the CPU runs.
struct HostWork {
    start: i64,
    end: i64,
    name: StrId,
    thread: ThreadId,
}

/// A time in which no thread runs an op.
struct HostGap {
    span: (i64, i64),
    after: StrId,
    before: StrId,
    /// The thread of the op that ends the gap.
    thread: ThreadId,
}

impl HostGaps {
    /// `None` for a trace without gaps.
    pub(crate) fn from_trace(trace: &Trace, ranges: &ProgramRanges) -> Option<Self> {
        let work = outermost_work(trace);
        let (first, last) = (work.first()?, work.iter().map(|work| work.end).max()?);
        let gaps = gaps_between(&work);
        let length = |gap: &HostGap| gap.span.1.saturating_sub(gap.span.0);
        let longest = gaps.iter().max_by_key(|gap| length(gap))?;
        let time = gaps.iter().map(length).fold(0, i64::saturating_add);
        let spans: Vec<(i64, i64)> = gaps.iter().map(|gap| gap.span).collect();
        let is_large =
            |named: &NamedTime| named.time_ns.0 as f64 >= HOST_WORK_MIN_SHARE * time as f64;
        let open = ranges.during(trace, &spans, i64::MAX);
        Some(Self {
            span_ns: Nanos(last.saturating_sub(first.start)),
            time_ns: Nanos(time),
            gaps: gaps.len() as u64,
            longest_ns: Nanos(length(longest)),
            after: trace.text(longest.after).to_owned(),
            before: trace.text(longest.before).to_owned(),
            function: longest_function(trace, &gaps).filter(is_large),
            range: open.into_iter().next().filter(is_large),
        })
    }

    /// Part of the time from the first op to the end of the last.
    pub fn share(&self) -> f64 {
        self.time_ns.0 as f64 / self.span_ns.0.max(1) as f64
    }
}

/// Ops by their starts. Names with a number are ranges, which older versions of Kineto write as operators.
fn outermost_work(trace: &Trace) -> Vec<HostWork> {
    let (hosts, collectives) = (&trace.hosts, &trace.collectives);
    let mut is_op: FxHashMap<StrId, bool> = FxHashMap::default();
    let mut work: Vec<HostWork> = Vec::new();
    for row in (0..hosts.len()).filter(|&row| hosts.kind[row] == HostKind::OPERATOR) {
        let (name, thread, start) = (hosts.name[row], hosts.thread[row], hosts.start[row]);
        let is_inside = |last: &HostWork| last.thread == thread && start < last.end;
        let is_op = is_op
            .entry(name)
            .or_insert_with(|| !trace.text(name).contains('#'));
        if *is_op && !work.last().is_some_and(is_inside) {
            work.push(HostWork {
                start,
                end: start.saturating_add(hosts.duration[row]),
                name,
                thread,
            });
        }
    }
    let on_host = |row: &usize| runs_on_host(trace.text(collectives.name[*row]));
    let exchanged = (0..collectives.len()).filter(on_host);
    work.extend(exchanged.map(|row| HostWork {
        start: collectives.start[row],
        end: collectives.start[row].saturating_add(collectives.duration[row]),
        name: collectives.name[row],
        thread: collectives.thread[row],
    }));
    work.sort_by_key(|work| (work.start, work.end));
    work
}

fn gaps_between(work: &[HostWork]) -> Vec<HostGap> {
    let mut gaps = Vec::new();
    let Some((mut last, rest)) = work.split_first() else {
        return gaps;
    };
    for next in rest {
        if next.start.saturating_sub(last.end) >= HOST_GAP_MIN_NS {
            gaps.push(HostGap {
                span: (last.end, next.start),
                after: last.name,
                before: next.name,
                thread: next.thread,
            });
        }
        if next.end > last.end {
            last = next;
        }
    }
    gaps
}

/// The function that was the innermost of the program for most of the gaps.
fn longest_function(trace: &Trace, gaps: &[HostGap]) -> Option<NamedTime> {
    if !trace.hosts.kind.contains(&HostKind::PYTHON) {
        return None;
    }
    let functions = innermost_functions(trace);
    let mut sums: FxHashMap<StrId, (i64, u64)> = FxHashMap::default();
    for gap in gaps {
        let on = functions.get(&gap.thread).map_or(&[][..], Vec::as_slice);
        for (name, time) in times_inside(on, gap.span.0, gap.span.1) {
            let (sum, gaps) = sums.entry(name).or_default();
            add_saturating(sum, time);
            *gaps += 1;
        }
    }
    let longest = sums
        .into_iter()
        .max_by_key(|&(name, (time, _))| (time, std::cmp::Reverse(trace.text(name))));
    longest.map(|(name, (time, gaps))| NamedTime {
        name: trace.text(name).to_owned(),
        time_ns: Nanos(time),
        count: gaps,
    })
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Host, TraceBuilder};

    use super::*;

    /// Ten ops of 1 ms, after each of which `fetch` sleeps for `pause_us`.
    fn gaps_of(pause_us: i64, with_functions: bool) -> Option<HostGaps> {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let mut push = |name: &str, kind, start: i64, end: i64| {
            let name = builder.intern(name);
            builder.hosts.push(Host {
                start: 1_000 * start,
                duration: 1_000 * (end - start),
                name,
                thread,
                kind,
                ..Host::default()
            });
        };
        let step = 1_000 + pause_us;
        for start in (0..10).map(|number| number * step) {
            push("aten::linear", HostKind::OPERATOR, start, start + 1_000);
            push("aten::addmm", HostKind::OPERATOR, start + 100, start + 900);
            if with_functions {
                push(
                    "app.py(9): fetch",
                    HostKind::PYTHON,
                    start + 1_000,
                    start + step,
                );
                push(
                    "<built-in function sleep>",
                    HostKind::PYTHON,
                    start + 1_000,
                    start + step,
                );
            }
        }
        let trace = builder.finish();
        HostGaps::from_trace(&trace, &ProgramRanges::default())
    }

    #[test]
    fn time_between_ops_belongs_to_the_function_of_the_program() {
        let gaps = gaps_of(3_000, true).unwrap();
        assert_eq!((gaps.gaps, gaps.time_ns), (9, Nanos(27_000_000)));
        assert_eq!(gaps.span_ns, Nanos(37_000_000));
        let function = gaps.function.unwrap();
        assert_eq!(function.name, "app.py(9): fetch");
        assert_eq!(function.time_ns, Nanos(27_000_000));
    }

    #[test]
    fn without_functions_the_ops_around_the_longest_gap_are_known() {
        let gaps = gaps_of(3_000, false).unwrap();
        assert_eq!(gaps.function, None);
        assert_eq!(
            (&*gaps.after, &*gaps.before),
            ("aten::linear", "aten::linear")
        );
    }

    #[test]
    fn what_calling_ops_takes_is_no_gap() {
        assert_eq!(gaps_of(100, true), None);
    }
}
