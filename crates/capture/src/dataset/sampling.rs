use std::hash::{BuildHasher, RandomState};

use llmprof_record::plan::SamplingPlan;

use super::python_random::PythonRandom;

/// The epochs of a run, each as the numbers of its samples.
///
/// With n samples an epoch out of N: not random, epoch e takes a window of n that starts at sample (e·n) mod N and wraps
/// around; random, every epoch shuffles all N anew with one generator and takes the first n. An epoch never has a
/// sample twice, so it has N at most.
#[derive(Clone, Debug)]
pub struct Epochs {
    count: usize,
    per_epoch: Option<u64>,
    total: u64,
    next: u64,
    seed: Option<u64>,
    random: Option<PythonRandom>,
}

impl Epochs {
    pub fn new(count: usize, sampling: &SamplingPlan) -> Self {
        // A shuffle without a seed differs from run to run, but it can be repeated: `seed` records it.
        let drawn = || RandomState::new().hash_one(0) >> 32;
        let seed = sampling
            .randomize
            .then(|| sampling.seed.unwrap_or_else(drawn));
        Self {
            count,
            per_epoch: sampling.num_samples_per_epoch,
            total: sampling.num_epochs,
            next: 0,
            seed,
            random: seed.map(PythonRandom::new),
        }
    }

    /// The seed of the shuffle, given or drawn; `None` where nothing is random.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// How many samples an epoch has.
    pub fn samples_per_epoch(&self) -> usize {
        let asked = self.per_epoch.and_then(|asked| usize::try_from(asked).ok());
        asked.map_or(self.count, |asked| asked.min(self.count))
    }
}

impl Iterator for Epochs {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        if self.next >= self.total {
            return None;
        }
        let epoch = self.next;
        self.next += 1;
        let mut order: Vec<usize> = (0..self.count).collect();
        if let Some(random) = &mut self.random {
            random.shuffle(&mut order);
        } else if let Some(asked) = self.per_epoch
            && self.count > 0
        {
            let start = u128::from(epoch) * u128::from(asked) % self.count as u128;
            order.rotate_left(start as usize);
        }
        order.truncate(self.samples_per_epoch());
        Some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling_plan(num_epochs: u64, num_samples_per_epoch: Option<u64>) -> SamplingPlan {
        SamplingPlan {
            num_epochs,
            num_samples_per_epoch,
            randomize: false,
            seed: None,
        }
    }

    fn window_epochs(count: usize, num_epochs: u64, per_epoch: Option<u64>) -> Epochs {
        Epochs::new(count, &sampling_plan(num_epochs, per_epoch))
    }

    fn shuffled_epochs(count: usize, per_epoch: Option<u64>, seed: Option<u64>) -> Epochs {
        let plan = SamplingPlan {
            randomize: true,
            seed,
            ..sampling_plan(2, per_epoch)
        };
        Epochs::new(count, &plan)
    }

    fn all_epochs(epochs: Epochs) -> Vec<Vec<usize>> {
        epochs.collect()
    }

    #[test]
    fn a_window_rotates() {
        assert_eq!(
            all_epochs(window_epochs(5, 4, Some(2))),
            [[0, 1], [2, 3], [4, 0], [1, 2]]
        );
        assert_eq!(
            all_epochs(window_epochs(3, 2, None)),
            [[0, 1, 2], [0, 1, 2]]
        );
        // The window still moves by what was asked for when there is less.
        assert_eq!(
            all_epochs(window_epochs(3, 2, Some(4))),
            [[0, 1, 2], [1, 2, 0]]
        );
        assert_eq!(window_epochs(3, 1, Some(u64::MAX)).samples_per_epoch(), 3);
    }

    /// What the ancestor's loop gives for six samples, two epochs of four and seed 3, in CPython 3.11:
    /// `r = random.Random(3)`, then twice `x = list(range(6)); r.shuffle(x); print(x[:4])`.
    #[test]
    fn one_generator_shuffles_every_epoch() {
        assert_eq!(
            all_epochs(shuffled_epochs(6, Some(4), Some(3))),
            [[0, 2, 3, 5], [1, 3, 2, 0]]
        );
        assert_eq!(shuffled_epochs(6, Some(4), Some(3)).seed(), Some(3));
    }

    #[test]
    fn a_drawn_seed_can_be_used_again() {
        let drawn = shuffled_epochs(100, None, None);
        let seed = drawn.seed();
        assert!(seed.is_some());
        assert_eq!(
            all_epochs(shuffled_epochs(100, None, seed)),
            all_epochs(drawn)
        );
    }

    #[test]
    fn epochs_beyond_memory_are_made_one_by_one() {
        let mut endless = window_epochs(3, u64::MAX, Some(u64::MAX));
        assert_eq!(endless.next(), Some(vec![0, 1, 2]));
        // 2⁶⁴ − 1 is a multiple of three.
        assert_eq!(endless.next(), Some(vec![0, 1, 2]));
    }
}
