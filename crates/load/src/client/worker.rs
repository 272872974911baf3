//! A thread that sends requests and follows their answers.

use std::{
    sync::{Arc, atomic::Ordering, mpsc::Sender},
    task::Poll,
    time::Duration,
};

use llmprof_units::Nanos;
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    sync::{Semaphore, mpsc::UnboundedReceiver},
    time::{Instant, sleep_until, timeout},
};

use super::{
    connection::{ConnectionPool, Connector},
    exchange::{LoadClient, RequestHead, broken_off},
    schedule::{Due, Later},
    shared::SharedLoad,
};
use crate::{
    body::ChatMessage,
    prompt::Prompt,
    record::{FailureKind, RequestRecord, TokenBasis},
};

/// How often the delay of the event loop is measured.
const TICK: Duration = Duration::from_millis(20);

/// Why a request is interrupted.
const STOPPED: &str = "the load was stopped";

/// What a worker of an open loop is fed by and answers to; a closed loop feeds itself.
pub(crate) enum WorkerFeed {
    Open(UnboundedReceiver<Due>, Sender<Later>),
    Closed { slots: usize },
}

/// What one worker measured of itself.
pub(crate) struct WorkerCheck {
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
    /// By how much each tick of [`TICK`] came late: the delay of the event loop.
    pub(crate) delays_ns: Vec<f64>,
}

/// Runs on its own thread until its requests are done.
pub(crate) fn run_worker(
    shared: &Arc<SharedLoad>,
    connector: Connector,
    feed: WorkerFeed,
    most: Option<Arc<Semaphore>>,
) -> std::io::Result<WorkerCheck> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let head = RequestHead::new(&connector, connector.endpoint().path());
    let client = Arc::new(LoadClient {
        connector,
        pool: ConnectionPool::default(),
        clock: shared.clock,
        head,
        keep_text: shared.keeps_text(),
    });
    let started = (thread_cpu_time(), std::time::Instant::now());
    let delays = runtime.block_on(async {
        let ticker = tokio::spawn(measure_ticks(Arc::clone(shared)));
        match feed {
            WorkerFeed::Open(due, later) => run_open_loop(shared, &client, due, later, most).await,
            WorkerFeed::Closed { slots } => run_closed_loop(shared, &client, slots).await,
        }
        ticker.abort();
        std::mem::take(&mut *shared.delays.lock().expect("nothing panics with the lock"))
    });
    // Tasks that are left hold connections only.
    runtime.shutdown_background();
    Ok(WorkerCheck {
        cpu: thread_cpu_time().saturating_sub(started.0),
        wall: started.1.elapsed(),
        delays_ns: delays,
    })
}

/// CPU time of this thread.
fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}

/// How late the loop wakes a task. Tokio's timers count milliseconds, so up to one of them is its own.
async fn measure_ticks(shared: Arc<SharedLoad>) {
    loop {
        let due = Instant::now() + TICK;
        sleep_until(due).await;
        let late = due.elapsed().as_nanos() as f64;
        let mut delays = shared.delays.lock().expect("nothing panics with the lock");
        delays.push(late);
    }
}

async fn run_open_loop(
    shared: &Arc<SharedLoad>,
    client: &Arc<LoadClient>,
    mut due: UnboundedReceiver<Due>,
    later: Sender<Later>,
    most: Option<Arc<Semaphore>>,
) {
    let mut running = tokio::task::JoinSet::new();
    while let Some(request) = due.recv().await {
        let (shared, client, later, most) = (
            Arc::clone(shared),
            Arc::clone(client),
            later.clone(),
            most.clone(),
        );
        running.spawn(async move {
            let started = shared.clock.now();
            // Waiting for a place counts: the request was due.
            let _place = match &most {
                Some(most) => most.acquire().await.ok(),
                None => None,
            };
            let index = request.index;
            let (record, text) = run_request(
                &shared,
                &client,
                index,
                (request.scheduled, started),
                request.body,
            )
            .await;
            let ended = record.end_ns;
            let goes_on = record.is_complete() && shared.plan.requests[index].has_next;
            shared.keep_record(record);
            if goes_on {
                let turn = Later {
                    index: index + 1,
                    scheduled: ended + Nanos(shared.plan.think.as_nanos() as i64),
                    history: extend_history(&shared, index, request.history, text),
                };
                let _ = later.send(turn);
            } else {
                shared.abandon_after(index);
            }
        });
        while running.try_join_next().is_some() {}
    }
    drop(later);
    while running.join_next().await.is_some() {}
}

