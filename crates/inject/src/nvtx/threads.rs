//! The threads that have ranges, each with a log of its own.
//!
//! A thread keeps a pointer to its log and says nothing when it ends, so logs are never freed. Those of threads that are
//! gone are given to new ones: a program may start a thread for every request.

use super::log::Log;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sys;

/// With so many threads, and whenever there are twice as many, it is asked which are gone.
const MANY: usize = 64;

#[derive(Default)]
pub(crate) struct Thread {
    id: AtomicU32,
    pub(crate) log: Mutex<Log>,
}

impl Thread {
    /// As the system numbers it.
    pub(crate) fn id(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
pub(super) struct Threads(Mutex<Logs>);

#[derive(Default)]
struct Logs {
    used: Vec<&'static Thread>,
    /// Those of threads that are gone.
    spare: Vec<&'static Thread>,
    /// How many were used when it was last asked who is gone.
    asked: usize,
}

impl Threads {
    /// A log for the calling thread, which has none.
    pub(super) fn join(&self) -> Option<&'static Thread> {
        let mut logs = self.0.lock().ok()?;
        let thread = logs
            .spare
            .pop()
            .unwrap_or_else(|| Box::leak(Box::default()));
        thread.id.store(sys::thread_id(), Ordering::Relaxed);
        logs.used.push(thread);
        Some(thread)
    }

    /// Calls `visit` with every thread's number and log.
    pub(super) fn each(&self, mut visit: impl FnMut(u32, &mut Log)) {
        let Ok(logs) = self.0.lock() else { return };
        for thread in &logs.used {
            if let Ok(mut log) = thread.log.lock() {
                visit(thread.id(), &mut log);
            }
        }
    }

    /// Takes the logs of threads that are gone, once nothing is left to be handed over in them.
    pub(super) fn part(&self) {
        let Ok(mut logs) = self.0.lock() else { return };
        let Logs { used, spare, asked } = &mut *logs;
        if used.len() < MANY.max(2 * *asked) {
            return;
        }
        used.retain(|thread| {
            let is_gone =
                sys::is_gone(thread.id()) && thread.log.lock().is_ok_and(|mut log| log.clear());
            if is_gone {
                spare.push(thread);
            }
            !is_gone
        });
        *asked = used.len();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_gone_leave_their_logs_to_others() {
        let threads = Threads::default();
        threads.join().unwrap();
        for _ in 0..1000 {
            std::thread::scope(|scope| {
                let id = scope
                    .spawn(|| threads.join().map(Thread::id))
                    .join()
                    .unwrap();
                assert_ne!(id, Some(sys::thread_id()));
            });
            threads.part();
        }
        let logs = threads.0.lock().unwrap();
        let all = logs.used.len() + logs.spare.len();
        assert!(all <= 2 * MANY, "{all}");
        // The one that lives has its own.
        let id = sys::thread_id();
        let living = logs.used.iter().filter(|thread| thread.id() == id);
        assert_eq!(living.count(), 1);
    }
}
