//! A load from its first request to its last answer.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::{
    connection::Connector,
    schedule,
    shared::{CountTokens, Progress, Shared},
    worker::{self, Feed},
};
use crate::{
    body::Template,
    clock::Clock,
    endpoint::Endpoint,
    plan::Plan,
    record::{FailureKind, RequestRecord},
    self_check::SelfCheck,
};

/// A load that can start.
#[derive(Clone)]
pub struct Load {
    /// Where requests go.
    pub endpoint: Arc<Endpoint>,
    /// What they have in common.
    pub template: Template,
    /// They.
    pub plan: Arc<Plan>,
    /// Time a request may take, from when it is sent.
    pub timeout: Duration,
    /// Most requests in flight in an open loop; others wait, and the wait counts.
    pub max_concurrency: Option<usize>,
    /// Threads that send.
    pub workers: usize,
    /// Counts tokens where the server does not.
    pub count_tokens: Option<CountTokens>,
}

/// What a load left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// Wall time of the clock's zero, since 1970.
    pub started_unix_ns: Nanos,
    /// From the clock's zero to the last answer.
    pub duration_ns: Nanos,
    /// The requests by number.
    pub requests: Vec<RequestRecord>,
    /// Turns that were not asked, since the one before them failed.
    pub abandoned: u64,
    /// What the client says of itself.
    pub self_check: SelfCheck,
}

/// Fewest requests that must fail after the last answer before a server is said to have stopped answering: one that fails now and
/// then also fails its last request now and then.
const STOPPED_REQUESTS_MIN: usize = 3;

impl LoadRecord {
    /// The requests that every latency is of: completed ones, without those that the server's profiler may have slowed unless
    /// there are no others.
    pub fn timed(&self) -> impl Iterator<Item = &RequestRecord> {
        let completed = || self.requests.iter().filter(|r| r.is_complete());
        let has_quiet = completed().any(|r| !r.was_profiled);
        completed().filter(move |r| !(has_quiet && r.was_profiled))
    }

    /// The time of the server's last byte, where it had answered and every request that started later failed without an answer.
    pub fn server_stopped_ns(&self) -> Option<Nanos> {
        let answered = |r: &RequestRecord| {
            let last_arrival = r.arrivals.last().map(|arrival| arrival.at_ns);
            let end = r.is_complete().then_some(r.end_ns);
            r.headers_ns.max(last_arrival).max(end)
        };
        if !self.requests.iter().any(RequestRecord::is_complete) {
            return None;
        }
        let last = self.requests.iter().filter_map(answered).max()?;
        // What llmprof itself broke off says nothing about the server.
        let later = || {
            let failures = self.requests.iter().filter(|r| r.started_ns >= last);
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

    /// Marks requests that a profile from this time on may have slowed; how many there are. A server that paused to write its
    /// trace is behind for long after, so none that ended later is taken for undisturbed.
    pub fn mark_profiled(&mut self, from: Nanos) -> u64 {
        let mut count = 0;
        for request in &mut self.requests {
            if request.end_ns >= from {
                request.was_profiled = true;
                count += 1;
            }
        }
        count
    }
}

/// Runs a load. `watch` is called a few times a second and ends the load by returning false; what is in flight then is
/// interrupted. The message of a failure names what is wrong with the endpoint.
pub fn drive(
    load: &Load,
    mut watch: impl FnMut(&Clock, Progress) -> bool,
) -> Result<LoadRecord, String> {
    let connector = Connector::new(Arc::clone(&load.endpoint))?;
    let shared = Arc::new(Shared::new(
        Arc::clone(&load.plan),
        load.template.clone(),
        load.timeout,
        load.count_tokens.clone(),
    ));
    let places = load
        .max_concurrency
        .map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
    let workers = load.workers.max(1);
    let (later, turns) = mpsc::channel();
    let mut senders = Vec::new();
    let mut threads = Vec::new();
    for number in 0..workers {
        let feed = if let Some(concurrency) = load.plan.concurrency {
            let concurrency = concurrency.min(load.plan.requests.len());
            Feed::Closed {
                slots: concurrency / workers + usize::from(number < concurrency % workers),
            }
        } else {
            let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
            senders.push(sender);
            Feed::Open(receiver, later.clone())
        };
        let (shared, connector, places) = (Arc::clone(&shared), connector.clone(), places.clone());
        let thread = std::thread::Builder::new()
            .name(format!("load-{number}"))
            .spawn(move || worker::run(&shared, connector, feed, places))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        threads.push(thread);
    }
    drop(later);
    let scheduler = load.plan.concurrency.is_none().then(|| {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("load-clock".to_owned())
            .spawn(move || schedule::run(&shared, &senders, &turns))
    });
    let scheduler = scheduler
        .transpose()
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let planned = load.plan.requests.len();
    let mut asked = std::time::Instant::now();
    while shared.progress().ended < planned {
        std::thread::sleep(Duration::from_millis(2));
        if asked.elapsed() >= Duration::from_millis(100) {
            asked = std::time::Instant::now();
            let progress = Progress {
                recent: shared.recent(),
                ..shared.progress()
            };
            if !watch(&shared.clock, progress) {
                break;
            }
        }
        if threads.iter().all(std::thread::JoinHandle::is_finished) {
            break;
        }
    }
    let duration_ns = shared.clock.now();
    shared.stop();
    let mut checks = Vec::new();
    loop {
        // Tasks that begin to wait just now would miss a single notice.
        shared.stopped.notify_waiters();
        if scheduler
            .as_ref()
            .is_none_or(std::thread::JoinHandle::is_finished)
            && threads.iter().all(std::thread::JoinHandle::is_finished)
        {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    for thread in threads {
        let check = thread
            .join()
            .map_err(|_| "a worker of the load panicked".to_owned())?;
        checks.push(check.map_err(|error| format!("cannot start the event loop: {error}"))?);
    }
    let requests = shared.take_records();
    Ok(LoadRecord {
        started_unix_ns: shared.clock.unix_ns,
        duration_ns,
        self_check: SelfCheck::of(&requests, &checks, load.plan.concurrency.is_none()),
        requests,
        abandoned: shared.abandoned(),
    })
}
