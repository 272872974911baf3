use std::{hint::black_box, time::Instant};

use rayon::{ThreadPool, prelude::*};

use crate::{buffer, error::EngineError, kernel::vectorized};

/// Bytes that a thread touches before it looks for more work.
const TASK_BYTES: usize = 1 << 20;
/// The shortest run that is timed; small working sets are gone over again and again.
const RUN_BYTES: usize = 1 << 28;

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPattern {
    Read,
    /// Reading one half of the working set and writing the other; bytes of both count.
    Copy,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    pub traffic: MemoryPattern,
    pub threads: usize,
    /// Bytes that they went over, all threads together.
    pub working_set: usize,
    pub bytes_per_second: f64,
}

/// The best bandwidth of `runs` runs of `threads` threads over `working_set` bytes.
///
/// A working set below the size of a cache measures that cache: each thread goes over the same part in every round.
pub fn measure_bandwidth(
    traffic: MemoryPattern,
    threads: usize,
    working_set: usize,
    runs: usize,
) -> Result<Bandwidth, EngineError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| EngineError::Threads {
            threads,
            reason: error.to_string(),
        })?;
    let threads = pool.current_num_threads();
    // Whole cache lines for each thread, and two halves that can be copied.
    let share = (working_set / threads / 128 * 128).max(128);
    let mut memory = buffer::allocate_anonymous(share * threads, "the bandwidth measurement")?;
    // Zero pages may share one physical page; written ones do not.
    pool.install(|| {
        memory
            .par_chunks_mut(TASK_BYTES)
            .for_each(|part| part.fill(1));
    });
    let rounds = (RUN_BYTES / (share * threads)).max(1);
    let mut best = f64::INFINITY;
    for _ in 0..runs.max(1) {
        let start = Instant::now();
        match traffic {
            MemoryPattern::Read => read_memory(&pool, &memory, share, rounds),
            MemoryPattern::Copy => copy_memory(&pool, &mut memory, share, rounds),
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(Bandwidth {
        traffic,
        threads,
        working_set: share * threads,
        bytes_per_second: (share * threads * rounds) as f64 / best,
    })
}

vectorized! {
    /// Adds all values to `total`, in as many sums as hide the latency of an addition.
    fn sum_into(values: &[f32], total: &mut f32) {
        const LANES: usize = 128;
        let mut sums = [0.0f32; LANES];
        let (chunks, rest) = values.as_chunks::<LANES>();
        for chunk in chunks {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                *sum += value;
            }
        }
        *total += sums.iter().chain(rest).sum::<f32>();
    }
}

fn read_memory(pool: &ThreadPool, memory: &[u8], share: usize, rounds: usize) {
    let total: f32 = pool.install(|| {
        memory
            .par_chunks(share)
            .with_max_len(1)
            .map(|part| {
                let floats: &[f32] = bytemuck::cast_slice(part);
                let mut total = 0.0;
                for _ in 0..rounds {
                    sum_into(black_box(floats), &mut total);
                }
                total
            })
            .sum()
    });
    black_box(total);
}

fn copy_memory(pool: &ThreadPool, memory: &mut [u8], share: usize, rounds: usize) {
    pool.install(|| {
        memory
            .par_chunks_mut(share)
            .with_max_len(1)
            .for_each(|part| {
                for _ in 0..rounds {
                    let (from, to) = part.split_at_mut(share / 2);
                    to.copy_from_slice(from);
                    black_box(to);
                }
            });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_positive_at_any_size() {
        for traffic in [MemoryPattern::Read, MemoryPattern::Copy] {
            for (threads, size) in [(1, 0), (2, 1000), (2, 1 << 20)] {
                let measured = measure_bandwidth(traffic, threads, size, 1).unwrap();
                assert!(measured.bytes_per_second > 1e6, "{measured:?}");
                assert_eq!(measured.threads, threads);
                assert!(measured.working_set <= size.max(128 * threads));
            }
        }
    }
}
