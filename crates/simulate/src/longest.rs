//! The longest of the last steps, for any number of them.

use llmprof_units::Nanos;

/// Answers "the longest step since step N" where steps only ever come at the end: only steps longer than all later ones are kept.
#[derive(Debug, Default)]
pub(crate) struct LongestSteps(Vec<(u64, Nanos)>);

impl LongestSteps {
    pub(crate) fn push_step(&mut self, step: u64, time: Nanos) {
        while self.0.last().is_some_and(|(_, last)| *last <= time) {
            self.0.pop();
        }
        self.0.push((step, time));
    }

    /// Of the steps from `first` on.
    pub(crate) fn longest_since(&self, first: u64) -> Option<Nanos> {
        let place = self.0.partition_point(|(step, _)| *step < first);
        self.0.get(place).map(|(_, time)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_maximum_of_the_tail() {
        let times = [5, 3, 8, 2, 2, 7, 1, 4].map(Nanos);
        let mut longest = LongestSteps::default();
        for (step, time) in times.iter().enumerate() {
            longest.push_step(step as u64, *time);
            for first in 0..=step {
                let expected = times[first..=step].iter().max().copied();
                assert_eq!(longest.longest_since(first as u64), expected);
            }
        }
        assert_eq!(longest.longest_since(8), None);
    }
}
