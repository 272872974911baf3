//! The one clock of a load: nanoseconds since its start, with the wall time of the start to join other records.

use std::time::Instant;

use llmprof_record::clock::unix_now;
use llmprof_units::Nanos;

/// A start, on the monotonic clock and on the wall.
#[derive(Clone, Copy, Debug)]
pub struct LoadClock {
    start: Instant,
    /// Wall time of the start, since 1970.
    pub unix_ns: Nanos,
}

impl LoadClock {
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            unix_ns: unix_now(),
        }
    }

    pub fn now(&self) -> Nanos {
        Nanos(self.start.elapsed().as_nanos() as i64)
    }

    /// A time of this clock on the monotonic clock.
    pub fn instant(&self, at: Nanos) -> Instant {
        self.start + std::time::Duration::from_nanos(at.0.max(0) as u64)
    }
}
