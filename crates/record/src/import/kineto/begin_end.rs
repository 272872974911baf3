//! Slices written as two events, one where they begin and one where they end.
//!
//! Kineto does not write these; other programs that emit Chrome's format do.

use super::cursor::Text;
use super::event::{Event, Id};
use super::losses::Losses;
use crate::trace::{Host, HostKind, TraceBuilder};

/// Begins and ends, until the whole file was seen.
#[derive(Default)]
pub(super) struct Halves(Vec<Half>);

struct Half {
    process: Result<i64, String>,
    thread: Result<i64, String>,
    time: i64,
    begins: bool,
    name: String,
    at: u64,
}

impl Halves {
    pub(super) fn add(&mut self, event: &Event<'_>, at: u64, losses: &mut Losses) {
        let Some(time) = event.time else {
            losses.no_time.add(at);
            return;
        };
        let text = |text: Text<'_>| text.decode().0.into_owned();
        let id = |id: Id<'_>| match id {
            Id::Number(number) => Ok(number),
            Id::Label(label) => Err(text(label)),
            Id::Missing => Err(String::new()),
        };
        self.0.push(Half {
            process: id(event.process),
            thread: id(event.thread),
            time,
            begins: event.phase == b'B',
            name: event.name.map(text).unwrap_or_default(),
            at,
        });
    }

    pub(super) fn absorb(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Joins each end with the last open begin of its thread.
    pub(super) fn join(mut self, builder: &mut TraceBuilder, losses: &mut Losses) {
        // As in Chrome: by time, and at one moment in the order of the file.
        self.0.sort_by(|a, b| {
            (&a.process, &a.thread, a.time, a.at).cmp(&(&b.process, &b.thread, b.time, b.at))
        });
        for thread in self
            .0
            .chunk_by(|a, b| (&a.process, &a.thread) == (&b.process, &b.thread))
        {
            let mut open: Vec<&Half> = Vec::new();
            for half in thread {
                if half.begins {
                    open.push(half);
                    continue;
                }
                let Some(begin) = open.pop() else {
                    losses.unpaired.add(half.at);
                    continue;
                };
                let Some(duration) = half.time.checked_sub(begin.time) else {
                    losses.unpaired.add(half.at);
                    continue;
                };
                let name = builder.intern(&begin.name);
                let process = begin
                    .process
                    .as_ref()
                    .map(|&number| number)
                    .map_err(String::as_str);
                let of = begin
                    .thread
                    .as_ref()
                    .map(|&number| number)
                    .map_err(String::as_str);
                let thread = builder.labelled_thread(process, of);
                builder.hosts.push(Host {
                    start: begin.time,
                    duration,
                    name,
                    thread,
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
