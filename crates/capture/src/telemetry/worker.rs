//! The process under watch: what it used, waited for and was denied since the sample before.

use std::{fs, path::Path};

use llmprof_units::Nanos;

use super::{procfs, quota::Quota};

/// A process, with its counters at the sample before.
#[derive(Debug)]
pub(super) struct Worker {
    pid: u32,
    quota: Quota,
    before: Option<Counts>,
}

/// Its counters at one moment.
#[derive(Debug)]
struct Counts {
    time: Nanos,
    ticks: Option<u64>,
    /// Nanoseconds that each thread waited for a CPU so far.
    waited: Option<Vec<(u32, u64)>>,
    throttled_ns: Option<u64>,
}

/// Differences of two readings, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Seconds on a CPU, of all threads.
    pub(super) cores: Option<f64>,
    /// Seconds in which threads were ready but waited for a CPU, of all threads.
    pub(super) waiting: Option<f64>,
    /// Seconds that a quota withheld, of all CPUs.
    pub(super) throttled: Option<f64>,
}

impl Worker {
    /// Begins to watch a process.
    pub(super) fn watch_process(pid: u32, proc: &Path, cgroups: &Path) -> Self {
        let groups = fs::read_to_string(proc.join(format!("{pid}/cgroup"))).unwrap_or_default();
        Self {
            pid,
            quota: Quota::find_quota(&groups, cgroups),
            before: None,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Reads its counters, and what they grew by since they were read before.
    pub(super) fn read_rates(&mut self, time: Nanos, proc: &Path, ticks_per_second: f64) -> Rates {
        let folder = proc.join(self.pid.to_string());
        let stat = fs::read_to_string(folder.join("stat")).ok();
        let now = Counts {
            time,
            ticks: stat.as_deref().and_then(procfs::process_ticks),
            waited: threads_waited(&folder.join("task")),
            throttled_ns: self.quota.throttled_ns(),
        };
        let rates = self
            .before
            .as_ref()
            .map(|before| now.since(before, ticks_per_second));
        self.before = Some(now);
        rates.unwrap_or_default()
    }
}

impl Counts {
    fn since(&self, before: &Self, ticks_per_second: f64) -> Rates {
        let seconds = (self.time.0 - before.time.0) as f64 * 1e-9;
        if seconds <= 0.0 {
            return Rates::default();
        }
        let grown = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?);
        Rates {
            cores: grown(self.ticks, before.ticks)
                .map(|ticks| ticks as f64 / ticks_per_second / seconds),
            waiting: self
                .waited
                .as_deref()
                .zip(before.waited.as_deref())
                .map(|(now, before)| waited_since(now, before) as f64 * 1e-9 / seconds),
            throttled: grown(self.throttled_ns, before.throttled_ns)
                .map(|nanos| nanos as f64 * 1e-9 / seconds),
        }
    }
}

/// How long each thread waited so far; `None` where the kernel does not count. A thread that ends meanwhile is left out.
fn threads_waited(tasks: &Path) -> Option<Vec<(u32, u64)>> {
    let threads = fs::read_dir(tasks).ok()?.flatten();
    let waited: Vec<(u32, u64)> = threads
        .filter_map(|thread| {
            let id = thread.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            Some((id, procfs::waited_ns(&text)?))
        })
        .collect();
    (!waited.is_empty()).then_some(waited)
}

/// Nanoseconds that the threads waited since `before`. One that is new has waited only since then.
fn waited_since(now: &[(u32, u64)], before: &[(u32, u64)]) -> u64 {
    let earlier = |id: u32| before.iter().find(|(other, _)| *other == id);
    let grown = now.iter().map(|&(id, waited)| {
        let from = earlier(id).map_or(0, |&(_, waited)| waited);
        // A number may be given to another thread.
        waited.checked_sub(from).unwrap_or(waited)
    });
    grown.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_come_and_go() {
        // 7 waited 5 ns more, 8 is gone, 9 is new, 10 is another thread of that number.
        let before = [(7, 10), (8, 1000), (10, 50)];
        let now = [(7, 15), (9, 30), (10, 2)];
        assert_eq!(waited_since(&now, &before), 37);
    }

    #[test]
    fn rates_by_hand() {
        let before = Counts {
            time: Nanos(0),
            ticks: Some(100),
            waited: Some(vec![(7, 0), (8, 0)]),
            throttled_ns: Some(0),
        };
        let mut now = Counts {
            time: Nanos(500_000_000),
            ticks: Some(150),
            waited: Some(vec![(7, 400_000_000), (8, 100_000_000)]),
            throttled_ns: Some(50_000_000),
        };
        let rates = Rates {
            cores: Some(1.0),
            waiting: Some(1.0),
            throttled: Some(0.1),
        };
        assert_eq!(now.since(&before, 100.0), rates);
        assert_eq!(now.since(&now, 100.0), Rates::default());
        now.waited = None;
        now.throttled_ns = None;
        let cores = Rates {
            cores: Some(1.0),
            ..Rates::default()
        };
        assert_eq!(now.since(&before, 100.0), cores);
    }

    /// More threads than processors wait, whatever else the machine does.
    #[test]
    fn threads_that_share_a_processor_wait() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let stop = AtomicBool::new(false);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let tasks = Path::new("/proc/self/task");
        std::thread::scope(|scope| {
            for _ in 0..2 * processors {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let before = threads_waited(tasks).expect("this kernel counts");
            let grew = (0..500).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                waited_since(&threads_waited(tasks).unwrap(), &before) > 20_000_000
            });
            stop.store(true, Ordering::Relaxed);
            assert!(grew);
        });
    }
}
