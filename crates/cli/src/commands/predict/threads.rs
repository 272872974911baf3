//! Work on blocks of a grid by all cores, with results in the grid's order.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use crate::failure::Failure;

/// Points of a block: long enough to be worth a message, short enough to keep few results in memory.
const BLOCK: usize = 1024;
/// Finished blocks that may wait for each thread.
const WAITING: usize = 4;

/// Makes every block with `make`, each thread with a state of its own, and hands the results to `take` in order.
pub(super) fn in_order<S: Default, T: Send>(
    points: usize,
    make: impl Fn(&Range<usize>, &mut S) -> T + Sync,
    mut take: impl FnMut(T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let blocks = points.div_ceil(BLOCK);
    let block = |number: usize| number * BLOCK..((number + 1) * BLOCK).min(points);
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(blocks);
    if threads <= 1 {
        let mut state = S::default();
        return (0..blocks).try_for_each(|number| take(make(&block(number), &mut state)));
    }
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, receiver) = mpsc::sync_channel(threads * WAITING);
    thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, stop, make, block) = (&next, &stop, &make, &block);
            scope.spawn(move || {
                let mut state = S::default();
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= blocks {
                        break;
                    }
                    if sender
                        .send((number, make(&block(number), &mut state)))
                        .is_err()
                    {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut due = 0;
        let mut outcome = Ok(());
        for (number, result) in receiver {
            early.insert(number, result);
            while let Some(result) = early.remove(&due).filter(|_| outcome.is_ok()) {
                due += 1;
                outcome = take(result);
            }
            if outcome.is_err() {
                // Blocks that are under way are received and dropped.
                stop.store(true, Ordering::Relaxed);
                early.clear();
            }
        }
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_in_order_whatever_thread_made_them() {
        for points in [0, 1, BLOCK, 10 * BLOCK + 7] {
            let mut seen = Vec::new();
            in_order(
                points,
                |block, calls: &mut usize| {
                    *calls += 1;
                    block.clone().collect::<Vec<_>>()
                },
                |some| {
                    seen.extend(some);
                    Ok(())
                },
            )
            .unwrap();
            assert!(seen.iter().copied().eq(0..points));
        }
    }

    #[test]
    fn a_failure_ends_the_work() {
        let mut taken = 0;
        let outcome = in_order(
            50 * BLOCK,
            |block, (): &mut ()| block.start,
            |_| {
                taken += 1;
                if taken == 3 {
                    Err(Failure::new("full"))
                } else {
                    Ok(())
                }
            },
        );
        assert!(outcome.is_err());
        assert_eq!(taken, 3);
    }
}
