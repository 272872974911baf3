//! What the threads of a load share.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use llmprof_units::Nanos;
use tokio::sync::Notify;

use crate::{
    body::{ChatMessage, RequestTemplate},
    clock::LoadClock,
    plan::LoadPlan,
    record::RequestRecord,
    statistics::Distribution,
};

/// Counts the tokens of a text; `None` where the tokenizer failed.
pub type CountTokens = Arc<dyn Fn(&str) -> Option<u64> + Send + Sync>;

/// Time that [`Recent`] looks back, and its fewest completions: enough of them for a median, soon enough to follow the server.
const RECENT_NS: Nanos = Nanos(10_000_000_000);
const RECENT_REQUESTS_MIN: usize = 3;

/// What the last seconds of a load show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recent {
    /// Median of the requests that completed; absent where they do not stream.
    pub ttft_p50_ms: Option<f64>,
    pub requests_per_s: f64,
    /// Absent where the server does not count tokens.
    pub output_tokens_per_s: Option<f64>,
}

impl Recent {
    /// `records` by time of their end.
    fn from_records(records: &[RequestRecord], now: Nanos) -> Option<Self> {
        let from = (now - RECENT_NS).max(Nanos(0));
        let ended = records.iter().rev().take_while(|r| r.end_ns >= from);
        let completed: Vec<&RequestRecord> = ended.filter(|r| r.is_complete()).collect();
        if completed.len() < RECENT_REQUESTS_MIN || now <= from {
            return None;
        }
        let seconds = (now - from).seconds();
        let ttft: Vec<f64> = completed
            .iter()
            .filter_map(|r| Some(r.ttft_ns()?.millis()))
            .collect();
        let tokens: Option<Vec<u64>> = completed.iter().map(|r| r.output_tokens).collect();
        let tokens = tokens.map(|tokens| tokens.into_iter().fold(0, u64::saturating_add));
        Some(Self {
            ttft_p50_ms: Distribution::of_values(&ttft).map(|ttft| ttft.p50),
            requests_per_s: completed.len() as f64 / seconds,
            output_tokens_per_s: tokens.map(|tokens| tokens as f64 / seconds),
        })
    }
}

/// How far a load is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadProgress {
    pub ended: usize,
    pub planned: usize,
    pub in_flight: usize,
    /// Absent until enough requests completed.
    pub recent: Option<Recent>,
}

/// What all threads of a load see.
pub(crate) struct SharedLoad {
    pub(crate) clock: LoadClock,
    pub(crate) plan: Arc<LoadPlan>,
    template: RequestTemplate,
    pub(crate) limit: Duration,
    pub(crate) count_tokens: Option<CountTokens>,
    next: Mutex<usize>,
    ended: AtomicUsize,
    abandoned: AtomicUsize,
    pub(crate) in_flight: AtomicUsize,
    is_stopped: AtomicBool,
    pub(crate) stopped: Notify,
    records: Mutex<Vec<RequestRecord>>,
    pub(crate) delays: Mutex<Vec<f64>>,
}

impl SharedLoad {
    pub(super) fn new(
        plan: Arc<LoadPlan>,
        template: RequestTemplate,
        limit: Duration,
        count_tokens: Option<CountTokens>,
    ) -> Self {
        Self {
            clock: LoadClock::start(),
            records: Mutex::new(Vec::with_capacity(plan.requests.len())),
            plan,
            template,
            limit,
            count_tokens,
            next: Mutex::new(0),
            ended: AtomicUsize::new(0),
            abandoned: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            stopped: Notify::new(),
            delays: Mutex::new(Vec::new()),
        }
    }

    pub(super) fn request_stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// The requests by number, once no thread adds to them.
    pub(super) fn take_records(&self) -> Vec<RequestRecord> {
        let mut records = self.records.lock().expect("nothing panics with the lock");
        let mut records = std::mem::take(&mut *records);
        records.sort_by_key(|record| record.index);
        records
    }

    pub(super) fn recent_rates(&self) -> Option<Recent> {
        let records = self.records.lock().expect("nothing panics with the lock");
        Recent::from_records(&records, self.clock.now())
    }

    /// Turns that were not asked.
    pub(super) fn abandoned_count(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed) as u64
    }

    pub(crate) fn request_body(&self, index: usize, history: &[ChatMessage]) -> Bytes {
        let max_tokens = self.plan.requests[index].max_tokens;
        self.template
            .body(&self.plan.prompt(index), max_tokens, history)
    }

    pub(crate) fn keeps_text(&self) -> bool {
        self.count_tokens.is_some() || self.plan.requests.iter().any(|request| request.has_next)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// The first request of the next conversation of a closed loop.
    pub(crate) fn next_session(&self) -> Option<usize> {
        if self.is_stopped() {
            return None;
        }
        let mut next = self.next.lock().expect("nothing panics with the lock");
        let index = *next;
        if index >= self.plan.requests.len() {
            return None;
        }
        let turns = self.plan.requests[index..]
            .iter()
            .take_while(|request| request.has_next)
            .count();
        *next = index + turns + 1;
        Some(index)
    }

    pub(crate) fn keep_record(&self, record: RequestRecord) {
        let mut records = self.records.lock().expect("nothing panics with the lock");
        records.push(record);
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// Counts the turns after `index` that nobody will ask.
    pub(crate) fn abandon_after(&self, index: usize) {
        let left = self.plan.requests[index..]
            .iter()
            .take_while(|request| request.has_next)
            .count();
        self.abandoned.fetch_add(left, Ordering::Relaxed);
        self.ended.fetch_add(left, Ordering::Release);
    }

    pub(super) fn current_progress(&self) -> LoadProgress {
        LoadProgress {
            ended: self.ended.load(Ordering::Acquire),
            planned: self.plan.requests.len(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            recent: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Arrival;

    #[test]
    fn the_last_seconds_are_told_by_hand() {
        let records: Vec<RequestRecord> = (0..20)
            .map(|index| {
                let second = |at: i64| Nanos(at * 1_000_000_000);
                let mut record = RequestRecord::due(index, second(index as i64), 8);
                record.arrivals.push(Arrival {
                    at_ns: record.scheduled_ns + Nanos(500_000_000),
                    tokens: None,
                });
                record.end_ns = second(index as i64 + 1);
                record.output_tokens = Some(8);
                record
            })
            .collect();
        // Those that ended from 10.5 s to 20.5 s: 10 requests.
        let recent = Recent::from_records(&records, Nanos(20_500_000_000)).unwrap();
        assert_eq!(recent.ttft_p50_ms, Some(500.0));
        assert_eq!(recent.requests_per_s, 1.0);
        assert_eq!(recent.output_tokens_per_s, Some(8.0));
        assert_eq!(
            Recent::from_records(&records[..2], Nanos(2_000_000_000)),
            None
        );
    }
}
