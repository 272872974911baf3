//! When a server stopped answering.

use llmprof_record::serving::{FailureKind, LoadRecord, RequestRecord};
use llmprof_units::Nanos;

/// Minimum number of failed requests after the last answer before a server is said to have stopped answering: a server that fails now
/// and then may by chance fail the last request.
const STOPPED_REQUESTS_MIN: usize = 3;

/// The time of the server's last byte, if the server had answered and every request that started later failed without an answer.
pub(super) fn server_stopped_ns(load: &LoadRecord) -> Option<Nanos> {
    let answered = |r: &RequestRecord| {
        let last_arrival = r.arrivals.last().map(|arrival| arrival.at_ns);
        let end = r.is_complete().then_some(r.end_ns);
        r.headers_ns.max(last_arrival).max(end)
    };
    if !load.requests.iter().any(RequestRecord::is_complete) {
        return None;
    }
    let last = load.requests.iter().filter_map(answered).max()?;
    // What llmprof itself broke off says nothing about the server.
    let later = || {
        let failures = load.requests.iter().filter(|r| r.started_ns >= last);
        let kinds = failures.filter_map(|r| Some(r.failure.as_ref()?.kind));
        kinds.filter(|kind| *kind != FailureKind::Interrupted)
    };
    let is_silence = |kind| {
        matches!(
            kind,
            FailureKind::Connect
                | FailureKind::Reset
                | FailureKind::Disconnected
                | FailureKind::Timeout
        )
    };
    (later().count() >= STOPPED_REQUESTS_MIN && later().all(is_silence)).then_some(last)
}
