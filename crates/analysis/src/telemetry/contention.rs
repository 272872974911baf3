//! Processors that the worker had to share, or was denied, while passes were measured.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HostTelemetry;
use crate::thresholds::{
    CPU_COUNTED_MIN_S, CPU_FREE_MIN_SHARE, CPU_STOLEN_MIN_SHARE, CPU_WAITING_MIN_RATE,
};

/// Code of the issue that other programs took processors.
pub const SHARED: IssueCode = IssueCode::RunProcessorsShared;
/// Code of the issue that a quota withheld processors.
pub const THROTTLED: IssueCode = IssueCode::RunProcessorsThrottled;
/// Code of the issue that a hypervisor took processors.
pub const STOLEN_FROM: IssueCode = IssueCode::RunProcessorsStolen;

/// What the processors that the worker may use did, as means over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ProcessorUse {
    /// Length of the time that the means are over.
    pub time_ns: Nanos,
    /// Number of processors that the worker may use.
    pub processors: f64,
    /// Number of these processors that were busy with any program.
    pub busy: f64,
    /// Number of processors that the worker used.
    pub worker: f64,
    /// Number of processors that a hypervisor gave to others; part of `busy`.
    pub stolen: f64,
    /// Threads of the worker that were ready but waited for a processor; absent where the kernel does not count that.
    pub waiting: Option<f64>,
    /// Number of processors that a quota of the worker's control groups withheld; absent without a quota. Part of `waiting`.
    pub throttled: Option<f64>,
    /// Share of the time in which the worker lost processors, from 0 to 1.
    pub contended_share: f64,
}

impl ProcessorUse {
    /// Number of processors that other programs of the machine used.
    pub(crate) fn others(&self) -> f64 {
        // Ticks of the machine and of the worker are counted apart and may differ by one.
        (self.busy - self.stolen - self.worker).max(0.0)
    }

    /// Number of processors that others used and the worker would have used itself. More threads than processors also wait for each
    /// other: no more is lost to others than others used.
    ///
    /// Without the kernel's count of waiting, it is all that others used while no processor was free: an upper bound.
    pub(crate) fn lost_to_others(&self) -> f64 {
        let free = self.processors - self.busy;
        let Some(waiting) = self.waiting else {
            let full = free <= CPU_FREE_MIN_SHARE * self.processors;
            return if full { self.others() } else { 0.0 };
        };
        let throttled = self.throttled.unwrap_or(0.0);
        let waiting = (waiting - throttled).max(0.0);
        // Several threads may wait behind one processor that a quota withholds: they are not short of processors.
        if throttled >= CPU_WAITING_MIN_RATE && free >= waiting {
            return 0.0;
        }
        waiting.min(self.others())
    }

    /// Whether the worker had to do without processors that it could have used.
    pub(crate) fn is_contended(&self) -> bool {
        self.waiting.unwrap_or_else(|| self.lost_to_others()) >= CPU_WAITING_MIN_RATE
    }

    /// Whether that many processors, lost throughout, are worth saying.
    fn is_noticed(&self, lost: f64) -> bool {
        lost >= CPU_WAITING_MIN_RATE && lost * self.time_ns.seconds() >= CPU_COUNTED_MIN_S
    }
}

