//! The ends of a process: it exits, it forks.

use std::sync::Once;

use crate::descriptor::{Own, Remembered};
use crate::guard::quietly;
use crate::{session, sys};

/// The file, the control channel and the bell. A child closes them: they are its parent's.
static DESCRIPTORS: [Remembered; 4] = [const { Remembered::none() }; 4];

/// Whether this process is a fork that runs its parent's program. Such a process, as Python's multiprocessing makes
/// them, mostly ends by `_exit`, where nobody is called.
pub(crate) fn is_forked() -> bool {
    /// `PF_FORKNOEXEC` among the flags of a process (`include/linux/sched.h`).
    const FORKED: u64 = 0x40;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program stands in brackets and may hold anything; flags are the seventh field after it.
    let flags = stat
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split_ascii_whitespace().nth(6)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & FORKED != 0)
}

/// Keeps the descriptors of a new session in mind.
pub(crate) fn remember_descriptors(descriptors: [Option<&Own>; 4]) {
    for (place, descriptor) in DESCRIPTORS.iter().zip(descriptors) {
        place.set(descriptor);
    }
}

/// Has us called at exit and in children, once for all sessions of this process and its children.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        sys::pin_library_of((watch as fn() as *const ()).cast());
        // SAFETY: both functions live as long as the process, since the library is pinned.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}

/// Runs in the thread that ends the process, before the driver's own handler, which was registered earlier.
extern "C" fn at_exit() {
    quietly((), || {
        if let Some(session) = session::current() {
            session.finish();
        }
    });
}

/// Runs in a forked child, where only the forking thread is left: no lock may be taken and nothing freed.
extern "C" fn in_child() {
    session::forget();
    for place in &DESCRIPTORS {
        place.close();
    }
}
