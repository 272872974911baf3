//! Threads that work is shared by, where the system gives some.

/// Has all work done by the calling thread where the system refuses to start another (`ulimit -u`, a cgroup): the pool
/// would panic on its first use.
pub(crate) fn prepare() {
    let probe = std::thread::Builder::new().spawn(|| {});
    if let Ok(thread) = probe {
        let _ = thread.join();
        return;
    }
    // It has not been used before, so that this cannot fail.
    let _ = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread()
        .build_global();
}
