//! Processors that the worker had to share, or was denied, while passes were measured.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HostTelemetry;

/// Seconds of waiting in each second, of all threads together, from which on it is worth saying. Threads of one operator
/// wait for the slowest of them, so that a tenth may be a tenth of the wall time however many there are.
const NOTICED: f64 = 0.1;

/// Seconds of processor time below which nothing is reported: the kernel counts hundredths of a second on each processor.
const COUNTED: f64 = 0.05;

/// Share of the processors below which those that are free count for none.
const FULL: f64 = 0.05;

/// Share of the processors that a hypervisor takes from which on it is worth saying.
const STOLEN: f64 = 0.05;

/// Code of the issue that other programs took processors.
pub const SHARED: IssueCode = IssueCode::RunProcessorsShared;
/// Code of the issue that a quota withheld processors.
pub const THROTTLED: IssueCode = IssueCode::RunProcessorsThrottled;
/// Code of the issue that a hypervisor took processors.
pub const STOLEN_FROM: IssueCode = IssueCode::RunProcessorsStolen;

/// What the processors that the worker may use did, as means over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ProcessorUse {
    /// How long that time is.
    pub time_ns: Nanos,
    /// How many the worker may use.
    pub processors: f64,
    /// How many of them were busy, with whatever.
    pub busy: f64,
    /// How many the worker used.
    pub worker: f64,
    /// How many a hypervisor gave to others; part of `busy`.
    pub stolen: f64,
    /// Threads of the worker that were ready but waited for a processor; absent where the kernel does not count that.
    pub waiting: Option<f64>,
    /// How many a quota of the worker's control groups withheld; absent where there is none. Part of `waiting`.
    pub throttled: Option<f64>,
    /// Share of the time in which the worker lost processors, from 0 to 1.
    pub contended_share: f64,
}

impl ProcessorUse {
    /// How many other programs of the machine used.
    pub(crate) fn others(&self) -> f64 {
        // Ticks of the machine and of the worker are counted apart and may differ by one.
        (self.busy - self.stolen - self.worker).max(0.0)
    }

    /// How many of them the worker would have used itself. Threads also wait for each other where there are more than
    /// processors: no more is lost to others than others used.
    ///
    /// Without the kernel's count of waiting, all that others used where no processor was left free: an upper bound.
    pub(crate) fn lost_to_others(&self) -> f64 {
        let free = self.processors - self.busy;
        let Some(waiting) = self.waiting else {
            let full = free <= FULL * self.processors;
            return if full { self.others() } else { 0.0 };
        };
        let throttled = self.throttled.unwrap_or(0.0);
        let waiting = (waiting - throttled).max(0.0);
        // Several threads may wait behind one processor that a quota withholds: they are not short of processors.
        if throttled >= NOTICED && free >= waiting {
            return 0.0;
        }
        waiting.min(self.others())
    }

    /// Whether the worker had to do without processors that it could have used.
    pub(crate) fn is_contended(&self) -> bool {
        self.waiting.unwrap_or_else(|| self.lost_to_others()) >= NOTICED
    }

    /// Whether that many processors, lost throughout, are worth saying.
    fn is_noticed(&self, lost: f64) -> bool {
        lost >= NOTICED && lost * self.time_ns.seconds() >= COUNTED
    }
}

/// What took processors from the worker in the passes without capture.
pub(crate) fn issues(telemetry: Option<&HostTelemetry>) -> Vec<Issue> {
    let Some(found) = telemetry.and_then(|telemetry| telemetry.processors.as_ref()) else {
        return Vec::new();
    };
    [shared(found), throttled(found), stolen(found)]
        .into_iter()
        .flatten()
        .collect()
}

/// Whether something took CPUs from the worker in the passes without capture.
pub(crate) fn is_contended(telemetry: Option<&HostTelemetry>) -> bool {
    !issues(telemetry).is_empty()
}

fn shared(found: &ProcessorUse) -> Option<Issue> {
    found.is_noticed(found.lost_to_others()).then(|| {
        let issue = warning(SHARED, found)
            .with("others", found.others())
            .with("contended_share", found.contended_share);
        match found.waiting {
            Some(waiting) => issue.with("waiting", waiting),
            None => issue,
        }
    })
}

fn throttled(found: &ProcessorUse) -> Option<Issue> {
    let throttled = found.throttled.filter(|held| found.is_noticed(*held))?;
    Some(
        warning(THROTTLED, found)
            .with("throttled", throttled)
            .with("worker", found.worker),
    )
}

fn stolen(found: &ProcessorUse) -> Option<Issue> {
    let much = found.stolen >= STOLEN * found.processors;
    (much && found.is_noticed(found.stolen))
        .then(|| warning(STOLEN_FROM, found).with("stolen", found.stolen))
}

/// An issue of so many CPUs that the worker may use.
fn warning(code: IssueCode, found: &ProcessorUse) -> Issue {
    Issue::warning(code).with("cpus", found.processors.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(use_of_cpus: ProcessorUse) -> Vec<Issue> {
        issues(Some(&HostTelemetry {
            processors: Some(use_of_cpus),
            ..HostTelemetry::default()
        }))
    }

    fn codes(cpus: ProcessorUse) -> Vec<IssueCode> {
        found(cpus).into_iter().map(|issue| issue.code).collect()
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
        assert!(issues(None).is_empty());
        assert!(issues(Some(&HostTelemetry::default())).is_empty());
        assert!(found(QUIET).is_empty());
        // Without the kernel's count too.
        assert!(
            found(ProcessorUse {
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
        let issue = found(busy).pop().unwrap();
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
        assert!(found(short).is_empty());
        let uncounted = ProcessorUse {
            waiting: None,
            ..busy
        };
        let issue = found(uncounted).pop().unwrap();
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
        assert!(found(large).is_empty());
        assert!(
            found(ProcessorUse {
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
        assert!(found(crowded).is_empty());
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
        let issue = found(container).pop().unwrap();
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
