//! The list of events, cut into pieces that are read at the same time.

use memchr::{memchr, memmem};
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use super::cursor::Cursor;
use super::event::Event;
use super::flows::Flows;
use super::rows::Part;

/// How a list of events ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Closed,
    /// After an event, without a bracket.
    Open,
    MidEvent,
}

/// How large a piece is: what was unpacked is still in a cache when it is read. Fixed, so that the result does not depend on
/// the number of cores.
pub(super) const PIECE_BYTES: usize = 1 << 20;
/// How far past its size a piece may reach for a place to cut; in Kineto's layout the next is some hundred bytes away.
pub(super) const CUT_REACH: usize = 1 << 20;
/// How many pieces are in memory beside the trace that they are added to.
pub(super) const PIECES_AT_ONCE: usize = 32;
/// Between two events, as Kineto writes them. Inside an event, lines are indented deeper.
pub(super) const BETWEEN: &[u8] = b"\n  },\n  {";

/// Reads the list whose opening bracket the cursor is at, and leaves the cursor behind it.
pub(super) fn read_events(cursor: &mut Cursor<'_>, part: &mut Part) -> Ending {
    cursor.at += 1;
    let bytes = cursor.bytes;
    let pieces = pieces(bytes, cursor.at);
    if pieces.is_empty() {
        return Ending::Open;
    }
    let read = |waves: &[(usize, usize)]| -> Vec<(Part, Ending, usize)> {
        waves
            .par_iter()
            .with_max_len(1)
            .map(|&(from, to)| {
                let (part, ending, at) = read_piece(&bytes[from..to], from as u64, false);
                (part, ending, from + at)
            })
            .collect()
    };
    // While one wave of pieces is added to the trace, the next is read.
    let mut waves = pieces.chunks(PIECES_AT_ONCE);
    let mut ready = waves.next().map(&read).unwrap_or_default();
    let mut ending = Ending::Open;
    while !ready.is_empty() {
        let next = waves.next();
        let (closed, following) = rayon::join(
            || {
                for (piece, end, at) in ready {
                    // An event that breaks off inside the list is dropped; at its end, the file is.
                    if ending == Ending::MidEvent {
                        part.losses.malformed.add(cursor.at as u64);
                    }
                    part.absorb(piece);
                    (ending, cursor.at) = (end, at);
                    // What lies behind the end of the list was read as events for nothing.
                    if end == Ending::Closed {
                        return true;
                    }
                }
                false
            },
            || next.map(&read).unwrap_or_default(),
        );
        ready = if closed { Vec::new() } else { following };
    }
    ending
}

/// The arrows of a file, which the first reading passed over.
pub(super) fn read_flows(bytes: &[u8]) -> Flows {
    let from = memmem::find(bytes, b"\"traceEvents\"").unwrap_or(0);
    let from =
        from + memchr(b'[', &bytes[from..]).map_or(bytes.len() - from, |bracket| bracket + 1);
    let pieces = pieces(bytes, from);
    let found = pieces
        .par_iter()
        .with_max_len(1)
        .map(|&(from, to)| read_piece(&bytes[from..to], from as u64, true).0.flows);
    found.reduce(Flows::default, |mut all, some| {
        all.absorb(some);
        all
    })
}

/// Cuts the content from `from` on.
fn pieces(bytes: &[u8], mut from: usize) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    while from < bytes.len() {
        let to = cut_after(bytes, from);
        pieces.push((from, to));
        from = to;
    }
    pieces
}

/// The end of a piece that begins at `from`: where an event begins, or the end of the content.
fn cut_after(bytes: &[u8], from: usize) -> usize {
    let earliest = from + PIECE_BYTES;
    if earliest >= bytes.len() {
        return bytes.len();
    }
    let latest = bytes.len().min(earliest + CUT_REACH);
    match memmem::find(&bytes[earliest..latest], BETWEEN) {
        Some(found) => earliest + found + BETWEEN.len() - 1,
        // Another layout: the rest is one piece.
        None => bytes.len(),
    }
}

/// Reads the events of one piece, which begins at `base` in the content. Says how it ends, and where in the piece.
pub(super) fn read_piece(bytes: &[u8], base: u64, only_flows: bool) -> (Part, Ending, usize) {
    let mut cursor = Cursor::new(bytes);
    let mut part = Part::default();
    part.flows.keep = only_flows;
    let mut patience = Patience::new(bytes.len());
    let ending = loop {
        cursor.skip_space();
        match cursor.peek() {
            b',' => cursor.at += 1,
            b']' => {
                cursor.at += 1;
                break Ending::Closed;
            }
            b'{' => {
                let begin = cursor.at;
                let repaired = cursor.repaired;
                let at = base + begin as u64;
                let mut event = Event::default();
                let read = event.read(&mut cursor, &mut part.losses.bad_field, base);
                if read.is_some() {
                    if only_flows {
                        part.flows.add(&event);
                    } else {
                        part.add(&event, at);
                    }
                    if cursor.repaired > repaired {
                        part.losses.repaired.add(at);
                    }
                    continue;
                }
                let failed = cursor.at.min(cursor.bytes.len());
                let Some(next) = next_event(cursor.bytes, patience.resume(begin, failed)) else {
                    // Nothing follows it: the content breaks off here.
                    cursor.at = begin;
                    break Ending::MidEvent;
                };
                part.losses.malformed.add(at);
                cursor.at = next;
            }
            _ if cursor.at_end() => break Ending::Open,
            _ => {
                let Some(next) = next_event(cursor.bytes, cursor.at) else {
                    break Ending::MidEvent;
                };
                part.losses.malformed.add(base + cursor.at as u64);
                cursor.at = next;
            }
        }
    };
    (part, ending, cursor.at)
}

/// Keeps recovery linear: bytes that a broken event was read over may be read again only so often.
struct Patience {
    bytes_left: usize,
}

impl Patience {
    fn new(piece: usize) -> Self {
        Self {
            bytes_left: piece.saturating_mul(4),
        }
    }

    /// Where to look for the next event after one that began at `begin` and broke at `failed`.
    fn resume(&mut self, begin: usize, failed: usize) -> usize {
        let again = failed - begin;
        if again <= self.bytes_left {
            self.bytes_left -= again;
            begin + 1
        } else {
            failed
        }
    }
}

/// The next place that looks like the beginning of an event: a brace after a comma, bracket or brace, with one of the
/// keys that events begin with. (The brace of `args` comes after a colon.)
fn next_event(bytes: &[u8], from: usize) -> Option<usize> {
    const KEYS: [&[u8]; 7] = [b"ph", b"cat", b"name", b"pid", b"tid", b"ts", b"id"];
    let mut from = from;
    loop {
        let found = from + memchr(b'{', bytes.get(from..)?)?;
        let before = bytes[..found].trim_ascii_end().last();
        let mut ahead = Cursor::new(bytes);
        ahead.at = found + 1;
        let begins = matches!(before, None | Some(b',' | b'[' | b'}'))
            && ahead.key().is_some_and(|key| KEYS.contains(&key));
        if begins {
            return Some(found);
        }
        from = found + 1;
    }
}
