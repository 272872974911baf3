//! The run's one clock: `CLOCK_MONOTONIC`, in nanoseconds, shared by every process of the machine.

use llmprof_units::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The time now on the run's clock. Python calls it `time.monotonic_ns()`.
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// What has to be added to times on the run's clock to get Unix time, as of now.
pub fn unix_offset() -> Nanos {
    read(ClockId::Realtime) - read(ClockId::Monotonic)
}

/// Processor time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    Nanos(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}
