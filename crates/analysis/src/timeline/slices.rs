//! The slices of a capture that recorded only now and then: what lies between them was not seen, and is not idle.

use llmprof_record::trace::{RangeKind, Trace};

/// What the importer calls an interval that was recorded within a budget.
const SLICE: &str = "slice";
/// What it calls one that began with a range that was taken for a step. Older recordings do not tell.
const SLICE_OF_STEPS: &str = "slice of steps";

/// The times that were recorded, in order and apart; nothing where the whole time was.
pub(crate) fn of(trace: &Trace) -> Option<Vec<(i64, i64)>> {
    trace.metadata.get("slices")?;
    let mut found: Vec<(i64, i64)> = captures(trace).map(|(_, times)| times).collect();
    found.sort_unstable();
    let mut slices: Vec<(i64, i64)> = Vec::new();
    for (start, end) in found {
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

/// Whether slices were chosen within a budget, so that they are a sample of the rest; one interval from an order to the next is
/// none.
pub(crate) fn are_a_sample(trace: &Trace) -> bool {
    captures(trace).any(|(name, _)| matches!(name, SLICE | SLICE_OF_STEPS))
}

/// When slices began with a range that was taken for a step, in order; none where that is not known.
pub(crate) fn step_starts(trace: &Trace) -> Vec<i64> {
    let of_steps = captures(trace).filter(|&(name, _)| name == SLICE_OF_STEPS);
    let mut starts: Vec<i64> = of_steps.map(|(_, (start, _))| start).collect();
    starts.sort_unstable();
    starts
}

/// The names of intervals that were recorded, and when.
fn captures(trace: &Trace) -> impl Iterator<Item = (&str, (i64, i64))> {
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
pub(crate) fn inside(
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
pub(crate) fn nearest(slices: &[(i64, i64)], at: i64) -> usize {
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

/// The lengths of those of some intervals, in order of time, that no slice touches, nor the ones right before and after them:
/// what is next to a slice is slowed by CUPTI, which attaches and detaches there.
pub(crate) fn apart(slices: &[(i64, i64)], intervals: &[(i64, i64)]) -> Vec<i64> {
    let touches = |&one: &(i64, i64)| inside(slices, one).next().is_some();
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
pub(crate) fn hold(slices: &[(i64, i64)], (start, end): (i64, i64)) -> bool {
    let begun = slices.partition_point(|&(from, _)| from <= start);
    begun > 0 && end <= slices[begun - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_interval_is_cut_at_the_slices() {
        let slices = [(0, 10), (20, 30), (40, 50)];
        let parts: Vec<_> = inside(&slices, (5, 45)).collect();
        assert_eq!(parts, [(5, 10), (20, 30), (40, 45)]);
        assert_eq!(inside(&slices, (10, 20)).count(), 0);
        assert!(hold(&slices, (20, 30)) && hold(&slices, (41, 42)));
        let nearest: Vec<usize> = [-3, 0, 12, 19, 20, 25, 37, 70]
            .iter()
            .map(|&at| nearest(&slices, at))
            .collect();
        assert_eq!(nearest, [0, 0, 0, 1, 1, 1, 2, 2]);
        assert_eq!(super::nearest(&[], 7), 0);
        assert!(!hold(&slices, (5, 25)) && !hold(&slices, (12, 15)) && !hold(&slices, (49, 51)));
    }
}
