//! Counters of the processor: cycles, instructions, cache misses, through the kernel's perf events.
//!
//! Kernels of virtual machines and containers often refuse them. Then there is one [`Issue`] with the reason, and no
//! counter.

use std::{
    fs,
    io::{self, ErrorKind},
};

use llmprof_record::issue::{Issue, IssueCode};
use perf_event::{
    Builder, Counter, ReadFormat,
    events::{Event, Hardware},
};
use serde::{Deserialize, Serialize};

/// What the processor counted in user mode. What it could not count is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterValues {
    pub cycles: Option<u64>,
    pub instructions: Option<u64>,
    /// Accesses that reached the last level of cache.
    pub cache_references: Option<u64>,
    /// Accesses that missed the last level of cache.
    pub cache_misses: Option<u64>,
    /// The least share of time in which a counter was on the hardware, from 0 to 1. Below 1 the values are scaled up from
    /// what was counted.
    pub counted_share: Option<f64>,
}

impl CounterValues {
    /// What was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let difference = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?);
        Self {
            cycles: difference(self.cycles, before.cycles),
            instructions: difference(self.instructions, before.instructions),
            cache_references: difference(self.cache_references, before.cache_references),
            cache_misses: difference(self.cache_misses, before.cache_misses),
            counted_share: self.counted_share,
        }
    }

    pub fn instructions_per_cycle(&self) -> Option<f64> {
        let cycles = self.cycles.filter(|&cycles| cycles > 0)?;
        Some(self.instructions? as f64 / cycles as f64)
    }
}

/// Counters attached to a process.
#[derive(Debug)]
pub struct Counters {
    cycles: Option<EventTally>,
    instructions: Option<EventTally>,
    cache_references: Option<EventTally>,
    cache_misses: Option<EventTally>,
}

impl Counters {
    /// Counts what all threads of `process` do from now on, and all threads and processes that they start.
    ///
    /// A thread that is being started at this very moment may be missed, so attach to a worker before it computes. The
    /// issue names what cannot be counted and why.
    pub fn attach_counters(process: u32) -> (Self, Option<Issue>) {
        let mut refusals: Vec<(&str, io::Error)> = Vec::new();
        let mut open = |name: &'static str, event: Hardware| {
            EventTally::attach_tally(process, event)
                .map_err(|error| refusals.push((name, error)))
                .ok()
        };
        let counters = Self {
            cycles: open("cycles", Hardware::CPU_CYCLES),
            instructions: open("instructions", Hardware::INSTRUCTIONS),
            cache_references: open("cache references", Hardware::CACHE_REFERENCES),
            cache_misses: open("cache misses", Hardware::CACHE_MISSES),
        };
        (counters, refusal_issue(&refusals))
    }

    /// What was counted since they were attached.
    pub fn read_values(&mut self) -> CounterValues {
        let mut share: Option<f64> = None;
        let mut value = |tally: &mut Option<EventTally>| {
            let reading = tally.as_mut()?.read_tally()?;
            share = Some(share.map_or(reading.share, |least| least.min(reading.share)));
            Some(reading.value)
        };
        CounterValues {
            cycles: value(&mut self.cycles),
            instructions: value(&mut self.instructions),
            cache_references: value(&mut self.cache_references),
            cache_misses: value(&mut self.cache_misses),
            counted_share: share,
        }
    }
}

/// One event, counted in every thread of a process.
#[derive(Debug)]
struct EventTally {
    threads: Vec<Counter>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct CounterReading {
    value: u64,
    share: f64,
}

impl EventTally {
    fn attach_tally(process: u32, event: impl Event + Copy) -> io::Result<Self> {
        let mut threads = Vec::new();
        for thread in thread_ids(process)? {
            let mut builder = Builder::new(event);
            builder
                .observe_pid(thread)
                .any_cpu()
                .inherit(true)
                .enabled(true)
                .read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
            match builder.build() {
                Ok(counter) => threads.push(counter),
                // It ended meanwhile. (ESRCH has no kind of its own.)
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
                Err(error) => return Err(error),
            }
        }
        if threads.is_empty() {
            return Err(io::Error::from(rustix::io::Errno::SRCH));
        }
        Ok(Self { threads })
    }

