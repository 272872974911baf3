//! What is paid once: a first interval that takes longer for the same work, and waits before attention kernels.

use llmprof_record::kernel_name::Category;
use llmprof_units::{Nanos, stats::upper_median};

use crate::matching::lanes::WorkLane;
use crate::phase_facts::{FirstInstance, NewLengths, PhaseInstance};
use crate::thresholds::{
    ATTENTION_WAIT_MIN_NS, ATTENTION_WAIT_MIN_RATIO, FIRST_USE_MIN_RATIO, SAME_WORK_MAX_RATIO,
};

/// Whether the first of some intervals took longer than its work explains; it is then marked as left out. Compilers time kernels on the
/// device, so that a first interval may work longer too.
pub(crate) fn first_instance(instances: &mut [PhaseInstance]) -> Option<FirstInstance> {
    let [first, later @ ..] = instances else {
        return None;
    };
    let middle = |value: fn(&PhaseInstance) -> i64| {
        let mut values: Vec<i64> = later.iter().map(value).collect();
        upper_median(&mut values)
    };
    let wall = middle(|one| one.wall_ns.0)?;
    let sum = middle(|one| one.sum_ns.0)?;
    let work = first.sum_ns.0 as f64 / sum.max(1) as f64;
    let is_slower = first.wall_ns.0 as f64 >= FIRST_USE_MIN_RATIO * wall as f64 * work.max(1.0);
    if !is_slower || work * SAME_WORK_MAX_RATIO <= 1.0 {
        return None;
    }
    first.left_out = true;
    Some(FirstInstance {
        wall_ns: first.wall_ns,
        later_ns: wall as f64,
        new_lengths: None,
    })
}

/// Waits before the attention kernels of some intervals.
#[derive(Default)]
pub(crate) struct AttentionWaits {
    waits: Vec<i64>,
}

impl AttentionWaits {
    /// Adds the waits of one interval.
    pub(crate) fn add_interval(&mut self, lane: &WorkLane, window: (i64, i64)) {
        let mut covered = window.0;
        for item in &lane.items[lane.items_around(window)] {
            if item.time_inside(window).is_none() {
                continue;
            }
            if item.category == Category::Attention && item.start >= window.0 {
                self.waits.push(item.start.saturating_sub(covered).max(0));
            }
            covered = covered.max(item.end);
        }
    }

    /// Sums the waits far above the usual one, which is the median of these and `others`.
    pub(crate) fn find_unusual(&self, others: &Self) -> Option<NewLengths> {
        let mut all: Vec<i64> = self.waits.iter().chain(&others.waits).copied().collect();
        let usual = upper_median(&mut all)?;
        let least = ATTENTION_WAIT_MIN_NS.max(usual.saturating_mul(ATTENTION_WAIT_MIN_RATIO));
        let mut lengths = NewLengths {
            usual_ns: Nanos(usual),
            ..NewLengths::default()
        };
        for &wait in self.waits.iter().filter(|&&wait| wait >= least) {
            lengths.waits += 1;
            lengths.time_ns.0 = lengths.time_ns.0.saturating_add(wait - usual);
        }
        (lengths.waits > 0).then_some(lengths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(wall: i64, sum: i64) -> PhaseInstance {
        PhaseInstance {
            wall_ns: Nanos(wall),
            sum_ns: Nanos(sum),
            ..PhaseInstance::default()
        }
    }

    #[test]
    fn a_slow_first_interval_of_the_same_work_is_first_use() {
        let mut instances = [instance(932, 8), instance(129, 8), instance(131, 9)];
        let first = first_instance(&mut instances).unwrap();
        assert_eq!((first.wall_ns, first.later_ns), (Nanos(932), 131.0));
        assert!(instances[0].left_out && !instances[1].left_out);
    }

    /// torch.compile: 29 s for the first of steps of 3 ms, with five times the work, since candidates are timed.
    #[test]
    fn a_compiled_first_interval_is_first_use() {
        let mut instances = [instance(29_490, 5), instance(3, 1), instance(3, 1)];
        assert!(first_instance(&mut instances).is_some());
    }

    #[test]
    fn more_work_is_no_first_use() {
        assert_eq!(
            first_instance(&mut [instance(932, 80), instance(129, 8)]),
            None
        );
        assert_eq!(
            first_instance(&mut [instance(140, 8), instance(129, 8)]),
            None
        );
        assert_eq!(first_instance(&mut [instance(140, 8)]), None);
    }

    /// 23 waits of 0.1 ms and one of 58 ms.
    #[test]
    fn one_wait_far_above_the_others_is_told() {
        let mut waits = vec![100_000; 23];
        waits.push(58_000_000);
        let waits = AttentionWaits { waits };
        let lengths = waits.find_unusual(&AttentionWaits::default()).unwrap();
        assert_eq!((lengths.waits, lengths.time_ns), (1, Nanos(57_900_000)));
        let even = AttentionWaits {
            waits: vec![58_000_000; 24],
        };
        assert_eq!(even.find_unusual(&AttentionWaits::default()), None);
    }
}
