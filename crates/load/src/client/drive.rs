//! A load from its first request to its last answer.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use llmprof_record::serving::{ClientFacts, LoadRecord};
use llmprof_traffic::statistics::Distribution;
use tokio::sync::Semaphore;

use super::{
    connection::Connector,
    schedule,
    shared::{CountTokens, LoadProgress, SharedLoad},
    worker::{self, WorkerCheck, WorkerFeed},
};
use crate::{body::RequestTemplate, clock::LoadClock, endpoint::Endpoint, plan::LoadPlan};

/// A load that can start.
#[derive(Clone)]
pub struct ReadyLoad {
    pub endpoint: Arc<Endpoint>,
    /// What they have in common.
    pub template: RequestTemplate,
    pub plan: Arc<LoadPlan>,
    /// Time a request may take, from when it is sent.
    pub timeout: Duration,
    /// Most requests in flight in an open loop; others wait, and the wait counts.
    pub max_concurrency: Option<usize>,
    /// Number of threads that send requests.
    pub workers: usize,
    /// Counts tokens where the server does not.
    pub count_tokens: Option<CountTokens>,
}

/// Runs a load. `watch` is called a few times a second and ends the load by returning false; what is in flight then is
/// interrupted. The message of a failure names what is wrong with the endpoint.
pub fn drive_load(
    load: &ReadyLoad,
    mut watch: impl FnMut(&LoadClock, LoadProgress) -> bool,
) -> Result<LoadRecord, String> {
    let connector = Connector::new(Arc::clone(&load.endpoint))?;
    let shared = Arc::new(SharedLoad::new(
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
            WorkerFeed::Closed {
                slots: concurrency / workers + usize::from(number < concurrency % workers),
            }
        } else {
            let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
            senders.push(sender);
            WorkerFeed::Open(receiver, later.clone())
        };
        let (shared, connector, places) = (Arc::clone(&shared), connector.clone(), places.clone());
        let thread = std::thread::Builder::new()
            .name(format!("load-{number}"))
            .spawn(move || worker::run_worker(&shared, connector, feed, places))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        threads.push(thread);
    }
    drop(later);
    let scheduler = load.plan.concurrency.is_none().then(|| {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("load-clock".to_owned())
            .spawn(move || schedule::run_schedule(&shared, &senders, &turns))
    });
    let scheduler = scheduler
        .transpose()
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let planned = load.plan.requests.len();
    let mut asked = std::time::Instant::now();
    while shared.current_progress().ended < planned {
        std::thread::sleep(Duration::from_millis(2));
        if asked.elapsed() >= Duration::from_millis(100) {
            asked = std::time::Instant::now();
            let progress = LoadProgress {
                recent: shared.recent_rates(),
                ..shared.current_progress()
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
    shared.request_stop();
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
    Ok(LoadRecord {
        started_unix_ns: shared.clock.unix_ns,
        duration_ns,
        client: client_facts(&checks, load.plan.concurrency.is_none()),
        requests: shared.take_records(),
        abandoned: shared.abandoned_count(),
    })
}

fn client_facts(workers: &[WorkerCheck], has_schedule: bool) -> ClientFacts {
    let share =
        |worker: &WorkerCheck| worker.cpu.as_secs_f64() / worker.wall.as_secs_f64().max(1e-9);
    let delays = workers.iter().flat_map(|worker| &worker.delays_ns);
    let delays: Vec<f64> = delays.map(|delay| delay / 1e6).collect();
    ClientFacts {
        has_schedule,
        worker_cpu_share: workers.iter().map(share).fold(0.0, f64::max),
        event_loop_delay_ms: Distribution::of_values(&delays),
    }
}
