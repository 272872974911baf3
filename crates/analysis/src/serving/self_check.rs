//! Whether the client kept up: a load generator that is late measures itself.

use crate::thresholds::{
    CLIENT_CPU_IDLE_MAX_SHARE, CLIENT_CPU_MAX_SHARE, CLIENT_LAG_MAX_MS, CLIENT_LAG_MAX_SHARE,
    CLIENT_STOLEN_MIN_SHARE, EVENT_LOOP_DELAY_MAX_MS,
};
use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::serving::{LoadRecord, RequestRecord};
use llmprof_traffic::statistics::Distribution;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The client's own delays and CPU use during a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SelfCheck {
    /// Start − scheduled, milliseconds; absent in a closed loop, which has no schedule.
    pub schedule_lag_ms: Option<Distribution>,
    /// CPU of the busiest worker as a share of a core.
    pub worker_cpu_share: f64,
    /// How late event loops woke a task, milliseconds; up to one is the timer's own.
    pub event_loop_delay_ms: Option<Distribution>,
    /// Requests whose start was late by more than half of their TTFT.
    pub late_requests: u64,
    /// Whether the client kept up, so that latencies are the server's.
    pub kept_up: bool,
}

impl SelfCheck {
    pub fn from_load(load: &LoadRecord) -> Self {
        let (requests, client) = (&load.requests, &load.client);
        let ms = |nanos: i64| nanos as f64 / 1e6;
        let lag = |request: &RequestRecord| (request.started_ns - request.scheduled_ns).0.max(0);
        let lags: Vec<f64> = requests.iter().map(|request| ms(lag(request))).collect();
        let firsts: Vec<f64> = requests
            .iter()
            .filter_map(|request| Some(ms(request.ttft_ns().or(request.e2e_ns())?.0)))
            .collect();
        let median = Distribution::of_values(&firsts).map_or(0.0, |firsts| firsts.p50);
        let mut check = Self {
            schedule_lag_ms: client
                .has_schedule
                .then(|| Distribution::of_values(&lags))
                .flatten(),
            worker_cpu_share: client.worker_cpu_share,
            event_loop_delay_ms: client.event_loop_delay_ms,
            late_requests: requests
                .iter()
                .filter(|request| {
                    let half = request.ttft_ns().map_or(i64::MAX, |ttft| ttft.0 / 2);
                    lag(request) > half.max(1_000_000)
                })
                .count() as u64,
            kept_up: true,
        };
        check.kept_up = check.keeps_up(median);
        check
    }

    /// A delay only matters if it is a considerable share of the time to the first token; a busy worker always does.
    fn keeps_up(&self, median_ms: f64) -> bool {
        let is_late = |delay_ms: &Option<Distribution>, max_ms: f64| {
            delay_ms.is_some_and(|delay| {
                delay.p99 > max_ms && delay.p99 > CLIENT_LAG_MAX_SHARE * median_ms
            })
        };
        !is_late(&self.schedule_lag_ms, CLIENT_LAG_MAX_MS)
            && !is_late(&self.event_loop_delay_ms, EVENT_LOOP_DELAY_MAX_MS)
            && self.worker_cpu_share <= CLIENT_CPU_MAX_SHARE
    }

    /// The issue that the client did not keep up, with all that was checked; `None` if it did. `steal_share`: CPU time of this machine
    /// that its hypervisor gave to others during the load, where that was sampled. Latencies of a late client are too long, so that
    /// objectives that they meet are met.
    pub fn issue_if_late(&self, steal_share: Option<f64>, meets_objectives: bool) -> Option<Issue> {
        if self.kept_up {
            return None;
        }
        let code = IssueCode::BenchClientLate;
        let issue = if meets_objectives {
            Issue::warning(code)
        } else {
            Issue::error(code)
        };
        let mut issue = issue
            .with("cpu_share", self.worker_cpu_share)
            .with("meets_objectives", meets_objectives);
        let lag = self.schedule_lag_ms.map(|lag| lag.p99 * 1e6);
        let delay = self.event_loop_delay_ms.map(|delay| delay.p99 * 1e6);
        for (key, time) in [("lag_p99_ns", lag), ("delay_p99_ns", delay)] {
            if let Some(time) = time {
                issue = issue.with(key, time);
            }
        }
        if let Some(late) = lag.into_iter().chain(delay).reduce(f64::max) {
            issue = issue.with("late_p99_ns", late);
        }
        if let Some(steal) = steal_share.filter(|steal| *steal >= CLIENT_STOLEN_MIN_SHARE) {
            issue = issue.with("steal_share", steal);
        }
        // A worker that is late and idle waits for a CPU: more workers would wait too.
        Some(issue.with(
            "waits_for_cpu",
            self.worker_cpu_share < CLIENT_CPU_IDLE_MAX_SHARE,
        ))
    }
}

#[cfg(test)]
mod tests {
    use llmprof_units::Nanos;

    use super::*;
    use llmprof_record::issue::Severity;
    use llmprof_record::serving::{Arrival, ClientFacts};

    fn requests(lag_ms: i64, ttft_ms: i64) -> Vec<RequestRecord> {
        (0..200)
            .map(|index| {
                let mut record = RequestRecord::due(index, Nanos(0), 1);
                record.started_ns = Nanos(lag_ms * 1_000_000);
                record.arrivals.push(Arrival {
                    at_ns: Nanos(ttft_ms * 1_000_000),
                    tokens: Some(1),
                });
                record
            })
            .collect()
    }

    fn check(lag_ms: i64, ttft_ms: i64, worker_cpu_share: f64) -> SelfCheck {
        SelfCheck::from_load(&LoadRecord {
            requests: requests(lag_ms, ttft_ms),
            client: ClientFacts {
                has_schedule: true,
                worker_cpu_share,
                event_loop_delay_ms: Distribution::of_values(&[1.0; 50]),
            },
            ..LoadRecord::default()
        })
    }

    #[test]
    fn a_client_that_is_late_or_busy_says_so() {
        assert!(check(0, 50, 0.3).kept_up);
        assert!(
            check(20, 10_000, 0.3).kept_up,
            "20 ms of 10 s do not matter"
        );
        let late = check(20, 50, 0.3);
        assert!(!late.kept_up);
        let issue = late.issue_if_late(Some(0.25), false).unwrap();
        assert_eq!(issue.code, IssueCode::BenchClientLate);
        assert_eq!(issue.values["lag_p99_ns"], 20e6);
        assert_eq!(issue.values["cpu_share"], 0.3);
        assert_eq!(issue.values["late_p99_ns"], 20e6);
        assert_eq!(issue.values["waits_for_cpu"], true);
        assert_eq!(issue.values["steal_share"], 0.25);
        let busy = check(20, 50, 0.95)
            .issue_if_late(Some(0.001), false)
            .unwrap();
        assert!(!busy.values.contains_key("steal_share"));
        assert_eq!(busy.values["waits_for_cpu"], false);
        assert!(!check(0, 50, 0.95).kept_up);
        // Its latencies are too long, so objectives that they meet are met.
        assert_eq!(issue.severity, Severity::Error);
        let met = late.issue_if_late(None, true).unwrap();
        assert_eq!(met.severity, Severity::Warning);
        assert_eq!(met.values["meets_objectives"], true);
        assert_eq!(check(0, 50, 0.3).issue_if_late(Some(0.25), true), None);
    }
}
