//! Which range is a step: of those that come back, up to [`LONGEST`] long and not inside of one another, the one that most of
//! the time is spent in.

use std::collections::HashMap;

/// The longest range that counts as a step, ns.
const LONGEST: f64 = 250e6;
/// How many names of ranges are followed.
const MOST_NAMES: usize = 256;
/// How often a range must have come back to count as a step.
const REPEATS: u64 = 3;

/// The ranges that come back, and which of them is the step.
#[derive(Default)]
pub(super) struct Step {
    ranges: HashMap<Box<[u8]>, Durations>,
    name: Option<Box<[u8]>>,
}

/// How long ranges of one name took.
#[derive(Default)]
struct Durations {
    count: u64,
    mean: f64,
    /// Start and end of the last one.
    last: (i64, i64),
    /// Whether it lies inside one that attaches again too.
    is_inside: bool,
}

impl Durations {
    /// All of them, ns.
    fn total(&self) -> f64 {
        self.mean * self.count as f64
    }
}

impl Step {
    /// Whether ranges show steps.
    pub(super) fn is_known(&self) -> bool {
        self.name.is_some()
    }

    /// Whether a range of this name is a step.
    pub(super) fn is(&self, name: &[u8]) -> bool {
        self.name.as_deref() == Some(name)
    }

    /// How long a step takes, ns.
    pub(super) fn mean(&self) -> f64 {
        let step = self.name.as_ref().and_then(|name| self.ranges.get(name));
        step.map_or(0.0, |step| step.mean)
    }

    /// What was taken for a step is none.
    pub(super) fn forget(&mut self) {
        self.name = None;
    }

    /// There was a range; true if its name is that of steps from now on and was not before.
    pub(super) fn learn(
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
        let total = range.total();
        let may_be = range.count >= REPEATS && range.mean <= LONGEST && !range.is_inside;
        if !may_be || !may_change || self.is(name) {
            return false;
        }
        let known = self
            .name
            .as_ref()
            .and_then(|step| self.ranges.get_mut(step));
        let is_more = known.is_none_or(|known| {
            // The model is nearly all of a step, and runs in prefill too; but the step is what is around it.
            known.is_inside = start <= known.last.0 && known.last.1 <= end;
            // By more than a little, or two that are alike would change places for ever.
            known.is_inside || total > 1.2 * known.total()
        });
        if is_more {
            self.name = Some(name.into());
        }
        is_more
    }

    /// Whether there is a place for a range that takes so long. Where there is none, the shortest one goes: what is inside of
    /// a step ends before it, and may be of more names than are followed.
    fn makes_room(&mut self, duration: f64) -> bool {
        if self.ranges.len() < MOST_NAMES {
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
        let mut step = Step::default();
        for _ in 0..4 {
            step.learn(b"layer", (0, MS), true);
            step.learn(b"layer", (0, MS), true);
            step.learn(b"decode_step", (0, 20 * MS), true);
            step.learn(b"request", (0, 900 * MS), true);
        }
        assert!(step.is(b"decode_step"));
        step.forget();
        assert!(!step.is_known());
        assert!(step.learn(b"decode_step", (0, 20 * MS), true));
    }

    /// Prefill attaches again as well, and is longer; but what comes next are steps.
    #[test]
    fn a_prefill_before_every_decode_is_not_the_step() {
        let mut step = Step::default();
        let mut now = 0;
        for prefill in [312 * MS, 35 * MS, 34 * MS, 34 * MS] {
            step.learn(b"model", (now, now + prefill - 1), true);
            step.learn(b"prefill", (now, now + prefill), true);
            now += prefill;
            for _ in 0..40 {
                step.learn(b"model", (now + 1, now + 20 * MS), true);
                step.learn(b"decode_step", (now, now + 21 * MS), true);
                now += 21 * MS;
                assert!(!step.is(b"prefill"));
            }
        }
        assert!(step.is(b"decode_step"));
    }

    /// A step whose every module has a range, and more of them than are followed; all are long at first.
    #[test]
    fn a_step_of_many_modules_is_found() {
        let mut step = Step::default();
        let mut now = 0;
        for _ in 0..5 {
            let begin = now;
            for module in 0..400 {
                now += MS;
                let name = format!("layers.{module}");
                step.learn(name.as_bytes(), (now - MS, now), true);
            }
            step.learn(b"decode_step", (begin, begin + 200 * MS), true);
        }
        assert!(step.is(b"decode_step"));
        assert!(step.ranges.len() <= MOST_NAMES);
    }

    #[test]
    fn a_step_is_what_is_around_a_model_and_hardly_longer() {
        let mut step = Step::default();
        for round in 0..6 {
            let begin = 300 * round * MS;
            // The model of a prefill is longer than one of decode, and comes first.
            let end = begin + if round == 0 { 200 * MS } else { 19 * MS };
            step.learn(b"model", (begin + 1, end), true);
            if round > 0 {
                step.learn(b"decode_step", (begin, end + MS / 2), true);
            }
        }
        assert!(step.is(b"decode_step"));
    }

    #[test]
    fn the_step_stays_what_it_is_during_a_slice() {
        let mut step = Step::default();
        for _ in 0..3 {
            step.learn(b"prefill", (0, 20 * MS), true);
        }
        for _ in 0..9 {
            assert!(!step.learn(b"decode_step", (0, 20 * MS), false));
        }
        assert!(step.is(b"prefill"));
        assert!(step.learn(b"decode_step", (0, 20 * MS), true));
    }
}
