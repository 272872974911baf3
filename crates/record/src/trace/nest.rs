//! Slices of one thread whose ends a profiler rounded apart.
//!
//! Start and duration are rounded each for itself, so the end of an inner slice may lie behind that of the slice around it, and the end
//! of a slice behind the start of the next: by one unit of the clock at most, which is 1 µs in files of older profilers and 1 ns in others.

use super::{Column, Hosts, RangeKind, Ranges, ThreadId};

/// The units of clocks that profilers round to, ns: the coarsest first.
const COARSE_UNIT_NS: i64 = 1_000;
const FINE_UNIT_NS: i64 = 1;

/// The unit that all times are multiples of.
fn clock_unit(start: &[i64], duration: &[i64]) -> i64 {
    let is_coarse = |time: &i64| time % COARSE_UNIT_NS == 0;
    if start.iter().all(is_coarse) && duration.iter().all(is_coarse) {
        COARSE_UNIT_NS
    } else {
        FINE_UNIT_NS
    }
}

/// Ends slices where the slice ends that they lie in, or where the next begins, but for one unit. Rows come by thread, outer ones before
/// inner ones.
fn nest_slices(
    thread: &[ThreadId],
    start: &[i64],
    duration: &mut Column<i64>,
    is_used: impl Fn(usize) -> bool,
) {
    let unit = clock_unit(start, duration);
    let mut shorter: Vec<(usize, i64)> = Vec::new();
    // Rows and their ends.
    let mut open: Vec<(usize, i64)> = Vec::new();
    let mut last_thread = None;
    for row in (0..thread.len()).filter(|&row| is_used(row)) {
        if last_thread.replace(thread[row]) != Some(thread[row]) {
            open.clear();
        }
        let begin = start[row];
        let mut end = begin.saturating_add(duration[row]);
        while let Some(&(before, until)) = open.last() {
            let overlap = until.saturating_sub(begin);
            // Slices of one unit lie inside of others.
            if overlap > 0 && (overlap > unit || end <= until || start[before] == begin) {
                break;
            }
            if overlap > 0 {
                shorter.push((before, begin));
            }
            open.pop();
        }
        if let Some(&(_, until)) = open.last()
            && (1..=unit).contains(&end.saturating_sub(until))
        {
            end = until;
            shorter.push((row, end));
        }
        open.push((row, end));
    }
    if !shorter.is_empty() {
        let duration = duration.make_mut();
        for (row, end) in shorter {
            duration[row] = end.saturating_sub(start[row]);
        }
    }
}

pub(super) fn nest_hosts(table: &mut Hosts) {
    nest_slices(&table.thread, &table.start, &mut table.duration, |_| true);
}

/// Lets ranges of the host nest. Those of devices are on no thread.
pub(super) fn nest_ranges(table: &mut Ranges) {
    let kind = &table.kind;
    let is_used = |row: usize| kind[row] != RangeKind::DEVICE_ANNOTATION;
    nest_slices(&table.thread, &table.start, &mut table.duration, is_used);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(slices: &[(i64, i64)]) -> Vec<i64> {
        let thread = vec![ThreadId(0); slices.len()];
        let start: Vec<i64> = slices.iter().map(|slice| slice.0).collect();
        let mut duration = Column::default();
        for slice in slices {
            duration.push(slice.1);
        }
        nest_slices(&thread, &start, &mut duration, |_| true);
        duration.to_vec()
    }

    #[test]
    fn an_inner_slice_ends_with_the_one_around_it() {
        // 1 ns behind both slices around it.
        assert_eq!(nested(&[(0, 100), (10, 90), (20, 81)]), [100, 90, 80]);
        // 1 µs where the clock counts them, 2 µs are no rounding.
        let us = |slices: &[(i64, i64)]| {
            let ns: Vec<_> = slices.iter().map(|s| (1000 * s.0, 1000 * s.1)).collect();
            nested(&ns)
        };
        assert_eq!(us(&[(0, 10), (4, 7)]), [10_000, 6_000]);
        assert_eq!(us(&[(0, 10), (4, 8)]), [10_000, 8_000]);
        // On a clock of nanoseconds 1 µs is none either.
        assert_eq!(nested(&[(0, 10_001), (4_000, 7_000)]), [10_001, 7_000]);
    }

    #[test]
    fn neighbors_touch() {
        assert_eq!(nested(&[(0, 101), (100, 2), (102, 50)]), [100, 2, 50]);
        // So do those inside of one that ends with them.
        assert_eq!(nested(&[(0, 101), (50, 51), (100, 40)]), [100, 50, 40]);
        // Slices that overlap by more are not rounded.
        assert_eq!(nested(&[(0, 101), (98, 20)]), [101, 20]);
        // One of a unit at the end of another lies inside of it.
        assert_eq!(nested(&[(0, 101), (100, 1)]), [101, 1]);
    }
}
