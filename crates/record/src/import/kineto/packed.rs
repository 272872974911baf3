//! A packed trace, unpacked while it is read: one thread unpacks pieces, others read their events, and neither waits for the whole.
//!
//! Pieces are cut where [`pieces`](super::pieces) cuts the unpacked content, so that the trace is the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::cursor::Cursor;
use super::pieces::{Assembly, CUT_REACH, Ending, PIECE_BYTES, Piece, cut_length, find_boundary};
use super::rows::Part;
use super::{ListStart, ReadOutcome, finish, new_part, read_keys, skip_to_events};
use crate::import::source::Packed;
use crate::import::{ImportError, Limits, Source};
use crate::issue::{Issue, IssueCode};
use crate::trace::Trace;

/// The list of events begins within so many bytes, or the content is unpacked first.
const HEADER_BYTES: usize = 1 << 20;
/// How much is unpacked at once: what was written last is still in the cache when its checksum is computed.
const READ_BYTES: usize = 1 << 17;

/// How many unpacked pieces are in memory: as few as keep some threads busy, since what waits leaves the caches.
const BUFFERS: usize = 12;

/// A piece that was read, with its content.
struct FinishedPiece {
    index: usize,
    piece: Piece,
    is_last: bool,
    from: usize,
    buffer: PieceBuffer,
}

/// Bytes that are written over again for every piece: fresh memory costs as much as unpacking into it.
#[derive(Default)]
struct PieceBuffer {
    bytes: Vec<u8>,
    /// How many of them are content.
    length: usize,
}

