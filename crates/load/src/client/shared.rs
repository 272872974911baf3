//! What the threads of a load share.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::{
    body::{Message, Template},
    clock::Clock,
    plan::Plan,
    record::RequestRecord,
};

/// Counts the tokens of a text.
pub type CountTokens = Arc<dyn Fn(&str) -> u64 + Send + Sync>;

/// How far a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Requests that ended.
    pub ended: usize,
    /// Requests of the load.
    pub planned: usize,
    /// Requests in flight.
    pub in_flight: usize,
}

/// What all threads of a load see.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) plan: Arc<Plan>,
    template: Template,
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

impl Shared {
    pub(super) fn new(
        plan: Arc<Plan>,
        template: Template,
        limit: Duration,
        count_tokens: Option<CountTokens>,
    ) -> Self {
        Self {
            clock: Clock::start(),
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

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// The requests by number, once no thread adds to them.
    pub(super) fn take_records(&self) -> Vec<RequestRecord> {
        let mut records = self.records.lock().expect("nothing panics with the lock");
        let mut records = std::mem::take(&mut *records);
        records.sort_by_key(|record| record.index);
        records
    }

    /// Turns that were not asked.
    pub(super) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed) as u64
    }

    pub(crate) fn body(&self, index: usize, history: &[Message]) -> Bytes {
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

    pub(crate) fn keep(&self, record: RequestRecord) {
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

    pub(super) fn progress(&self) -> Progress {
        Progress {
            ended: self.ended.load(Ordering::Acquire),
            planned: self.plan.requests.len(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
        }
    }
}
