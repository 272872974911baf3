//! Which range is the step that slices were made for.

use llmprof_record::trace::{StrId, Trace};
use rustc_hash::FxHashMap;

use crate::timeline::slices;

/// Maximum time from the begin of a slice to that of the range that began it.
const SLICE_BEGIN_MAX_NS: i64 = 1_000_000;

/// The range that most slices begin with.
pub(crate) fn step_name(trace: &Trace, nvtx: &[usize], slices: &[(i64, i64)]) -> Option<StrId> {
    let ranges = &trace.ranges;
    let marked = slices::step_starts(trace);
    let counts = |slice: (i64, i64)| marked.is_empty() || marked.binary_search(&slice.0).is_ok();
    // Where it is not known which slices began with a step, most have to begin with the same range: others begin somewhere
    // near now and then.
    let enough = if marked.is_empty() {
        (slices.len() / 2 + 1).max(2)
    } else {
        2
    };
    // How many slices begin with a range, and how long it is in them.
    let mut votes: FxHashMap<StrId, (usize, i64)> = FxHashMap::default();
    for &row in nvtx {
        let start = ranges.start[row];
        let place = slices.partition_point(|slice| slice.0 <= start);
        if place > 0
            && counts(slices[place - 1])
            && start - slices[place - 1].0 <= SLICE_BEGIN_MAX_NS
            && start + ranges.duration[row] <= slices[place - 1].1
        {
            let (count, time) = votes.entry(ranges.name[row]).or_default();
            *count += 1;
            *time += ranges.duration[row];
        }
    }
    // Of nested ranges that begin together, the longest: it is the one that slices were made for.
    votes
        .into_iter()
        .filter(|&(_, (count, _))| count >= enough)
        .max_by_key(|&(name, votes)| (votes, name))
        .map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::scaled::scale_slices;
    use llmprof_record::trace::{Range, RangeKind, TraceBuilder};

    const MS: i64 = 1_000_000;

    /// A trace that is made of ranges.
    #[derive(Default)]
    struct Ranges(TraceBuilder);

    impl Ranges {
        fn add(&mut self, name: &str, kind: RangeKind, start: i64, duration: i64) {
            let name = self.0.intern(name);
            self.0.ranges.push(Range {
                start,
                duration,
                name,
                kind,
                ..Range::default()
            });
        }

        fn trace(mut self) -> Trace {
            let metadata = &mut self.0.metadata;
            metadata.insert("slices".to_owned(), "true".to_owned());
            self.0.finish()
        }
    }

    /// A model is inside of each step. Outside of slices steps are shorter, and the model has no range there.
    #[test]
    fn of_ranges_that_begin_together_the_outer_one_is_the_step() {
        let mut ranges = Ranges::default();
        for number in 0..50 {
            let is_recorded = number % 10 == 5;
            let (start, length) = (number * 40 * MS, if is_recorded { 30 } else { 10 });
            ranges.add("decode_step", RangeKind::NVTX, start, length * MS);
            if is_recorded {
                let inside = length * MS - 200;
                ranges.add("model", RangeKind::NVTX, start + 100, inside);
                let around = length * MS + 20;
                ranges.add("slice of steps", RangeKind::CAPTURE, start - 10, around);
            }
        }
        let scaled = scale_slices(&ranges.trace()).unwrap();
        assert_eq!(scaled.step.as_deref(), Some("decode_step"));
        assert_eq!((scaled.units, scaled.sampled), (50, 5));
    }

    /// Ranges of modules begin everywhere, so that some begin with two slices by chance: those are no steps.
    #[test]
    fn a_range_that_begins_with_some_slices_is_not_the_step() {
        let step = |of_steps: &str| {
            let mut ranges = Ranges::default();
            for number in 0..50 {
                let start = number * 20 * MS;
                ranges.add("decode_step", RangeKind::NVTX, start, 19 * MS);
                ranges.add("layers.5", RangeKind::NVTX, start + 5 * MS, MS);
            }
            // Of slices by time two begin with a module; of those of steps all with a step.
            for start in [21, 105, 294, 945, 505] {
                ranges.add("slice", RangeKind::CAPTURE, start * MS, 60 * MS);
            }
            for start in [600, 700] {
                ranges.add(of_steps, RangeKind::CAPTURE, start * MS - 10, 20 * MS);
            }
            let trace = ranges.trace();
            let slices = slices::recorded_slices(&trace).unwrap();
            let nvtx: Vec<usize> = (0..trace.ranges.len())
                .filter(|&row| trace.ranges.kind[row] == RangeKind::NVTX)
                .collect();
            step_name(&trace, &nvtx, &slices).map(|name| trace.text(name).to_owned())
        };
        assert_eq!(step("slice of steps").as_deref(), Some("decode_step"));
        assert_eq!(step("slice"), None);
    }
}