impl PieceBuffer {
    fn content(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Reads until there is so much content; false where the reader has no more.
    fn fill(&mut self, reader: &mut impl Read, length: usize) -> io::Result<bool> {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        while self.length < length {
            let to = length.min(self.length + READ_BYTES);
            match reader.read(&mut self.bytes[self.length..to]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

enum UnpackEnd {
    Whole,
    /// The stream is damaged after this many unpacked bytes.
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
    let mut unpacking = Unpacking {
        reader: packed.reader().ok()?,
        buffer: PieceBuffer::default(),
        ended: None,
        total: 0,
    };
    unpacking.fill(Source::HEAD_BYTES);
    if !super::sniff(unpacking.buffer.content()) {
        return None;
    }
    let mut part = new_part();
    let mut events = skip_to_events(unpacking.buffer.content(), &mut part);
    if events.is_none() {
        unpacking.fill(HEADER_BYTES);
        part = new_part();
        events = skip_to_events(unpacking.buffer.content(), &mut part);
    }
    Some(read_from(packed, limits, unpacking, events?, part))
}

fn read_from(
    packed: &Packed,
    limits: &Limits,
    mut unpacking: Unpacking<'_>,
    events: ListStart,
    mut part: Part,
) -> Result<Trace, ImportError> {
    // As many buffers as there are pieces in memory: who needs one more waits until one was added to the trace.
    let (recycled, free) = channel::<PieceBuffer>();
    for _ in 1..BUFFERS {
        let _ = recycled.send(PieceBuffer::default());
    }
    let (sender, results) = channel::<FinishedPiece>();
    let (outcome, ended) = std::thread::scope(|scope| {
        let cutting = scope.spawn(move || {
            unpacking.discard(events.at);
            let cutter = PieceCutter {
                unpacking,
                from: events.at,
                index: 0,
                free,
                sender,
            };
            cutter.run(packed.limit_bytes())
        });
        let outcome = assemble_pieces(&mut part, &results, &recycled, events);
        let ended = cutting.join().unwrap_or_else(|_| {
            UnpackEnd::Damaged(0, io::Error::other("the thread that unpacks it panicked"))
        });
        (outcome, ended)
    });
    match ended {
        UnpackEnd::Whole => {}
        UnpackEnd::TooLarge(limit_bytes) => return Err(packed.too_large(limit_bytes)),
        UnpackEnd::Damaged(bytes, error) => part.builder.issues.push(
            Issue::error(IssueCode::SourcePackingDamaged)
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

/// Content while it is unpacked.
struct Unpacking<'a> {
    reader: Box<dyn Read + Send + 'a>,
    buffer: PieceBuffer,
    /// Present when the reader has no more.
    ended: Option<io::Result<()>>,
    total: u64,
}

impl Unpacking<'_> {
    /// Unpacks until the buffer has so much content, or there is no more.
    fn fill(&mut self, length: usize) {
        if self.ended.is_some() {
            return;
        }
        let had = self.buffer.length;
        match self.buffer.fill(&mut self.reader, length) {
            Ok(true) => {}
            Ok(false) => self.ended = Some(Ok(())),
            Err(error) => self.ended = Some(Err(error)),
        }
        self.total += (self.buffer.length - had) as u64;
    }

    fn discard(&mut self, bytes: usize) {
        let length = self.buffer.length;
        self.buffer.bytes.copy_within(bytes..length, 0);
        self.buffer.length -= bytes;
    }

    /// Where the piece at the beginning of the buffer ends, as [`pieces`](super::pieces) cuts it.
    fn cut(&mut self) -> usize {
        let latest = PIECE_BYTES + CUT_REACH;
        let mut length = PIECE_BYTES + READ_BYTES;
        loop {
            self.fill(length);
            let content = self.buffer.content();
            let is_all = self.ended.is_some() || content.len() >= latest;
            if is_all || find_boundary(content, PIECE_BYTES).is_some() {
                return cut_length(content);
            }
            // The next event begins behind what was unpacked: it is very long, or unpacking ended early.
            length += READ_BYTES;
        }
    }
}

/// Cuts what is unpacked into pieces and has each read.
struct PieceCutter<'a> {
    unpacking: Unpacking<'a>,
    /// Where the buffer begins in the whole content.
    from: usize,
    index: usize,
    free: Receiver<PieceBuffer>,
    sender: Sender<FinishedPiece>,
}

impl PieceCutter<'_> {
    fn run(mut self, limit: u64) -> UnpackEnd {
        loop {
            let cut = self.unpacking.cut();
            if self.unpacking.total > limit {
                return UnpackEnd::TooLarge(limit);
            }
            if cut > 0 && !self.send(cut) {
                // Nobody takes more.
                return UnpackEnd::Whole;
            }
            if self.unpacking.buffer.length == 0
                && let Some(ended) = self.unpacking.ended.take()
            {
                return match ended {
                    Ok(()) => UnpackEnd::Whole,
                    Err(error) => UnpackEnd::Damaged(self.unpacking.total, error),
                };
            }
        }
    }

    /// Has the first `length` bytes read; false where nobody waits for them.
    fn send(&mut self, length: usize) -> bool {
        let Ok(mut next) = self.free.recv() else {
            return false;
        };
        let rest = &self.unpacking.buffer.content()[length..];
        let is_last = self.unpacking.ended.is_some() && rest.is_empty();
        if next.bytes.len() < rest.len() {
            next.bytes.resize(rest.len(), 0);
        }
        next.bytes[..rest.len()].copy_from_slice(rest);
        next.length = rest.len();
        let mut buffer = std::mem::replace(&mut self.unpacking.buffer, next);
        buffer.length = length;
        let (index, from) = (self.index, self.from);
        self.index += 1;
        self.from += length;
        let sender = self.sender.clone();
        rayon::spawn(move || {
            let piece = Piece::read(buffer.content(), from, is_last);
            // Where the other side is gone, the trace is not wanted any more.
            let _ = sender.send(FinishedPiece {
                index,
                piece,
                is_last,
                from,
                buffer,
            });
        });
        true
    }
}

/// Adds pieces to the trace in their order, then reads what follows the list.
fn assemble_pieces(
    part: &mut Part,
    results: &Receiver<FinishedPiece>,
    recycled: &Sender<PieceBuffer>,
    events: ListStart,
) -> ReadOutcome {
    let mut waiting: BTreeMap<usize, FinishedPiece> = BTreeMap::new();
    let mut assembly = Assembly::new(part, events.at);
    let mut next = 0;
    // What was not read to its end: an event that goes on in the next piece, or all that lies behind the list.
    let mut rest: Vec<u8> = Vec::new();
    for done in results {
        waiting.insert(done.index, done);
        while let Some(done) = waiting.remove(&next) {
            next += 1;
            let content = done.buffer.content();
            if assembly.ending == Ending::Closed {
                rest.extend_from_slice(content);
            } else {
                let joined = assembly.ending == Ending::MidEvent;
                if joined {
                    rest.extend_from_slice(content);
                }
                let before = assembly.at;
                assembly.add(done.piece, done.is_last, || Cow::Borrowed(&rest));
                if joined {
                    rest.drain(..assembly.at - before);
                } else if assembly.ending != Ending::Open {
                    rest.extend_from_slice(&content[assembly.at - done.from..]);
                }
            }
            let _ = recycled.send(done.buffer);
        }
    }
    let Assembly { ending, at, .. } = assembly;
    match ending {
        Ending::Open | Ending::Closed if events.is_bare => ReadOutcome {
            ending: Ending::Closed,
            at,
            repaired: 0,
        },
        Ending::Open => ReadOutcome {
            ending,
            at,
            repaired: 0,
        },
        Ending::MidEvent => {
            // It was not known that nothing follows.
            let last = Piece::read(&rest, at, true);
            part.absorb(last.part);
            ReadOutcome {
                ending: last.ending,
                at: last.at,
                repaired: 0,
            }
        }
        Ending::Closed => {
            let mut cursor = Cursor::new(&rest);
            let ending = read_keys(&mut cursor, part);
            ReadOutcome {
                ending,
                at: at + cursor.at,
                repaired: cursor.repaired,
            }
        }
    }
}
