//! Work on blocks of a grid by all cores, with results in the grid's order.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use crate::failure::Failure;

/// Points of a block: long enough to be worth a message, short enough to keep few results in memory.
const BLOCK: usize = 1024;
/// Blocks for each thread that may be under way or wait for an earlier one.
const BLOCKS_AHEAD_PER_THREAD: usize = 4;

/// The first block that nobody may begin yet; it moves on as results are taken, so that a slow block keeps few others in memory.
struct BlockWindow {
    end: Mutex<usize>,
    moved: Condvar,
}

impl BlockWindow {
    fn set(&self, end: usize) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
        self.moved.notify_all();
    }

    /// Waits until a block may begin; false where no more may.
    fn pass(&self, block: usize) -> bool {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let end = self
            .moved
            .wait_while(end, |end| *end > 0 && block >= *end)
            .unwrap_or_else(PoisonError::into_inner);
        block < *end
    }
}

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
    let ahead = threads * BLOCKS_AHEAD_PER_THREAD;
    let next = AtomicUsize::new(0);
    let gate = BlockWindow {
        end: Mutex::new(ahead),
        moved: Condvar::new(),
    };
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, gate, make, block) = (&next, &gate, &make, &block);
            scope.spawn(move || {
                let mut state = S::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= blocks || !gate.pass(number) {
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
                gate.set(due + ahead);
            }
            if outcome.is_err() {
                // Blocks that are under way are received and dropped.
                gate.set(0);
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

    /// The first block takes longer than all others: they wait.
    #[test]
    fn a_slow_block_keeps_few_others_in_memory() {
        let made = AtomicUsize::new(0);
        let before = AtomicUsize::new(0);
        let mut taken = 0;
        in_order(
            1000 * BLOCK,
            |block, (): &mut ()| {
                if block.start == 0 {
                    thread::sleep(std::time::Duration::from_millis(50));
                    before.store(made.load(Ordering::SeqCst), Ordering::SeqCst);
                }
                made.fetch_add(1, Ordering::SeqCst);
            },
            |()| {
                taken += 1;
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(taken, 1000);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        assert!(before.load(Ordering::SeqCst) <= threads * BLOCKS_AHEAD_PER_THREAD);
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