async fn run_closed_loop(shared: &Arc<SharedLoad>, client: &Arc<LoadClient>, slots: usize) {
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..slots {
        let (shared, client) = (Arc::clone(shared), Arc::clone(client));
        running.spawn(async move {
            while let Some(mut index) = shared.next_session() {
                let mut history = Vec::new();
                let mut scheduled = shared.clock.now();
                loop {
                    let started = shared.clock.now();
                    let body = shared.request_body(index, &history);
                    let (record, text) =
                        run_request(&shared, &client, index, (scheduled, started), body).await;
                    let goes_on = record.is_complete() && shared.plan.requests[index].has_next;
                    let ended = record.end_ns;
                    shared.keep_record(record);
                    if !goes_on {
                        shared.abandon_after(index);
                        break;
                    }
                    history = extend_history(&shared, index, history, text);
                    scheduled = ended + Nanos(shared.plan.think.as_nanos() as i64);
                    let pause = sleep_until(shared.clock.instant(scheduled).into());
                    if run_until(pause, shared.stopped.notified()).await.is_none() {
                        shared.abandon_after(index);
                        return;
                    }
                    index += 1;
                }
            }
        });
    }
    while running.join_next().await.is_some() {}
}

/// One request within its time limit, or until the load is stopped.
async fn run_request(
    shared: &Arc<SharedLoad>,
    client: &LoadClient,
    index: usize,
    (scheduled, started): (Nanos, Nanos),
    body: bytes::Bytes,
) -> (RequestRecord, String) {
    let planned = &shared.plan.requests[index];
    let mut record = RequestRecord::due(index as u64, scheduled, planned.max_tokens);
    record.session = planned.session;
    record.started_ns = started;
    if shared.is_stopped() {
        let now = shared.clock.now();
        broken_off(&mut record, FailureKind::Interrupted, now, STOPPED);
        return (record, String::new());
    }
    shared.in_flight.fetch_add(1, Ordering::Relaxed);
    let ended = run_until(
        timeout(shared.limit, client.exchange_request(body, &mut record)),
        shared.stopped.notified(),
    )
    .await;
    shared.in_flight.fetch_sub(1, Ordering::Relaxed);
    let text = match ended {
        Some(Ok(text)) => text,
        Some(Err(_)) => {
            let why = format!("not complete within {:?}", shared.limit);
            broken_off(&mut record, FailureKind::Timeout, shared.clock.now(), &why);
            String::new()
        }
        None => {
            let now = shared.clock.now();
            broken_off(&mut record, FailureKind::Interrupted, now, STOPPED);
            String::new()
        }
    };
    if let Some(count) = &shared.count_tokens
        && record.is_complete()
        && (record.output_tokens.is_none() || record.usage_mistake.is_some())
        && let Some(tokens) = count(&text)
    {
        record.output_tokens = Some(tokens);
        record.token_basis = TokenBasis::Tokenizer;
        record.usage_mistake = None;
    }
    (record, text)
}

/// The output of a future; `None` if `end` completes first.
async fn run_until<T>(future: impl Future<Output = T>, end: impl Future<Output = ()>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut end = std::pin::pin!(end);
    std::future::poll_fn(move |context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        end.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// The conversation after a turn.
fn extend_history(
    shared: &SharedLoad,
    index: usize,
    mut history: Vec<ChatMessage>,
    answer: String,
) -> Vec<ChatMessage> {
    let asked = match shared.plan.prompt(index) {
        Prompt::Text(text) => text,
        Prompt::Tokens(_) => String::new(),
    };
    history.push(ChatMessage {
        is_answer: false,
        text: asked,
    });
    history.push(ChatMessage {
        is_answer: true,
        text: answer,
    });
    history
}
