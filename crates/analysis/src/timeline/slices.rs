//! The slices of a capture that recorded only now and then: what lies between them was not seen, and is not idle.

use llmprof_record::trace::{RangeKind, Trace};

/// The importer's name of an interval that was recorded within a budget.
const SLICE_NAME: &str = "slice";
/// The importer's name of an interval that began with a range that was taken for a step. Older recordings do not distinguish it.
const STEP_SLICE_NAME: &str = "slice of steps";

/// The times that were recorded, in order and disjoint; `None` if the whole time was recorded.
pub(crate) fn recorded_slices(trace: &Trace) -> Option<Vec<(i64, i64)>> {
    trace.metadata.get("slices")?;
    let mut intervals: Vec<(i64, i64)> =
        recorded_intervals(trace).map(|(_, times)| times).collect();
    intervals.sort_unstable();
    let mut slices: Vec<(i64, i64)> = Vec::new();
    for (start, end) in intervals {
        match slices.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => slices.push((start, end)),
        }
    }
    Some(slices)
}

/// Whether CUPTI came back to the process for every slice but the first: while it does, launches wait, and the device catches up
/// with its host.
pub(crate) fn follow_pauses(trace: &Trace) -> bool {
    let has = |what: &str| trace.metadata.contains_key(what);
    has("cupti_returns") && !has("cupti_stays")
}

/// Whether slices were chosen within a budget and are a sample of the rest. One interval between two orders of a user is not.
pub(crate) fn are_a_sample(trace: &Trace) -> bool {
    recorded_intervals(trace).any(|(name, _)| matches!(name, SLICE_NAME | STEP_SLICE_NAME))
}

/// When slices began with a range that was taken for a step, in order; empty if the recording does not tell.
pub(crate) fn step_starts(trace: &Trace) -> Vec<i64> {
    let of_steps = recorded_intervals(trace).filter(|&(name, _)| name == STEP_SLICE_NAME);
    let mut starts: Vec<i64> = of_steps.map(|(_, (start, _))| start).collect();
    starts.sort_unstable();
    starts
}

/// The names of intervals that were recorded, and when.
fn recorded_intervals(trace: &Trace) -> impl Iterator<Item = (&str, (i64, i64))> {
    let ranges = &trace.ranges;
    (0..ranges.len())
        .filter(|&row| ranges.kind[row] == RangeKind::CAPTURE)
        .map(|row| {
            let (start, duration) = (ranges.start[row], ranges.duration[row]);
            let times = (start, start.saturating_add(duration));
            (trace.text(ranges.name[row]), times)
        })
}

/// The parts of an interval of time that were recorded.
pub(crate) fn recorded_parts(
    slices: &[(i64, i64)],
    (start, end): (i64, i64),
) -> impl Iterator<Item = (i64, i64)> {
    let first = slices.partition_point(|&(_, until)| until <= start);
    slices[first..]
        .iter()
        .take_while(move |&&(from, _)| from < end)
        .map(move |&(from, to)| (from.max(start), to.min(end)))
}

/// The slice that a moment belongs to: the one around it, else the nearest. Calls are recorded a little longer than the
/// kernels that mark a slice, at both ends.
pub(crate) fn nearest_slice(slices: &[(i64, i64)], at: i64) -> usize {
    let next = slices.partition_point(|&(from, _)| from <= at);
    let Some(before) = next.checked_sub(1) else {
        return 0;
    };
    let since = at.saturating_sub(slices[before].1);
    let is_nearer = |&(from, _): &(i64, i64)| from.saturating_sub(at) < since;
    if slices.get(next).is_some_and(is_nearer) {
        next
    } else {
        before
    }
}

/// The lengths of the intervals that neither touch a slice nor are next to one that does. `intervals` are in order of time. CUPTI
/// attaches and detaches next to a slice and slows what runs there.
pub(crate) fn lengths_apart(slices: &[(i64, i64)], intervals: &[(i64, i64)]) -> Vec<i64> {
    let touches = |&one: &(i64, i64)| recorded_parts(slices, one).next().is_some();
    let touched: Vec<bool> = intervals.iter().map(touches).collect();
    let is_near = |place: usize| {
        let near = place.saturating_sub(1)..(place + 2).min(touched.len());
        touched[near].contains(&true)
    };
    let lengths = intervals.iter().enumerate();
    lengths
        .filter(|(place, _)| !is_near(*place))
        .map(|(_, (start, end))| end.saturating_sub(*start))
        .collect()
}

/// Whether all of an interval was recorded.
pub(crate) fn hold_all(slices: &[(i64, i64)], (start, end): (i64, i64)) -> bool {
    let begun = slices.partition_point(|&(from, _)| from <= start);
    begun > 0 && end <= slices[begun - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_interval_is_cut_at_the_slices() {
        let slices = [(0, 10), (20, 30), (40, 50)];
        let parts: Vec<_> = recorded_parts(&slices, (5, 45)).collect();
        assert_eq!(parts, [(5, 10), (20, 30), (40, 45)]);
        assert_eq!(recorded_parts(&slices, (10, 20)).count(), 0);
        assert!(hold_all(&slices, (20, 30)) && hold_all(&slices, (41, 42)));
        let nearest: Vec<usize> = [-3, 0, 12, 19, 20, 25, 37, 70]
            .iter()
            .map(|&at| nearest_slice(&slices, at))
            .collect();
        assert_eq!(nearest, [0, 0, 0, 1, 1, 1, 2, 2]);
        assert_eq!(super::nearest_slice(&[], 7), 0);
        assert!(
            !hold_all(&slices, (5, 25))
                && !hold_all(&slices, (12, 15))
                && !hold_all(&slices, (49, 51))
        );
    }
}
