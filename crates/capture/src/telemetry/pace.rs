//! When samples are taken: at deadlines that lie a fixed period apart, counted from the start.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use llmprof_record::issue::{Issue, IssueCode};

/// What the threads of telemetry and their owner share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    stop: Mutex<bool>,
    stopped: Condvar,
    /// The worker's process id; 0 while there is none.
    worker: AtomicU32,
}

impl Shared {
    /// Tells the threads to take their last sample.
    pub(super) fn request_stop(&self) {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.notify_all();
    }

    /// Whether the last sample is due.
    pub(super) fn is_stopping(&self) -> bool {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches this process from now on.
    pub(super) fn watch(&self, worker: u32) {
        self.worker.store(worker, Ordering::Relaxed);
    }

    /// Process id of the worker that is watched.
    pub(super) fn worker(&self) -> Option<u32> {
        let worker = self.worker.load(Ordering::Relaxed);
        (worker != 0).then_some(worker)
    }

    /// Sleeps until `deadline`; true if it is time to stop.
    pub(super) fn sleep_until(&self, deadline: Instant) -> bool {
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if *stop || left.is_zero() {
                return *stop;
            }
            stop = self
                .stopped
                .wait_timeout(stop, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

/// Calls `read` at once, then at every deadline, and once more when it is time to stop. Deadlines that passed while
/// `read` was still at work, or while the thread did not run, are left out; the answer is how many.
pub(super) fn keep_pace(
    shared: &Shared,
    period: Duration,
    mut read: impl FnMut(Option<u32>),
) -> u64 {
    let start = Instant::now();
    let mut tick = 0;
    let mut missed = 0;
    loop {
        read(shared.worker());
        let next = next_tick(start.elapsed(), period);
        missed += next - tick - 1;
        tick = next;
        // A deadline that no clock can hold is never reached: wait for the end instead.
        let deadline =
            tick_time(start, period, tick).unwrap_or_else(|| start + Duration::from_secs(1 << 32));
        if shared.sleep_until(deadline) {
            break;
        }
    }
    read(shared.worker());
    missed
}

/// What it means that deadlines were missed; `None` where none were.
pub(super) fn missed_samples(what: &str, missed: u64) -> Option<Issue> {
    (missed > 0).then(|| {
        Issue::warning(IssueCode::TelemetryMissedSamples)
            .with("of", what)
            .counting(missed)
    })
}

/// The number of the first deadline that is still to come. Deadline k is `k · period` after the start, whatever
/// happened at the ones before: lateness does not add up.
fn next_tick(elapsed: Duration, period: Duration) -> u64 {
    let passed = elapsed.as_nanos() / period.as_nanos().max(1);
    u64::try_from(passed).unwrap_or(u64::MAX - 1) + 1
}

fn tick_time(start: Instant, period: Duration, tick: u64) -> Option<Instant> {
    let nanos = period.as_nanos().checked_mul(u128::from(tick))?;
    start.checked_add(Duration::from_nanos(u64::try_from(nanos).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_do_not_drift() {
        let period = Duration::from_millis(100);
        let at = |millis| next_tick(Duration::from_millis(millis), period);
        assert_eq!((at(0), at(99), at(100), at(101), at(450)), (1, 1, 2, 2, 5));
        let start = Instant::now();
        assert_eq!(
            tick_time(start, period, 36_000),
            Some(start + Duration::from_hours(1))
        );
        assert_eq!(tick_time(start, period, u64::MAX), None);
    }

    /// Reading takes 7 ms of every 20 ms period here; a loop that slept 20 ms after each reading would be at
    /// sample 37 after a second.
    #[test]
    fn a_second_at_50_hz_has_50_deadlines_however_long_reading_takes() {
        let period = Duration::from_millis(20);
        let (mut time, mut tick, mut samples) = (Duration::ZERO, 0, 0);
        while time < Duration::from_secs(1) {
            samples += 1;
            let next = next_tick(time + Duration::from_millis(7), period);
            assert_eq!(next, tick + 1);
            tick = next;
            time = period * u32::try_from(tick).unwrap();
        }
        assert_eq!(samples, 50);
    }

    #[test]
    fn a_reading_that_overruns_skips_deadlines_and_says_how_many() {
        let shared = Shared::default();
        let mut reads = 0;
        let missed = keep_pace(&shared, Duration::from_millis(1), |worker| {
            assert_eq!(worker, None);
            reads += 1;
            std::thread::sleep(Duration::from_millis(20));
            if reads == 2 {
                shared.request_stop();
            }
        });
        assert_eq!(reads, 3);
        // Two readings of at least 20 periods each lie before the last one.
        assert!(missed >= 38, "{missed}");
        let issue = missed_samples("telemetry", missed).unwrap();
        assert_eq!(issue.count, missed);
        assert_eq!(missed_samples("telemetry", 0), None);
    }
}
