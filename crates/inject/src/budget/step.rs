//! Detects which NVTX range is the step: of the ranges that recur, last up to [`STEP_MAX_NS`] and are not nested in another
//! recurring range, the one with the largest total time.

use std::collections::HashMap;

/// Longer ranges do not count as steps: they are requests or whole runs.
const STEP_MAX_NS: f64 = 250e6;
/// More range names are not tracked, which bounds memory if every range has its own name.
const NAMES_MAX: usize = 256;
/// Occurrences before a range counts as a step.
const REPEATS_MIN: u64 = 3;

#[derive(Default)]
pub(super) struct StepDetector {
    ranges: HashMap<Box<[u8]>, Durations>,
    name: Option<Box<[u8]>>,
}

/// Durations of the ranges of one name, ns.
#[derive(Default)]
struct Durations {
    count: u64,
    mean: f64,
    /// Start and end of the last range.
    last: (i64, i64),
    /// Whether it is nested in another range that recurs.
    is_inside: bool,
}

impl Durations {
    fn total_ns(&self) -> f64 {
        self.mean * self.count as f64
    }
}

impl StepDetector {
    pub(super) fn is_known(&self) -> bool {
        self.name.is_some()
    }

    /// Whether a range of this name is a step.
    pub(super) fn is_step(&self, name: &[u8]) -> bool {
        self.name.as_deref() == Some(name)
    }

    /// Mean duration of a step; 0 if none is known.
    pub(super) fn mean_ns(&self) -> f64 {
        let step = self.name.as_ref().and_then(|name| self.ranges.get(name));
        step.map_or(0.0, |step| step.mean)
    }

    /// The range taken for the step turned out not to be one.
    pub(super) fn forget_step(&mut self) {
        self.name = None;
    }

    /// Adds a range; returns true if its name becomes the step's name.
    pub(super) fn learn_range(
        &mut self,
        name: &[u8],
        (start, end): (i64, i64),
        may_change: bool,
    ) -> bool {
        let duration = (end - start) as f64;
        if !self.ranges.contains_key(name) && !self.makes_room(duration) {
            return false;
        }
        let range = self.ranges.entry(name.into()).or_default();
        range.count += 1;
        range.mean += (duration - range.mean) / range.count as f64;
        range.last = (start, end);
        let total = range.total_ns();
        let may_be = range.count >= REPEATS_MIN && range.mean <= STEP_MAX_NS && !range.is_inside;
        if !may_be || !may_change || self.is_step(name) {
            return false;
        }
        let known = self
            .name
            .as_ref()
            .and_then(|step| self.ranges.get_mut(step));
        let is_more = known.is_none_or(|known| {
            // The model's forward range takes nearly the whole step and also runs in prefill; the step is the range around it.
            known.is_inside = start <= known.last.0 && known.last.1 <= end;
            // By a margin, or two similar ranges would alternate for ever.
            known.is_inside || total > 1.2 * known.total_ns()
        });
        if is_more {
            self.name = Some(name.into());
        }
        is_more
    }

    /// Makes room for a range of this duration by dropping the shortest one; false if none is shorter. Ranges inside a step
    /// end before it and may have more names than are tracked.
    fn makes_room(&mut self, duration: f64) -> bool {
        if self.ranges.len() < NAMES_MAX {
            return true;
        }
        let others = self.ranges.iter();
        let shortest = others
            .filter(|(name, range)| self.name.as_ref() != Some(*name) && range.mean < duration)
            .min_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))
            .map(|(name, _)| name.clone());
        shortest.is_some_and(|name| self.ranges.remove(&name).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn the_range_with_most_of_the_time_is_the_step() {
        let mut step = StepDetector::default();
        for _ in 0..4 {
            step.learn_range(b"layer", (0, MS), true);
            step.learn_range(b"layer", (0, MS), true);
            step.learn_range(b"decode_step", (0, 20 * MS), true);
            step.learn_range(b"request", (0, 900 * MS), true);
        }
        assert!(step.is_step(b"decode_step"));
        step.forget_step();
        assert!(!step.is_known());
        assert!(step.learn_range(b"decode_step", (0, 20 * MS), true));
    }

    /// Prefill recurs too and is longer, but the ranges after it are the steps.
    #[test]
    fn a_prefill_before_every_decode_is_not_the_step() {
        let mut step = StepDetector::default();
        let mut now = 0;
        for prefill in [312 * MS, 35 * MS, 34 * MS, 34 * MS] {
            step.learn_range(b"model", (now, now + prefill - 1), true);
            step.learn_range(b"prefill", (now, now + prefill), true);
            now += prefill;
            for _ in 0..40 {
                step.learn_range(b"model", (now + 1, now + 20 * MS), true);
                step.learn_range(b"decode_step", (now, now + 21 * MS), true);
                now += 21 * MS;
                assert!(!step.is_step(b"prefill"));
            }
        }
        assert!(step.is_step(b"decode_step"));
    }

    /// A step in which every module has a range, more of them than are tracked; all are slow at first.
    #[test]
    fn a_step_of_many_modules_is_found() {
        let mut step = StepDetector::default();
        let mut now = 0;
        for _ in 0..5 {
            let begin = now;
            for module in 0..400 {
                now += MS;
                let name = format!("layers.{module}");
                step.learn_range(name.as_bytes(), (now - MS, now), true);
            }
            step.learn_range(b"decode_step", (begin, begin + 200 * MS), true);
        }
        assert!(step.is_step(b"decode_step"));
        assert!(step.ranges.len() <= NAMES_MAX);
    }

    #[test]
    fn a_step_is_what_is_around_a_model_and_hardly_longer() {
        let mut step = StepDetector::default();
        for round in 0..6 {
            let begin = 300 * round * MS;
            // The model of a prefill is longer than one of decode, and comes first.
            let end = begin + if round == 0 { 200 * MS } else { 19 * MS };
            step.learn_range(b"model", (begin + 1, end), true);
            if round > 0 {
                step.learn_range(b"decode_step", (begin, end + MS / 2), true);
            }
        }
        assert!(step.is_step(b"decode_step"));
    }

    #[test]
    fn the_step_stays_what_it_is_during_a_slice() {
        let mut step = StepDetector::default();
        for _ in 0..3 {
            step.learn_range(b"prefill", (0, 20 * MS), true);
        }
        for _ in 0..9 {
            assert!(!step.learn_range(b"decode_step", (0, 20 * MS), false));
        }
        assert!(step.is_step(b"prefill"));
        assert!(step.learn_range(b"decode_step", (0, 20 * MS), true));
    }
}
