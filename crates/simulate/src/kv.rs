//! KV blocks: who has them, which free ones still hold content, and in which order they are taken.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Free blocks in the order they are taken: the longest unused first.
#[derive(Clone, Copy, Debug)]
enum Free {
    /// A number of blocks without content that a request could reuse.
    Plain(u64),
    /// A block with content, unless it was taken after it was queued.
    Cached { key: u64, stamp: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    /// Number of requests that hold the block.
    users: u32,
    /// Stamp of its entry in the free queue while it has no users.
    stamp: u64,
}

/// The blocks of an engine. Most content is never asked for again, so that those blocks are counted, not kept.
#[derive(Debug)]
pub(crate) struct BlockPool {
    total: u64,
    free: u64,
    queue: VecDeque<Free>,
    cached: FxHashMap<u64, Cached>,
    stamp: u64,
}

impl BlockPool {
    pub(crate) fn new(total: u64) -> Self {
        Self {
            total,
            free: total,
            queue: VecDeque::from([Free::Plain(total)]),
            cached: FxHashMap::default(),
            stamp: 0,
        }
    }

    pub(crate) fn free_blocks(&self) -> u64 {
        self.free
    }

    pub(crate) fn used_blocks(&self) -> u64 {
        self.total - self.free
    }

    /// How many leading keys are cached, and how many of those nobody uses: taking them makes them unfree.
    pub(crate) fn count_hits(&self, keys: &[u64]) -> (usize, u64) {
        let mut unused = 0;
        for (index, key) in keys.iter().enumerate() {
            match self.cached.get(key) {
                Some(block) => unused += u64::from(block.users == 0),
                None => return (index, unused),
            }
        }
        (keys.len(), unused)
    }

    pub(crate) fn use_cached(&mut self, keys: &[u64]) {
        for key in keys {
            let block = self.cached.get_mut(key).expect("only hits are touched");
            self.free -= u64::from(block.users == 0);
            block.users += 1;
        }
    }

    /// Takes `count` blocks from the front of the queue and drops their cached content. The caller has checked that `count` blocks are free.
    pub(crate) fn take_blocks(&mut self, count: u64) {
        debug_assert!(count <= self.free);
        self.free -= count;
        let mut left = count;
        while left > 0 {
            match self.queue.front_mut() {
                Some(Free::Plain(some)) => {
                    let taken = left.min(*some);
                    *some -= taken;
                    left -= taken;
                    if *some == 0 {
                        self.queue.pop_front();
                    }
                }
                Some(&mut Free::Cached { key, stamp }) => {
                    self.queue.pop_front();
                    let is_here = self
                        .cached
                        .get(&key)
                        .is_some_and(|block| block.users == 0 && block.stamp == stamp);
                    if is_here {
                        self.cached.remove(&key);
                        left -= 1;
                    }
                }
                None => return,
            }
        }
    }

    /// Gives content to a block that was taken, so that others find it. `false` where another block has that content: the caller's
    /// stays plain.
    pub(crate) fn name_block(&mut self, key: u64) -> bool {
        let mut is_new = false;
        self.cached.entry(key).or_insert_with(|| {
            is_new = true;
            Cached { users: 1, stamp: 0 }
        });
        is_new
    }

    /// Gives blocks back: last ones first, so that a prefix outlives what follows it. `plain` blocks come after the named ones in
    /// the sequence.
    pub(crate) fn give_back(&mut self, named: &[u64], plain: u64) {
        self.free += plain;
        if plain > 0 {
            match self.queue.back_mut() {
                Some(Free::Plain(some)) => *some += plain,
                _ => self.queue.push_back(Free::Plain(plain)),
            }
        }
        for key in named.iter().rev() {
            self.stamp += 1;
            let block = self.cached.get_mut(key).expect("a used block is cached");
            block.users -= 1;
            if block.users == 0 {
                block.stamp = self.stamp;
                self.free += 1;
                self.queue.push_back(Free::Cached {
                    key: *key,
                    stamp: self.stamp,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first_and_a_prefix_last() {
        let mut pool = BlockPool::new(4);
        pool.take_blocks(3);
        assert!([1, 2, 3].into_iter().all(|key| pool.name_block(key)));
        assert!(!pool.name_block(2));
        pool.give_back(&[1, 2, 3], 0);
        assert_eq!(
            (pool.free_blocks(), pool.count_hits(&[1, 2, 3])),
            (4, (3, 3))
        );
        // One never used block, then the end of the sequence.
        pool.take_blocks(2);
        assert_eq!(pool.count_hits(&[1, 2, 3]), (2, 2));
        pool.use_cached(&[1]);
        assert_eq!((pool.free_blocks(), pool.used_blocks()), (1, 3));
        pool.use_cached(&[1]);
        assert_eq!(pool.free_blocks(), 1);
        pool.take_blocks(1);
        assert_eq!(pool.count_hits(&[1, 2]), (1, 0));
        pool.give_back(&[1], 0);
        assert_eq!(pool.free_blocks(), 0);
        pool.give_back(&[1], 3);
        assert_eq!((pool.free_blocks(), pool.used_blocks()), (4, 0));
        // Plain blocks of the last user go before its prefix.
        pool.take_blocks(3);
        assert_eq!(pool.count_hits(&[1]), (1, 1));
        pool.take_blocks(1);
        assert_eq!(pool.count_hits(&[1]), (0, 0));
    }
}
