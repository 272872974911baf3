//! What host threads do, sampled from outside: on a CPU or waiting, for what, and with which Python stack.
//!
//! One thread of ours looks at the processes that it is given, at most [`RATE_MAX_HZ`] times a second and less often where that would
//! take more than its share of the time. It stops nobody: memory is read while the process runs, so that single stacks may be torn
//! and are left out then. Each process gets a wire file (`host-PID-TIME.wire`), which is written at every sample and can
//! be read whatever becomes of us.
//!
//! Not seen: native frames, threads of a Python process that never ran Python, and coroutines that are not running.

#[cfg_attr(not(feature = "host-stacks"), path = "interpreter_absent.rs")]
mod interpreter;
mod python;
mod sample_file;
mod system_calls;
mod target;
mod thread_state;

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use llmprof_record::issue::Issue;
use llmprof_units::Share;

use self::target::Target;

/// More often the target slows down: 5 % at 200 Hz, 12 % at 1 kHz, nothing that can be told from noise at 100 Hz.
pub const RATE_MAX_HZ: u32 = 100;
/// Share of one CPU that sampling may take where nobody set a budget.
pub const SHARE_DEFAULT: f64 = 0.02;
/// However much a sample costs, one is taken this often.
const PERIOD_MAX: Duration = Duration::from_secs(1);

/// Samples processes until it is stopped or dropped.
pub struct HostSampler {
    orders: Sender<SamplerOrder>,
    thread: JoinHandle<Vec<Issue>>,
}

enum SamplerOrder {
    Process(u32),
    Record(bool),
}

impl HostSampler {
    /// Samples into files of a directory that exists. `share` is the part of the time that sampling may take.
    pub fn start(directory: &Path, share: Option<Share>) -> io::Result<Self> {
        let (orders, received) = channel();
        let sampling = SamplingThread {
            directory: directory.to_owned(),
            share: share.map_or(SHARE_DEFAULT, |share| f64::from(share.ppm()) / 1e6),
            received,
            is_on: true,
            targets: Vec::new(),
            issues: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("llmprof-host".to_owned())
            .spawn(|| sampling.run_sampling())?;
        Ok(Self { orders, thread })
    }

    /// One more process, or another program in one that is known.
    pub fn add_process(&self, process: u32) {
        // The thread is there as long as we are.
        let _ = self.orders.send(SamplerOrder::Process(process));
    }

    /// Samples from now on, or no more.
    pub fn set_recording(&self, is_on: bool) {
        let _ = self.orders.send(SamplerOrder::Record(is_on));
    }

    /// Ends sampling; what was not sampled, and why.
    pub fn stop(self) -> Vec<Issue> {
        drop(self.orders);
        self.thread.join().unwrap_or_default()
    }
}

struct SamplingThread {
    directory: PathBuf,
    share: f64,
    received: Receiver<SamplerOrder>,
    is_on: bool,
    targets: Vec<Target>,
    issues: Vec<Issue>,
}

impl SamplingThread {
    fn run_sampling(mut self) -> Vec<Issue> {
        let mut next = Instant::now();
        loop {
            let wait = next.saturating_duration_since(Instant::now());
            match self.received.recv_timeout(wait) {
                Ok(SamplerOrder::Record(is_on)) => {
                    self.is_on = is_on;
                    self.targets.iter_mut().for_each(Target::restart_clock);
                }
                Ok(SamplerOrder::Process(process)) => {
                    self.retire_targets(|target| target.process() == process);
                    self.targets
                        .extend(Target::open(&self.directory, process).ok());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let began = Instant::now();
                    for target in self.targets.iter_mut().filter(|_| self.is_on) {
                        target.take_sample();
                    }
                    self.retire_targets(Target::is_gone);
                    next = began + sample_period(began.elapsed(), self.share);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.retire_targets(|_| true);
                    return self.issues;
                }
            }
        }
    }

    /// Samples these no more, and keeps what is to be said of them.
    fn retire_targets(&mut self, is_over: impl Fn(&Target) -> bool) {
        let (over, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.targets)
            .into_iter()
            .partition(is_over);
        self.targets = rest;
        self.issues
            .extend(over.into_iter().flat_map(Target::into_issues));
    }
}

/// Time from one sample to the next where one takes so long.
fn sample_period(cost: Duration, share: f64) -> Duration {
    let shortest = Duration::from_secs(1) / RATE_MAX_HZ;
    let paid = cost.as_secs_f64() / share.max(1e-6);
    Duration::from_secs_f64(paid.min(PERIOD_MAX.as_secs_f64())).max(shortest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_take_their_share_and_no_more() {
        let micros = Duration::from_micros;
        // One thread: 110 µs a sample.
        assert_eq!(sample_period(micros(110), 0.02), micros(10_000));
        // 17 threads: 0.7 ms.
        assert_eq!(sample_period(micros(700), 0.02), micros(35_000));
        assert_eq!(sample_period(Duration::from_secs(1), 0.02), PERIOD_MAX);
        assert_eq!(sample_period(micros(1), 0.0), PERIOD_MAX);
    }
}
