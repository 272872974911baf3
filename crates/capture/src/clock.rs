//! The run's one clock: `CLOCK_MONOTONIC`, in nanoseconds, shared by every process of the machine.

use llmprof_record::clock::read_clock;
pub use llmprof_record::clock::{monotonic_now as now, unix_offset};
use llmprof_units::Nanos;
use rustix::time::ClockId;

/// Processor time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Nanos {
    read_clock(ClockId::ThreadCPUTime)
}
