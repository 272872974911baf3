//! Graph captures that a trace shows: what was launched between the begin and the end of a stream capture.

use llmprof_record::trace::{HostKind, RangeKind, StrId, ThreadId, Trace};
use rustc_hash::FxHashMap;

use crate::row_order::sort_ascending;
use crate::timeline::launches::{ApiKind, is_api};
use crate::timeline::nesting::Nesting;

/// One capture: the calls that became nodes, in order.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    /// Rows in [`Trace::hosts`].
    pub(super) calls: Vec<u32>,
    /// The kernels they launch, where the tool says so.
    pub(super) kernels: Vec<Option<StrId>>,
    /// The first number in the name of the range around it: `capture_8192_PIECEWISE` is of 8192 tokens.
    pub(super) size: Option<u64>,
}

/// All captures of a trace, in order of time.
pub(super) fn find_captures(trace: &Trace, nesting: &Nesting) -> Vec<Capture> {
    let hosts = &trace.hosts;
    let names = &trace.launched_kernels;
    let kernel: FxHashMap<u32, StrId> = names
        .correlation
        .iter()
        .copied()
        .zip(names.kernel.iter().copied())
        .collect();
    let mut closed: Vec<(i64, Capture)> = Vec::new();
    let mut open: Option<(ThreadId, i64, Capture)> = None;
    for row in 0..hosts.len() {
        if !is_api(hosts.kind[row]) {
            continue;
        }
        let name = trace.text(hosts.name[row]);
        let thread = hosts.thread[row];
        if name.contains("StreamBeginCapture") {
            let capture = Capture {
                calls: Vec::new(),
                kernels: Vec::new(),
                size: size_at(trace, thread, hosts.start[row]),
            };
            open = Some((thread, hosts.start[row], capture));
        } else if let Some((on, begun, mut capture)) = open.take() {
            if on != thread {
                // The thread ended inside a capture.
                continue;
            }
            if name.contains("StreamEndCapture") {
                closed.push((begun, capture));
                continue;
            }
            let inner = nesting.parent(row as u32);
            let is_inner = inner.is_some_and(|outer| is_api(hosts.kind[outer as usize]));
            let is_node = matches!(
                ApiKind::from_function(name),
                ApiKind::Launch | ApiKind::Transfer
            );
            if is_node && !is_inner && !name.contains("Graph") {
                capture.calls.push(row as u32);
                capture
                    .kernels
                    .push(kernel.get(&hosts.correlation[row]).copied());
            }
            open = Some((on, begun, capture));
        }
    }
    sort_ascending(&mut closed, |(begun, _)| *begun);
    let mut captures: Vec<Capture> = closed.into_iter().map(|(_, capture)| capture).collect();
    captures.retain(|capture| !capture.calls.is_empty());
    captures
}

/// Maximum number of earlier ranges that are searched for those around a moment.
const RANGES_LOOKED_AT_MAX: usize = 4096;

/// The first number in the name of the innermost range around a moment that has one.
pub(super) fn size_at(trace: &Trace, thread: ThreadId, at: i64) -> Option<u64> {
    let ranges = &trace.ranges;
    // Sorted by thread and start; ranges around a moment are among the last that began before it.
    let from = ranges.thread.partition_point(|&on| on < thread);
    let to = ranges.thread.partition_point(|&on| on <= thread);
    let after = from + ranges.start[from..to].partition_point(|&start| start <= at);
    let around = (from.max(after.saturating_sub(RANGES_LOOKED_AT_MAX))..after).filter(|&row| {
        let end = ranges.start[row].saturating_add(ranges.duration[row]);
        matches!(ranges.kind[row], RangeKind::ANNOTATION | RangeKind::NVTX) && at < end
    });
    let mut inwards: Vec<usize> = around.collect();
    sort_ascending(&mut inwards, |&row| ranges.duration[row]);
    inwards
        .iter()
        .find_map(|&row| number_in_label(trace.text(ranges.name[row])))
}

/// The number in a label: `capture_8192_PIECEWISE`, `execute_8192_context_9(…)`, `decode bs=16`. Digits inside a word do not count.
fn number_in_label(label: &str) -> Option<u64> {
    let mut words = label.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.find_map(|word| word.parse().ok())
}

/// The operator around a call; both are rows of [`Trace::hosts`].
pub(super) fn operator_of(trace: &Trace, nesting: &Nesting, call: u32) -> Option<u32> {
    let mut outwards = nesting.outwards(call);
    outwards.find(|&row| trace.hosts.kind[row as usize] == HostKind::OPERATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_sizes() {
        assert_eq!(number_in_label("capture_8192_PIECEWISE"), Some(8192));
        assert_eq!(
            number_in_label("execute_16_context_0(sq0sk0)_generation_16(sq16)"),
            Some(16)
        );
        assert_eq!(number_in_label("step[DECODE bs=15 toks=15]"), Some(15));
        assert_eq!(number_in_label("## Call CompiledFxGraph fb3en3 ##"), None);
    }
}
