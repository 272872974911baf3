//! A packed trace, unpacked while it is read: one thread unpacks pieces, others read their events, and neither waits for the whole.
//!
//! Pieces are cut where [`pieces`](super::pieces) cuts the unpacked content, so that the trace is the same.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use memchr::memmem;

use super::cursor::Cursor;
use super::pieces::{BETWEEN, CUT_REACH, Ending, PIECE_BYTES, PIECES_AT_ONCE, read_piece};
use super::rows::Part;
use super::{Outcome, finish, new_part, read_keys, skip_to_events};
use crate::import::source::Packed;
use crate::import::{ImportError, Limits, Source};
use crate::issue::Issue;
use crate::trace::Trace;

/// The list of events begins within so many bytes, or the content is unpacked first.
const HEADER_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 1 << 18;

/// A piece that was read.
struct Done {
    index: usize,
    part: Part,
    ending: Ending,
    /// Where reading ended, within the whole content.
    at: usize,
    from: usize,
    bytes: Vec<u8>,
}

/// How unpacking ended.
enum Unpacked {
    Whole,
    /// After so many bytes.
    Damaged(u64, io::Error),
    TooLarge(u64),
}

/// Reads a packed trace; `None` where its beginning is not that of a list of events, so that it must be unpacked first.
pub(in crate::import) fn read(
    packed: &Packed,
    limits: &Limits,
) -> Option<Result<Trace, ImportError>> {
    // A worker that waits for others of its own pool may wait for itself.
    if rayon::current_thread_index().is_some() {
        return None;
    }
    let mut reader = packed.reader().ok()?;
    let mut start = Vec::new();
    let first = fill(&mut reader, &mut start, Source::HEAD_BYTES);
    if !super::sniff(&start) {
        return None;
    }
    // As much as a first piece needs, so that small files are whole here.
    let unpacked = first.and_then(|()| {
        fill(
            &mut reader,
            &mut start,
            HEADER_BYTES + PIECE_BYTES + CUT_REACH,
        )
    });
    let mut part = new_part();
    let events = skip_to_events(&start[..start.len().min(HEADER_BYTES)], &mut part)?;
    Some(read_from(
        packed, limits, reader, start, unpacked, events, part,
    ))
}

fn read_from(
    packed: &Packed,
    limits: &Limits,
    reader: Box<dyn Read + Send + '_>,
    start: Vec<u8>,
    unpacked: io::Result<()>,
    events: usize,
    mut part: Part,
) -> Result<Trace, ImportError> {
    let (tokens, taken) = sync_channel::<()>(PIECES_AT_ONCE);
    let (sender, results) = channel::<Done>();
    let (outcome, ended) = std::thread::scope(|scope| {
        let unpacking = scope.spawn(move || {
            let mut cutter = Cutter {
                buffer: start,
                from: 0,
                index: 0,
                total: 0,
                tokens,
                sender,
            };
            cutter.total = cutter.buffer.len() as u64;
            cutter.discard(events);
            cutter.run(reader, unpacked, packed.limit_bytes())
        });
        let outcome = absorb(&mut part, &results, &taken, events);
        let ended = unpacking.join().unwrap_or_else(|_| {
            Unpacked::Damaged(0, io::Error::other("the thread that unpacks it panicked"))
        });
        (outcome, ended)
    });
    match ended {
        Unpacked::Whole => {}
        Unpacked::TooLarge(limit_bytes) => return Err(packed.too_large(limit_bytes)),
        Unpacked::Damaged(bytes, error) => part.builder.issues.push(
            Issue::error("source.packing_damaged")
                .with("packing", packed.name())
                .with("bytes", bytes)
                .with("error", error.to_string()),
        ),
    }
    // Arrows are wanted by few traces, which are unpacked again for them.
    finish::<Source>(part, outcome, packed.path(), |wanted| {
        wanted
            .then(|| Source::open(packed.path(), limits))
            .transpose()
    })
}

