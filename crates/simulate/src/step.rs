//! How long a step takes, and which contexts of a step count as one.

use std::collections::BTreeMap;

use llmprof_theory::{Part, Sequences, Step};
use llmprof_units::Nanos;

/// Contexts of one octave that are told apart: within a sixteenth of an octave, attention's time is as good as linear in the context.
const CONTEXTS_PER_OCTAVE: u64 = 16;

pub trait StepTimer {
    /// From the start of a step to the start of the next one; at least 1 ns, so that time passes.
    fn step_time(&self, step: &Step) -> Nanos;
}

impl<F: Fn(&Step) -> Nanos> StepTimer for F {
    fn step_time(&self, step: &Step) -> Nanos {
        self(step)
    }
}

/// Contexts of decoding sequences. All grow by a token a decode step, so that what is kept is each one's distance from the number of
/// decode steps so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contexts(BTreeMap<i64, u64>);

impl Contexts {
    /// A sequence that has `context` tokens after `steps` decode steps begins to decode.
    pub(crate) fn add_sequence(&mut self, context: u64, steps: u64) {
        *self.0.entry(context as i64 - steps as i64).or_default() += 1;
    }

    /// A sequence that has `context` tokens after `steps` decode steps ends.
    pub(crate) fn remove_sequence(&mut self, context: u64, steps: u64) {
        let distance = context as i64 - steps as i64;
        if let Some(count) = self.0.get_mut(&distance) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&distance);
            }
        }
    }

    /// The sequences after `steps` decode steps.
    pub(crate) fn part_after(&self, steps: u64) -> Part {
        let known = self.0.iter();
        join_contexts(
            known.map(|(distance, count)| ((distance + steps as i64).max(0) as u64, *count)),
        )
    }
}

/// Sequences that decode: `contexts` has each context in rising order with the number of its sequences. Neighbouring contexts are
/// joined; their sum is kept.
fn join_contexts(contexts: impl Iterator<Item = (u64, u64)>) -> Part {
    let mut groups: Vec<Sequences> = Vec::new();
    // Of the neighbours that are being joined: where they lie, how many, and the sum of their contexts.
    let (mut place, mut count, mut sum) = (0, 0, 0);
    for (context, sequences) in contexts {
        let next = place_of(context);
        if next != place {
            add_equal(&mut groups, count, sum);
            (place, count, sum) = (next, 0, 0);
        }
        count += sequences;
        sum += sequences * context;
    }
    add_equal(&mut groups, count, sum);
    Part::Groups(groups)
}

fn place_of(context: u64) -> u64 {
    let context = context.max(1);
    let octave = context.ilog2();
    u64::from(octave) * CONTEXTS_PER_OCTAVE + ((context * CONTEXTS_PER_OCTAVE) >> octave)
}

/// The contexts before and after which sequences of `context` cached tokens are timed at: the ends of its part of an octave.
pub(crate) fn neighbor_contexts(context: u64) -> [u64; 2] {
    let context = context.max(1);
    let spacing = (1_u64 << context.ilog2()).div_ceil(CONTEXTS_PER_OCTAVE);
    let low = context / spacing * spacing;
    [low, low + spacing]
}

/// Adds `count` sequences whose contexts have this sum, as equal as whole numbers allow.
fn add_equal(groups: &mut Vec<Sequences>, count: u64, sum: u64) {
    if count == 0 {
        return;
    }
    let longer = sum % count;
    for (count, cached) in [(count - longer, sum / count), (longer, sum / count + 1)] {
        if count > 0 {
            groups.push(Sequences {
                count,
                new: 1,
                cached,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_sums_kept() {
        let contexts = [(1, 2), (100, 1), (101, 3), (4000, 1), (4001, 1), (9000, 2)];
        let part = join_contexts(contexts.into_iter());
        assert_eq!(part.sequences(), 10);
        assert_eq!(part.cached_tokens(), Some(2 + 100 + 303 + 8001 + 18_000));
        let group = |count, cached| Sequences {
            count,
            new: 1,
            cached,
        };
        let expected = vec![
            group(2, 1),
            group(1, 100),
            group(3, 101),
            group(1, 4000),
            group(1, 4001),
            group(2, 9000),
        ];
        assert_eq!(part, Part::Groups(expected));
        let many = join_contexts((4000..4100).map(|context| (context, 1)));
        assert!(many.sequence_groups().len() <= 4, "{many:?}");
        assert_eq!(many.cached_tokens(), Some((4000..4100).sum()));
    }
}
