//! The slices of a capture that recorded only now and then: what lies between them was not seen, and is not idle.

use llmprof_record::trace::{RangeKind, Trace};

/// What the importer calls a stretch that was recorded within a budget.
const SLICE: &str = "slice";

/// The times that were recorded, in order and apart; nothing where the whole time was.
pub(crate) fn of(trace: &Trace) -> Option<Vec<(i64, i64)>> {
    trace.metadata.get("slices")?;
    let ranges = &trace.ranges;
    let mut found: Vec<(i64, i64)> = (0..ranges.len())
        .filter(|&row| ranges.kind[row] == RangeKind::CAPTURE)
        .map(|row| {
            let start = ranges.start[row];
            (start, start.saturating_add(ranges.duration[row]))
        })
        .collect();
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

/// Whether slices were chosen within a budget, so that they are a sample of the rest; one stretch from an order to the next is
/// none.
pub(crate) fn are_a_sample(trace: &Trace) -> bool {
    let ranges = &trace.ranges;
    (0..ranges.len())
        .any(|row| ranges.kind[row] == RangeKind::CAPTURE && trace.text(ranges.name[row]) == SLICE)
}

/// The parts of a stretch of time that were recorded.
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

/// Whether all of a stretch was recorded.
pub(crate) fn hold(slices: &[(i64, i64)], (start, end): (i64, i64)) -> bool {
    let begun = slices.partition_point(|&(from, _)| from <= start);
    begun > 0 && end <= slices[begun - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_cut_at_the_slices() {
        let slices = [(0, 10), (20, 30), (40, 50)];
        let parts: Vec<_> = inside(&slices, (5, 45)).collect();
        assert_eq!(parts, [(5, 10), (20, 30), (40, 45)]);
        assert_eq!(inside(&slices, (10, 20)).count(), 0);
        assert!(hold(&slices, (20, 30)) && hold(&slices, (41, 42)));
        assert!(!hold(&slices, (5, 25)) && !hold(&slices, (12, 15)) && !hold(&slices, (49, 51)));
    }
}
