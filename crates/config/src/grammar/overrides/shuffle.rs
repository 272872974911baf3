//! The order of shuffled lists and sweeps, which the caller decides so that a run can be repeated.

pub trait Shuffle {
    /// The indices `0..length`, each once, in the order to visit.
    fn shuffled_indices(&mut self, length: usize) -> Vec<usize>;
}

/// Leaves everything where it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeepOrder;

impl Shuffle for KeepOrder {
    fn shuffled_indices(&mut self, length: usize) -> Vec<usize> {
        (0..length).collect()
    }
}

/// Orders from a seed: the same seed gives the same orders on every machine.
#[derive(Debug, Clone)]
pub struct SeededShuffle {
    state: u64,
}

impl SeededShuffle {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014), with its published constants.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Shuffle for SeededShuffle {
    fn shuffled_indices(&mut self, length: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..length).collect();
        for last in (1..length).rev() {
            // The bias of the remainder is below 2^-40 for any list that fits a command line.
            let pick = (self.next() % (last as u64 + 1)) as usize;
            order.swap(last, pick);
        }
        order
    }
}

/// `items` in the order that `shuffle` decides.
pub(super) fn shuffle_items<T: Clone>(items: &[T], shuffle: &mut dyn Shuffle) -> Vec<T> {
    shuffle
        .shuffled_indices(items.len())
        .into_iter()
        .filter_map(|at| items.get(at).cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_permutation() {
        let mut order = SeededShuffle::new(7).shuffled_indices(100);
        assert_eq!(order, SeededShuffle::new(7).shuffled_indices(100));
        assert_ne!(order, SeededShuffle::new(8).shuffled_indices(100));
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert_eq!(order, KeepOrder.shuffled_indices(100));
    }
}