/// Issues about what took processors from the worker in the passes without capture.
pub(crate) fn contention_issues(telemetry: Option<&HostTelemetry>) -> Vec<Issue> {
    let Some(used) = telemetry.and_then(|telemetry| telemetry.processors.as_ref()) else {
        return Vec::new();
    };
    [
        shared_issue(used),
        throttled_issue(used),
        stolen_issue(used),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether something took CPUs from the worker in the passes without capture.
pub(crate) fn is_contended(telemetry: Option<&HostTelemetry>) -> bool {
    !contention_issues(telemetry).is_empty()
}

fn shared_issue(used: &ProcessorUse) -> Option<Issue> {
    used.is_noticed(used.lost_to_others()).then(|| {
        let issue = cpu_warning(SHARED, used)
            .with("others", used.others())
            .with("contended_share", used.contended_share);
        match used.waiting {
            Some(waiting) => issue.with("waiting", waiting),
            None => issue,
        }
    })
}

fn throttled_issue(used: &ProcessorUse) -> Option<Issue> {
    let throttled = used.throttled.filter(|held| used.is_noticed(*held))?;
    Some(
        cpu_warning(THROTTLED, used)
            .with("throttled", throttled)
            .with("worker", used.worker),
    )
}

fn stolen_issue(used: &ProcessorUse) -> Option<Issue> {
    let much = used.stolen >= CPU_STOLEN_MIN_SHARE * used.processors;
    (much && used.is_noticed(used.stolen))
        .then(|| cpu_warning(STOLEN_FROM, used).with("stolen", used.stolen))
}

/// An issue of so many CPUs that the worker may use.
fn cpu_warning(code: IssueCode, used: &ProcessorUse) -> Issue {
    Issue::warning(code).with("cpus", used.processors.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issues_of(cpus: ProcessorUse) -> Vec<Issue> {
        contention_issues(Some(&HostTelemetry {
            processors: Some(cpus),
            ..HostTelemetry::default()
        }))
    }

    fn codes(cpus: ProcessorUse) -> Vec<IssueCode> {
        issues_of(cpus)
            .into_iter()
            .map(|issue| issue.code)
            .collect()
    }

    const SECOND: Nanos = Nanos(1_000_000_000);

    /// A machine of two on which a worker of two threads has nobody beside it.
    const QUIET: ProcessorUse = ProcessorUse {
        time_ns: SECOND,
        processors: 2.0,
        busy: 1.97,
        worker: 1.95,
        stolen: 0.0,
        waiting: Some(0.02),
        throttled: None,
        contended_share: 0.0,
    };

    #[test]
    fn a_quiet_machine_has_no_issue() {
        assert!(contention_issues(None).is_empty());
        assert!(contention_issues(Some(&HostTelemetry::default())).is_empty());
        assert!(issues_of(QUIET).is_empty());
        // Without the kernel's count too.
        assert!(
            issues_of(ProcessorUse {
                waiting: None,
                ..QUIET
            })
            .is_empty()
        );
    }

    #[test]
    fn a_busy_loop_on_a_machine_of_two_is_found() {
        let busy = ProcessorUse {
            busy: 2.0,
            worker: 1.2,
            waiting: Some(0.75),
            contended_share: 1.0,
            ..QUIET
        };
        let issue = issues_of(busy).pop().unwrap();
        let expected = Issue::warning(SHARED)
            .with("cpus", 2)
            .with("others", busy.others())
            .with("contended_share", 1.0)
            .with("waiting", 0.75);
        assert_eq!(issue, expected);
        // In 60 ms that is no more than the kernel may be wrong by.
        let short = ProcessorUse {
            time_ns: Nanos(60_000_000),
            ..busy
        };
        assert!(issues_of(short).is_empty());
        let uncounted = ProcessorUse {
            waiting: None,
            ..busy
        };
        let issue = issues_of(uncounted).pop().unwrap();
        assert!(!issue.values.contains_key("waiting"), "{issue:?}");
    }

    #[test]
    fn free_processors_are_no_loss() {
        // Eight threads of the worker and four of others on a machine of 64.
        let large = ProcessorUse {
            time_ns: SECOND,
            processors: 64.0,
            busy: 12.0,
            worker: 8.0,
            stolen: 0.0,
            waiting: Some(0.03),
            throttled: None,
            contended_share: 0.0,
        };
        assert!(issues_of(large).is_empty());
        assert!(
            issues_of(ProcessorUse {
                waiting: None,
                ..large
            })
            .is_empty()
        );
        // One processor of 64 that others take is noticed by a worker that wants all.
        let full = ProcessorUse {
            busy: 64.0,
            worker: 63.0,
            waiting: Some(0.6),
            ..large
        };
        assert_eq!(codes(full), [SHARED]);
    }

    #[test]
    fn threads_that_wait_for_each_other_are_no_loss_to_others() {
        let crowded = ProcessorUse {
            waiting: Some(6.0),
            contended_share: 1.0,
            ..QUIET
        };
        assert!(issues_of(crowded).is_empty());
    }

    #[test]
    fn a_quota_is_separate_from_others() {
        // Eight threads in a container of two processors; others use half of a machine of 64.
        let container = ProcessorUse {
            time_ns: SECOND,
            processors: 64.0,
            busy: 34.0,
            worker: 2.0,
            stolen: 0.0,
            waiting: Some(6.0),
            throttled: Some(5.0),
            contended_share: 1.0,
        };
        let issue = issues_of(container).pop().unwrap();
        assert_eq!(codes(container), [THROTTLED]);
        let (throttled, cpus) = (&issue.values["throttled"], &issue.values["cpus"]);
        assert_eq!((throttled, cpus), (&5.0.into(), &64.into()));
        // Where no processor is free besides, both hold.
        let full = ProcessorUse {
            busy: 64.0,
            ..container
        };
        assert_eq!(codes(full), [SHARED, THROTTLED]);
        assert_eq!(
            codes(ProcessorUse {
                throttled: Some(0.0),
                ..QUIET
            }),
            []
        );
    }

    #[test]
    fn what_the_hypervisor_takes_is_not_taken_by_programs() {
        let stolen = ProcessorUse {
            busy: 2.0,
            worker: 1.5,
            stolen: 0.45,
            ..QUIET
        };
        assert!((stolen.others() - 0.05).abs() < 1e-9);
        assert_eq!(codes(stolen), [STOLEN_FROM]);
    }
}
