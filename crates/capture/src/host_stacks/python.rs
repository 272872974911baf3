//! What an interpreter says of its threads.

use llmprof_record::trace::Collecting;

/// Why the stacks of a process are not read.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "host-stacks"),
    expect(dead_code, reason = "without the feature one of them occurs")
)]
pub(super) enum Refusal {
    NotPermitted(String),
    /// Another version of Python, or a build of it, than can be read.
    Unsupported(String),
    /// It may succeed later: the interpreter is starting.
    NotYet(String),
    /// llmprof was built without it.
    #[cfg_attr(
        feature = "host-stacks",
        expect(dead_code, reason = "with the feature it never occurs")
    )]
    NotBuilt,
}

/// One frame, as the interpreter knows it.
pub(super) struct Frame {
    pub(super) function: String,
    pub(super) file: String,
    pub(super) line: u32,
}

/// A thread that runs Python.
pub(super) struct PythonThread {
    pub(super) thread: u32,
    pub(super) owns_gil: bool,
    /// Frames of the stack, innermost first.
    pub(super) frames: Vec<Frame>,
}

/// The interpreter at one moment.
pub(super) struct Moment {
    pub(super) threads: Vec<PythonThread>,
    pub(super) collecting: Collecting,
}
