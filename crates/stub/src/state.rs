//! What the stub knows of itself while it serves.

use std::{
    sync::{Mutex, atomic::AtomicU64},
    time::Duration,
};

use llmprof_units::Nanos;
use tokio::sync::{Notify, Semaphore};

use crate::Behaviour;

/// What the stub did with one request: the truth that a client is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedRequest {
    /// When it was read, nanoseconds since 1970.
    pub arrived_unix_ns: Nanos,
    /// From then to its turn.
    pub queue: Duration,
    /// From its turn to its first token.
    pub prefill: Duration,
    /// From its first to its last token.
    pub decode: Duration,
    pub tokens: u64,
    pub prompt_tokens: u64,
}

/// A call of the stub's profiler, and what it was doing then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    pub path: String,
    pub body: String,
    /// When the call arrived, in ns since 1970.
    pub at_unix_ns: Nanos,
    /// Number of requests that were being answered.
    pub running: u64,
    /// Requests that were served before.
    pub served: usize,
}

pub(super) struct StubState {
    pub(super) behaviour: Behaviour,
    pub(super) slots: Semaphore,
    pub(super) number: AtomicU64,
    pub(super) running: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) served: Mutex<Vec<ServedRequest>>,
    pub(super) calls: Mutex<Vec<Called>>,
    pub(super) authorizations: Mutex<Vec<Option<String>>>,
    /// A space and the last key that was sent, where it is repeated.
    repeated: Mutex<String>,
    pub(super) stop: Notify,
}

impl StubState {
    pub(super) fn new(behaviour: Behaviour) -> Self {
        let slots = match behaviour.slots {
            0 => Semaphore::MAX_PERMITS,
            slots => slots,
        };
        Self {
            behaviour,
            slots: Semaphore::new(slots),
            number: AtomicU64::new(0),
            running: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            served: Mutex::new(Vec::new()),
            calls: Mutex::new(Vec::new()),
            authorizations: Mutex::new(Vec::new()),
            repeated: Mutex::new(String::new()),
            stop: Notify::new(),
        }
    }

    /// Notes what a request had as `Authorization`.
    pub(super) fn note_authorization(&self, authorization: Option<String>) {
        if self.behaviour.repeats_key
            && let Some(key) = authorization.as_deref().and_then(|a| a.split(' ').nth(1))
        {
            *lock_ignoring_poison(&self.repeated) = format!(" {}", (self.behaviour.key_form)(key));
        }
        lock_ignoring_poison(&self.authorizations).push(authorization);
    }

    /// What stands behind everything that is said; nothing unless keys are repeated.
    pub(super) fn repeated_keys(&self) -> String {
        lock_ignoring_poison(&self.repeated).clone()
    }
}

pub(crate) fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics with the lock")
}
