//! The threads that have ranges, each with its own log.
//!
//! A thread keeps a pointer to its log and we are not told when it ends, so logs are never freed. Logs of ended threads are
//! reused, because a program may start a thread for every request.

use super::log::Log;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sys;

/// Ended threads are searched for when there are this many threads, and each time their number has doubled.
const THREADS_BEFORE_RECLAIM: usize = 64;

#[derive(Default)]
pub(crate) struct Thread {
    id: AtomicU32,
    pub(crate) log: Mutex<Log>,
}

impl Thread {
    /// The thread's id in the operating system.
    pub(crate) fn id(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
pub(super) struct Threads(Mutex<Logs>);

#[derive(Default)]
struct Logs {
    used: Vec<&'static Thread>,
    /// Logs of ended threads, free for reuse.
    spare: Vec<&'static Thread>,
    /// Number of used logs after the last search for ended threads.
    asked: usize,
}

impl Threads {
    /// Assigns a log to the calling thread, which has none yet.
    pub(super) fn register_thread(&self) -> Option<&'static Thread> {
        let mut logs = self.0.lock().ok()?;
        let thread = logs
            .spare
            .pop()
            .unwrap_or_else(|| Box::leak(Box::default()));
        thread.id.store(sys::thread_id(), Ordering::Relaxed);
        logs.used.push(thread);
        Some(thread)
    }

    pub(super) fn for_each_log(&self, mut visit: impl FnMut(u32, &mut Log)) {
        let Ok(logs) = self.0.lock() else { return };
        for thread in &logs.used {
            if let Ok(mut log) = thread.log.lock() {
                visit(thread.id(), &mut log);
            }
        }
    }

    /// Makes the logs of ended threads available for reuse, once all of their records were handed over.
    pub(super) fn reclaim_gone(&self) {
        let Ok(mut logs) = self.0.lock() else { return };
        let Logs { used, spare, asked } = &mut *logs;
        if used.len() < THREADS_BEFORE_RECLAIM.max(2 * *asked) {
            return;
        }
        used.retain(|thread| {
            let is_gone = sys::is_gone(thread.id())
                && thread
                    .log
                    .lock()
                    .is_ok_and(|mut log| log.clear_if_flushed());
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
        threads.register_thread().unwrap();
        for _ in 0..1000 {
            std::thread::scope(|scope| {
                let id = scope
                    .spawn(|| threads.register_thread().map(Thread::id))
                    .join()
                    .unwrap();
                assert_ne!(id, Some(sys::thread_id()));
            });
            threads.reclaim_gone();
        }
        let logs = threads.0.lock().unwrap();
        let all = logs.used.len() + logs.spare.len();
        assert!(all <= 2 * THREADS_BEFORE_RECLAIM, "{all}");
        // The one that lives has its own.
        let id = sys::thread_id();
        let living = logs.used.iter().filter(|thread| thread.id() == id);
        assert_eq!(living.count(), 1);
    }
}
