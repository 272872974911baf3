//! Whether more was asked than the server serves, so that its queue grew until the load ended.

use crate::row_order::sort_ascending;
use crate::thresholds::{OUTSTANDING_MIN_SHARE, TTFT_GROWTH_MIN_RATIO};
use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::serving::{LoadRecord, RequestRecord};
use llmprof_units::Nanos;

/// Minimum number of requests for a trend of the time to the first token.
const TREND_REQUESTS_MIN: usize = 9;

/// The issue that the latencies of a load only show how long it ran. `asked_per_s` is the rate that the user asked for: the mean rate of
/// few random arrivals differs from it.
pub(super) fn overload_issue(load: &LoadRecord, asked_per_s: Option<f64>) -> Option<Issue> {
    let mut requests: Vec<&RequestRecord> = load.requests.iter().collect();
    if requests.len() < TREND_REQUESTS_MIN || load.requests.iter().any(|r| r.was_profiled) {
        return None;
    }
    sort_ascending(&mut requests, |request| request.scheduled_ns.0);
    let (first, last) = (
        requests.first()?.scheduled_ns,
        requests.last()?.scheduled_ns,
    );
    let end = requests.iter().map(|request| request.end_ns).max()?;
    let due_s = (last.0 - first.0) as f64 / 1e9;
    if due_s <= 0.0 {
        return None;
    }
    let outstanding = requests.iter().filter(|request| request.end_ns > last);
    if (outstanding.count() as f64) < OUTSTANDING_MIN_SHARE * requests.len() as f64 {
        return None;
    }
    let third = requests.len() / 3;
    let early = mean_wait(&requests[..third])?;
    let late = mean_wait(&requests[requests.len() - third..])?;
    if (late.0 as f64) < TTFT_GROWTH_MIN_RATIO * early.0 as f64 {
        return None;
    }
    let completed = requests.iter().filter(|request| request.is_complete());
    let took = (end.0 - first.0) as f64 / 1e9;
    let sent_per_s = (requests.len() - 1) as f64 / due_s;
    let issue = Issue::warning(IssueCode::BenchOverloaded)
        .with("asked_per_s", asked_per_s.unwrap_or(sent_per_s))
        .with("sent_per_s", sent_per_s)
        .with("served_per_s", completed.count() as f64 / took)
        .with("first_ns", early.0)
        .with("last_ns", late.0);
    Some(issue)
}

/// The mean time to the first token, of the requests that have one.
fn mean_wait(requests: &[&RequestRecord]) -> Option<Nanos> {
    let waits = requests.iter().filter_map(|request| request.ttft_ns());
    let (sum, count) = waits.fold((0_i128, 0_i128), |(sum, count), wait| {
        (sum + i128::from(wait.0), count + 1)
    });
    (count > 0).then(|| Nanos((sum / count) as i64))
}

#[cfg(test)]
mod tests {
    use llmprof_record::serving::{Arrival, RequestRecord};

    use super::*;

    /// One request each 100 ms, and a server that takes `service_ms` for each, one after the other.
    fn load(service_ms: i64) -> LoadRecord {
        let mut free = 0;
        let requests = (0..30).map(|index| {
            let due = index * 100_000_000;
            let begin = due.max(free);
            free = begin + service_ms * 1_000_000;
            let mut record = RequestRecord::due(index as u64, Nanos(due), 1);
            record.arrivals = vec![Arrival {
                at_ns: Nanos(free),
                tokens: Some(1),
            }];
            record.end_ns = Nanos(free);
            record
        });
        LoadRecord {
            requests: requests.collect(),
            ..LoadRecord::default()
        }
    }

    #[test]
    fn a_queue_that_grows_is_told() {
        assert_eq!(overload_issue(&load(90), None), None);
        let issue = overload_issue(&load(300), Some(12.0)).unwrap();
        assert_eq!(issue.values["asked_per_s"].as_f64().unwrap(), 12.0);
        assert_eq!(issue.values["sent_per_s"].as_f64().unwrap(), 10.0);
        let served = issue.values["served_per_s"].as_f64().unwrap();
        assert!((served - 30.0 / 9.0).abs() < 1e-9, "{served}");
    }

    /// All at once is no rate.
    #[test]
    fn a_batch_is_no_overload() {
        let mut batch = load(300);
        for request in &mut batch.requests {
            request.scheduled_ns = Nanos(0);
        }
        assert_eq!(overload_issue(&batch, None), None);
    }
}