    fn read_tally(&mut self) -> Option<CounterReading> {
        let mut sum = CounterReading {
            value: 0,
            share: 1.0,
        };
        for counter in &mut self.threads {
            let data = counter.read_full().ok()?;
            let nanos = |time: Option<std::time::Duration>| time.map(|time| time.as_nanos());
            let (value, share) = scale_count(
                data.count(),
                nanos(data.time_enabled())?,
                nanos(data.time_running())?,
            );
            sum.value = sum.value.saturating_add(value);
            sum.share = sum.share.min(share);
        }
        Some(sum)
    }
}

/// A count scaled up to the whole time, and the share of time it was on the hardware: the kernel takes turns where there
/// are more events than hardware counters (perf_event_open(2)). A thread that never ran counted nothing, wholly.
fn scale_count(count: u64, enabled: u128, running: u128) -> (u64, f64) {
    if running == 0 || running >= enabled {
        return (count, 1.0);
    }
    let value = u128::from(count) * enabled / running;
    (
        u64::try_from(value).unwrap_or(u64::MAX),
        running as f64 / enabled as f64,
    )
}

/// The threads that a process has now.
fn thread_ids(process: u32) -> io::Result<Vec<i32>> {
    // "Not found" would read as a counter that is missing.
    let tasks = fs::read_dir(format!("/proc/{process}/task"))
        .map_err(|_| io::Error::from(rustix::io::Errno::SRCH))?;
    Ok(tasks
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

/// One issue for all refusals: they have one reason as a rule.
fn refusal_issue(refusals: &[(&str, io::Error)]) -> Option<Issue> {
    let (_, first) = refusals.first()?;
    let names: Vec<&str> = refusals.iter().map(|(name, _)| *name).collect();
    let (reason, hint) = explain_refusal(first);
    let mut issue = Issue::info(IssueCode::CountersUnavailable)
        .with("counters", names.join(", "))
        .with("reason", reason)
        .counting(names.len() as u64);
    issue.hint = hint.map(str::to_owned);
    Some(issue)
}

/// Why the kernel refused, and what would help.
fn explain_refusal(error: &io::Error) -> (String, Option<&'static str>) {
    match error.kind() {
        ErrorKind::NotFound => (
            "this machine has no such counter".to_owned(),
            Some("virtual machines rarely pass them on; run on the bare machine"),
        ),
        ErrorKind::PermissionDenied => (
            "the kernel does not allow it".to_owned(),
            Some("sudo sysctl kernel.perf_event_paranoid=2; in a container also --cap-add PERFMON"),
        ),
        ErrorKind::Unsupported => (
            "this processor or kernel does not support it".to_owned(),
            None,
        ),
        _ => (error.to_string(), None),
    }
}

#[cfg(test)]
mod tests {
    use perf_event::events::Software;

    use super::*;

    #[test]
    fn scaling_by_hand() {
        assert_eq!(scale_count(100, 1000, 1000), (100, 1.0));
        assert_eq!(scale_count(100, 1000, 250), (400, 0.25));
        assert_eq!(scale_count(0, 0, 0), (0, 1.0));
        assert_eq!(scale_count(u64::MAX, 2, 1), (u64::MAX, 0.5));
    }

    #[test]
    fn differences_and_rates() {
        let values = |cycles, instructions| CounterValues {
            cycles: Some(cycles),
            instructions: Some(instructions),
            ..CounterValues::default()
        };
        let difference = values(1500, 4000).since(&values(500, 1000));
        assert_eq!(difference, values(1000, 3000));
        assert_eq!(difference.instructions_per_cycle(), Some(3.0));
        assert_eq!(values(0, 0).instructions_per_cycle(), None);
    }

    #[test]
    fn refusals_are_one_issue_with_a_reason() {
        let refused = |errno: rustix::io::Errno| io::Error::from(errno);
        let none: [(&str, io::Error); 0] = [];
        assert_eq!(refusal_issue(&none), None);
        let issue = refusal_issue(&[
            ("cycles", refused(rustix::io::Errno::NOENT)),
            ("instructions", refused(rustix::io::Errno::NOENT)),
        ])
        .unwrap();
        assert_eq!(issue.count, 2);
        assert_eq!(
            (&issue.values["counters"], &issue.values["reason"]),
            (
                &"cycles, instructions".into(),
                &"this machine has no such counter".into()
            )
        );
        for errno in [rustix::io::Errno::ACCESS, rustix::io::Errno::PERM] {
            let issue = refusal_issue(&[("cycles", refused(errno))]).unwrap();
            assert!(issue.hint.unwrap().contains("perf_event_paranoid"));
        }
    }

    /// Either this machine counts, and then sensibly, or it says why not.
    #[test]
    fn this_machine_counts_or_says_why_not() {
        let (mut counters, issue) = Counters::attach_counters(std::process::id());
        let sum: u64 = std::hint::black_box(0..1_000_000u64)
            .map(std::hint::black_box)
            .sum();
        assert!(sum > 0);
        let values = counters.read_values();
        assert_eq!(
            issue.is_none(),
            values.cycles.is_some()
                && values.instructions.is_some()
                && values.cache_references.is_some()
                && values.cache_misses.is_some(),
            "{values:?} {issue:?}"
        );
        if let Some(instructions) = values.instructions {
            assert!(instructions > 1_000_000, "{values:?}");
        }
    }

    /// Software events work where hardware ones do not: the same code counts page faults of threads started later.
    #[test]
    fn threads_started_later_are_counted() {
        let Ok(mut tally) = EventTally::attach_tally(std::process::id(), Software::PAGE_FAULTS)
        else {
            // Containers may forbid the whole call; the issue of `attach` covers that.
            return;
        };
        let before = tally.read_tally().unwrap();
        let pages = 200;
        std::thread::spawn(move || {
            let page = rustix::param::page_size();
            let mut memory = vec![0u8; pages * page];
            for index in 0..pages {
                memory[index * page] = 1;
            }
            std::hint::black_box(memory);
        })
        .join()
        .unwrap();
        let after = tally.read_tally().unwrap();
        assert!(after.value > before.value, "{before:?} {after:?}");
        assert_eq!(after.share, 1.0);
    }

    #[test]
    fn a_process_that_is_gone_is_an_issue() {
        let (mut counters, issue) = Counters::attach_counters(u32::MAX);
        assert_eq!(counters.read_values(), CounterValues::default());
        let issue = issue.unwrap();
        assert_eq!(issue.count, 4);
        assert!(issue.to_string().contains("No such process"), "{issue}");
    }
}
