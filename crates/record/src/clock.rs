//! The clocks of a run: `CLOCK_MONOTONIC`, which every duration is of and every process of the machine shares, and Unix time, by which
//! records of others are joined.

use std::sync::OnceLock;

use llmprof_units::Nanos;
use rustix::time::{ClockId, clock_gettime};

static PROCESS: UnixOffset = UnixOffset(OnceLock::new());

/// What to add to monotonic times for Unix time. The wall clock is read once: setting it meanwhile moves no time against another.
struct UnixOffset(OnceLock<Nanos>);

impl UnixOffset {
    fn get(&self, monotonic: impl Fn() -> Nanos, wall: impl Fn() -> Nanos) -> Nanos {
        // The reading of the wall lies between two of the monotonic clock; the middle is the best guess.
        *self.0.get_or_init(|| {
            let (before, wall, after) = (monotonic(), wall(), monotonic());
            wall - Nanos(before.0.midpoint(after.0))
        })
    }
}

/// The time now on `CLOCK_MONOTONIC`. Python calls it `time.monotonic_ns()`.
pub fn monotonic_now() -> Nanos {
    read_clock(ClockId::Monotonic)
}

/// What to add to [`monotonic_now`] for Unix time: the same for as long as the process lives.
pub fn unix_offset() -> Nanos {
    PROCESS.get(monotonic_now, || read_clock(ClockId::Realtime))
}

/// Unix time that goes on evenly, also where the wall clock is set meanwhile.
pub fn unix_now() -> Nanos {
    monotonic_now() + unix_offset()
}

pub fn read_clock(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // A wall clock may be set beyond the year 2262.
    let whole = time.tv_sec.saturating_mul(1_000_000_000);
    Nanos(whole.saturating_add(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_wall_clock_that_is_set_moves_no_time_against_another() {
        let offset = UnixOffset(OnceLock::new());
        let time = Cell::new(1_000);
        let jump = Cell::new(1_700_000_000_000_000_000_i64);
        let unix_now = || {
            let monotonic = || Nanos(time.get());
            let wall = || Nanos(time.get() + jump.get());
            monotonic() + offset.get(monotonic, wall)
        };
        let first = unix_now();
        assert_eq!(first, Nanos(1_700_000_000_000_001_000));
        for seconds in [-3_600, 7_200, -90_000, 100_000_000] {
            time.set(time.get() + 50);
            jump.set(jump.get() + seconds * 1_000_000_000);
            assert_eq!(unix_now() - first, Nanos(time.get() - 1_000));
        }
    }
}
