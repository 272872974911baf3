//! Slices written as two events, one where they begin and one where they end.
//!
//! Kineto does not write these; other programs that emit Chrome's format do.

use super::losses::Losses;
use crate::trace::{Host, HostKind, Renumbering, StrId, ThreadId, TraceBuilder};

/// Begins and ends, until the whole file was seen.
#[derive(Default)]
pub(super) struct Halves(Vec<Half>);

#[derive(Clone, Copy)]
pub(super) struct Half {
    pub(super) thread: ThreadId,
    pub(super) time: i64,
    pub(super) begins: bool,
    pub(super) name: StrId,
    /// Its byte in the content.
    pub(super) at: u64,
}

impl Halves {
    pub(super) fn push(&mut self, half: Half) {
        self.0.push(half);
    }

    /// Adds those of another part, whose ids the builder of this one took in as `numbers`.
    pub(super) fn absorb(&mut self, other: Self, numbers: &Renumbering) {
        self.0.extend(other.0.into_iter().map(|half| Half {
            thread: numbers.thread(half.thread),
            name: numbers.string(half.name),
            ..half
        }));
    }

    /// Joins each end with the last open begin of its thread.
    pub(super) fn join(mut self, builder: &mut TraceBuilder, losses: &mut Losses) {
        // As in Chrome: by time, and at one moment in the order of the file.
        self.0.sort_by_key(|half| (half.thread, half.time, half.at));
        for thread in self.0.chunk_by(|a, b| a.thread == b.thread) {
            let mut open: Vec<&Half> = Vec::new();
            for half in thread {
                if half.begins {
                    open.push(half);
                    continue;
                }
                let begin = open.pop();
                let length = begin.and_then(|begin| half.time.checked_sub(begin.time));
                let (Some(begin), Some(duration)) = (begin, length) else {
                    losses.unpaired.add(half.at);
                    continue;
                };
                builder.hosts.push(Host {
                    start: begin.time,
                    duration,
                    name: begin.name,
                    thread: begin.thread,
                    kind: HostKind::OTHER,
                    ..Host::default()
                });
            }
            for half in open {
                losses.unpaired.add(half.at);
            }
        }
    }
}
