//! Handles exit and fork of the process.

use std::sync::Once;

use crate::descriptor::{OwnDescriptor, Remembered};
use crate::guard::catch_panics;
use crate::{session, sys};

/// Descriptors of the file, the control channel and the bell. A forked child closes them: they belong to its parent.
static DESCRIPTORS: [Remembered; 4] = [const { Remembered::none() }; 4];

/// Whether this process was forked without exec, as Python's multiprocessing does. Such a process usually ends by `_exit`,
/// which calls no exit handlers.
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

/// Stores the descriptors of a new session for a forked child to close.
pub(crate) fn remember_descriptors(descriptors: [Option<&OwnDescriptor>; 4]) {
    for (place, descriptor) in DESCRIPTORS.iter().zip(descriptors) {
        place.set(descriptor);
    }
}

/// Registers the handlers for exit and fork, once for this process and its children.
pub(crate) fn register_handlers() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        sys::pin_library_of((register_handlers as fn() as *const ()).cast());
        // SAFETY: both functions live as long as the process, since the library is pinned.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}

/// Runs in the thread that ends the process, before the driver's own handler, which was registered earlier.
extern "C" fn at_exit() {
    catch_panics((), || {
        if let Some(session) = session::current_session() {
            session.finish_recording();
        }
    });
}

/// Runs in a forked child, where only the forking thread is left: no lock may be taken and nothing freed.
extern "C" fn in_child() {
    session::forget_session();
    for place in &DESCRIPTORS {
        place.close();
    }
}
