//! Host threads.

use super::ids::StrId;
use super::table::table;

table! {
    /// The threads that host rows refer to, by [`ThreadId`]. Row 0 stands for "none".
    Threads as "threads",
    Thread {
        /// The process id; −1 where the tool wrote a text in its place (see `process_label`).
        process: i64,
        /// The thread id; −1 where the tool wrote a text in its place (see `label`).
        thread: i64,
        /// What the tool wrote in place of a process id, as Kineto does for its own spans.
        process_label: StrId,
        /// What the tool wrote in place of a thread id.
        label: StrId,
        /// The name of the process, where known.
        process_name: StrId,
        /// The name of the thread, where known.
        name: StrId,
    }
}
