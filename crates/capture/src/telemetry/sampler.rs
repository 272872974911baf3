use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use llmprof_record::issue::{Issue, Severity};
use llmprof_units::Nanos;

use super::{
    samples::Samples,
    sources::{Roots, Sources},
};
use crate::clock;

/// The thread of telemetry could not be started or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The period is zero.
    #[error("telemetry needs a period above zero")]
    NoPeriod,
    /// The system refused a thread.
    #[error("cannot start the thread of telemetry: {0}")]
    Thread(std::io::Error),
    /// It panicked, which is a mistake of ours.
    #[error("the thread of telemetry panicked")]
    Panicked,
}

/// Reads the machine's counters at a fixed rate until it is told to stop. The first sample is taken at the start and the
/// last one at the end, so that everything in between is covered.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Samples>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: Mutex<bool>,
    stopped: Condvar,
    /// The worker's process id; 0 while there is none.
    worker: AtomicU32,
}

impl Sampler {
    /// Starts sampling every `period`.
    pub fn start(period: Duration) -> Result<Self, TelemetryError> {
        if period.is_zero() {
            return Err(TelemetryError::NoPeriod);
        }
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || sample(&of_thread, period))
            .map_err(TelemetryError::Thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Watches this process from now on, in place of any before.
    pub fn watch(&self, worker: u32) {
        self.shared.worker.store(worker, Ordering::Relaxed);
    }

    /// Takes a last sample and returns all.
    pub fn stop(mut self) -> Result<Samples, TelemetryError> {
        self.shared.stop();
        let thread = self.thread.take().ok_or(TelemetryError::Panicked)?;
        thread.join().map_err(|_| TelemetryError::Panicked)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Shared {
    fn stop(&self) {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.notify_all();
    }

    /// Sleeps until `deadline`; true if it is time to stop.
    fn sleep_until(&self, deadline: Instant) -> bool {
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

fn sample(shared: &Shared, period: Duration) -> Samples {
    let mut sources = Sources::open(&Roots::default());
    let mut samples = Samples {
        period_ns: Nanos(i64::try_from(period.as_nanos()).unwrap_or(i64::MAX)),
        issues: sources.take_issues(),
        ..Samples::default()
    };
    let start = Instant::now();
    let mut tick = 0;
    let mut missed = 0;
    loop {
        let worker = shared.worker.load(Ordering::Relaxed);
        samples
            .rows
            .push(sources.read((worker != 0).then_some(worker)));
        let next = next_tick(start.elapsed(), period);
        missed += next - tick - 1;
        tick = next;
        // A deadline that no clock can hold is never reached: wait for the end instead.
        let deadline =
            after(start, period, tick).unwrap_or_else(|| start + Duration::from_secs(1 << 32));
        if shared.sleep_until(deadline) {
            break;
        }
    }
    let worker = shared.worker.load(Ordering::Relaxed);
    samples
        .rows
        .push(sources.read((worker != 0).then_some(worker)));
    samples.cost_ns = clock::thread_cpu_time();
    if missed > 0 {
        samples.issues.push(
            Issue::new(
                Severity::Warning,
                "telemetry.missed_samples",
                format!("the machine was too busy for {missed} samples of telemetry; rates cover longer times there"),
            )
            .counting(missed)
            .with_hint("a longer period"),
        );
    }
    samples
}

/// The number of the first deadline that is still to come. Deadline k is `k · period` after the start, whatever
/// happened at the ones before: lateness does not add up.
fn next_tick(elapsed: Duration, period: Duration) -> u64 {
    let passed = elapsed.as_nanos() / period.as_nanos().max(1);
    u64::try_from(passed).unwrap_or(u64::MAX - 1) + 1
}

/// When deadline `tick` is.
fn after(start: Instant, period: Duration, tick: u64) -> Option<Instant> {
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
            after(start, period, 36_000),
            Some(start + Duration::from_hours(1))
        );
        assert_eq!(after(start, period, u64::MAX), None);
    }

    #[test]
    fn this_machine_is_sampled_from_start_to_stop() {
        let before = clock::now();
        let sampler = Sampler::start(Duration::from_millis(5)).unwrap();
        sampler.watch(std::process::id());
        // Work until two deadlines must have passed, however slow the machine is.
        let mut sum = 0u64;
        while clock::now().0 - before.0 < 20_000_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        let between = clock::now();
        let samples = sampler.stop().unwrap();
        let rows = &samples.rows;
        assert!(rows.len() >= 2, "{rows:?}");
        assert!(
            rows.windows(2)
                .all(|pair| pair[0].time_ns < pair[1].time_ns)
        );
        assert!(before <= rows[0].time_ns);
        let last = rows.last().unwrap();
        assert!(between <= last.time_ns && last.time_ns <= clock::now());
        assert!(last.worker_rss_bytes.is_some() && last.available_bytes.is_some());
        assert!(samples.cost_ns.0 > 0);
    }

    #[test]
    fn a_long_period_stops_at_once_and_none_is_refused() {
        let sampler = Sampler::start(Duration::from_secs(1 << 40)).unwrap();
        assert_eq!(sampler.stop().unwrap().rows.len(), 2);
        assert!(matches!(
            Sampler::start(Duration::ZERO),
            Err(TelemetryError::NoPeriod)
        ));
    }
}