/// Fills a buffer up to a length.
fn fill(reader: &mut impl Read, buffer: &mut Vec<u8>, length: usize) -> io::Result<()> {
    while buffer.len() < length {
        let before = buffer.len();
        let more = READ_BYTES.min(length - before);
        buffer.resize(before + more, 0);
        let read = loop {
            match reader.read(&mut buffer[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        if read? == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Cuts what is unpacked into pieces and has each read.
struct Cutter {
    buffer: Vec<u8>,
    /// Where the buffer begins in the whole content.
    from: usize,
    index: usize,
    total: u64,
    /// Bounds the pieces in memory: one is put for each, and taken when it was added to the trace.
    tokens: SyncSender<()>,
    sender: Sender<Done>,
}

impl Cutter {
    fn discard(&mut self, bytes: usize) {
        self.buffer.drain(..bytes);
        self.from += bytes;
    }

    fn run(mut self, mut reader: impl Read, before: io::Result<()>, limit: u64) -> Unpacked {
        let mut ended = before;
        loop {
            let length = PIECE_BYTES + CUT_REACH;
            if ended.is_ok() {
                let had = self.buffer.len();
                ended = fill(&mut reader, &mut self.buffer, length);
                self.total += (self.buffer.len() - had) as u64;
            }
            if self.total > limit {
                return Unpacked::TooLarge(limit);
            }
            let mut is_last = self.buffer.len() < length || ended.is_err();
            let reach = self.buffer.len().min(length);
            let cut = if self.buffer.len() <= PIECE_BYTES {
                self.buffer.len()
            } else if let Some(found) = memmem::find(&self.buffer[PIECE_BYTES..reach], BETWEEN) {
                PIECE_BYTES + found + BETWEEN.len() - 1
            } else {
                // Another layout: the rest is one piece.
                while ended.is_ok() && !is_last && self.total <= limit {
                    let had = self.buffer.len();
                    ended = fill(&mut reader, &mut self.buffer, had + PIECE_BYTES);
                    self.total += (self.buffer.len() - had) as u64;
                    is_last = self.buffer.len() < had + PIECE_BYTES;
                }
                if self.total > limit {
                    return Unpacked::TooLarge(limit);
                }
                is_last = true;
                self.buffer.len()
            };
            if cut > 0 && !self.send(cut) {
                // Nobody takes more.
                return Unpacked::Whole;
            }
            if self.buffer.is_empty() && is_last {
                return match ended {
                    Ok(()) => Unpacked::Whole,
                    Err(error) => Unpacked::Damaged(self.total, error),
                };
            }
        }
    }

    /// Has the first `length` bytes read; false where nobody waits for them.
    fn send(&mut self, length: usize) -> bool {
        let rest = self.buffer.split_off(length);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        let (index, from) = (self.index, self.from);
        self.index += 1;
        self.from += bytes.len();
        if self.tokens.send(()).is_err() {
            return false;
        }
        let sender = self.sender.clone();
        rayon::spawn(move || {
            let (part, ending, at) = read_piece(&bytes, from as u64, false);
            // Where the other side is gone, the trace is not wanted any more.
            let _ = sender.send(Done {
                index,
                part,
                ending,
                at: from + at,
                from,
                bytes,
            });
        });
        true
    }
}

/// Adds pieces to the trace in their order, then reads what follows the list.
fn absorb(
    part: &mut Part,
    results: &Receiver<Done>,
    taken: &Receiver<()>,
    events: usize,
) -> Outcome {
    let mut waiting: BTreeMap<usize, Done> = BTreeMap::new();
    let (mut next, mut at, mut ending) = (0, events, Ending::Open);
    let mut tail: Option<(usize, Vec<u8>)> = None;
    for done in results {
        waiting.insert(done.index, done);
        while let Some(done) = waiting.remove(&next) {
            next += 1;
            let _ = taken.try_recv();
            if let Some((_, tail)) = &mut tail {
                // What lies behind the end of the list was read as events for nothing.
                tail.extend_from_slice(&done.bytes);
                continue;
            }
            // An event that breaks off inside the list is dropped; at its end, the file is.
            if ending == Ending::MidEvent {
                part.losses.malformed.add(at as u64);
            }
            part.absorb(done.part);
            (ending, at) = (done.ending, done.at);
            if ending == Ending::Closed {
                tail = Some((at, done.bytes[at - done.from..].to_vec()));
            }
        }
    }
    let Some((base, tail)) = tail else {
        return Outcome {
            ending,
            at,
            repaired: 0,
        };
    };
    let mut cursor = Cursor::new(&tail);
    let ending = read_keys(&mut cursor, part);
    Outcome {
        ending,
        at: base + cursor.at,
        repaired: cursor.repaired,
    }
}
