//! The list of events, cut into pieces that are read at the same time.
//!
//! A piece ends where the next event seems to begin, whatever the layout. A list of objects inside an event, or a string, may look the
//! same: then the piece ends inside of an event, which is read again together with the next piece.

use std::borrow::Cow;

use memchr::{memchr, memmem};
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use super::cursor::Cursor;
use super::event::{Event, Learnt};
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
/// How far past its size a piece may reach for a place to cut; the next event is mostly some hundred bytes away.
pub(super) const CUT_REACH: usize = 1 << 20;
/// An event that does not end within so many bytes is broken; the longest seen, with all shapes of a fused optimizer, have some hundred
/// thousand.
const EVENT_MAX_BYTES: usize = 16 << 20;

/// Pieces in memory beside the trace that they are added to, by thread: one that is read, one that waits.
const PIECES_PER_THREAD: usize = 2;

/// The events of a piece.
pub(super) struct Piece {
    pub(super) part: Part,
    pub(super) ending: Ending,
    /// Where reading ended, within the whole content: behind the list, or where the event begins that breaks off.
    pub(super) at: usize,
}

impl Piece {
    /// Reads content that begins at `from`. Only of the last piece is it known that nothing follows.
    pub(super) fn read(content: &[u8], from: usize, is_last: bool) -> Self {
        let (part, ending, at) = read_piece(content, from as u64, is_last, false);
        Self {
            part,
            ending,
            at: from + at,
        }
    }
}

/// Pieces put together in their order.
pub(super) struct Assembly<'p> {
    pub(super) part: &'p mut Part,
    pub(super) ending: Ending,
    pub(super) at: usize,
}

impl<'p> Assembly<'p> {
    pub(super) fn new(part: &'p mut Part, at: usize) -> Self {
        Self {
            part,
            ending: Ending::Open,
            at,
        }
    }

    /// Adds the next piece. `rejoined` gives the content from [`at`](Self::at) to its end, where the piece before broke off.
    pub(super) fn add<'c>(
        &mut self,
        mut piece: Piece,
        is_last: bool,
        rejoined: impl FnOnce() -> Cow<'c, [u8]>,
    ) {
        if self.ending == Ending::MidEvent {
            let content = rejoined();
            piece = Piece::read(
                &content,
                self.at,
                is_last || content.len() > EVENT_MAX_BYTES,
            );
        }
        self.part.absorb(piece.part);
        (self.ending, self.at) = (piece.ending, piece.at);
    }
}

/// Reads the list whose opening bracket the cursor is behind, and leaves the cursor behind it.
pub(super) fn read_events(cursor: &mut Cursor<'_>, part: &mut Part) -> Ending {
    let bytes = cursor.bytes;
    let pieces = pieces(bytes, cursor.at);
    let read = |wave: &[(usize, usize)]| -> Vec<(usize, Piece)> {
        wave.par_iter()
            .with_max_len(1)
            .map(|&(from, to)| {
                let piece = Piece::read(&bytes[from..to], from, to == bytes.len());
                (to, piece)
            })
            .collect()
    };
    // While one wave of pieces is added to the trace, the next is read.
    let mut waves = pieces.chunks(PIECES_PER_THREAD * rayon::current_num_threads());
    let mut ready = waves.next().map(&read).unwrap_or_default();
    let mut assembly = Assembly::new(part, cursor.at);
    while !ready.is_empty() {
        let next = waves.next();
        let (closed, following) = rayon::join(
            || {
                for (to, piece) in ready {
                    let from = assembly.at;
                    assembly.add(piece, to == bytes.len(), || Cow::Borrowed(&bytes[from..to]));
                    // What lies behind the end of the list was read as events for nothing.
                    if assembly.ending == Ending::Closed {
                        return true;
                    }
                }
                false
            },
            || next.map(&read).unwrap_or_default(),
        );
        ready = if closed { Vec::new() } else { following };
    }
    cursor.at = assembly.at;
    assembly.ending
}

/// The arrows of a file, which the first reading passed over.
pub(super) fn read_flows(bytes: &[u8]) -> Flows {
    let list = memmem::find(bytes, b"\"traceEvents\"");
    let bracket = list.and_then(|list| Some(list + memchr(b'[', &bytes[list..])? + 1));
    // Without an object around it, all is the list; its bracket is no event.
    let from = bracket.unwrap_or(0);
    let pieces = pieces(bytes, from);
    let flows = pieces.par_iter().with_max_len(1).map(|&(from, to)| {
        read_piece(&bytes[from..to], from as u64, true, true)
            .0
            .flows
    });
    flows.reduce(Flows::default, |mut all, some| {
        all.absorb(some);
        all
    })
}

/// Cuts the content from `from` on.
fn pieces(bytes: &[u8], mut from: usize) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    while from < bytes.len() {
        let to = from + cut_length(&bytes[from..]);
        pieces.push((from, to));
        from = to;
    }
    pieces
}

/// The length of a piece at the beginning of this content, of which [`PIECE_BYTES`] + [`CUT_REACH`] bytes count.
pub(super) fn cut_length(content: &[u8]) -> usize {
    let latest = content.len().min(PIECE_BYTES + CUT_REACH);
    let boundary = find_boundary(&content[..latest], PIECE_BYTES);
    boundary.unwrap_or(latest)
}

/// Where an event begins after `from`, by all appearance: a brace behind a comma or line break that follows a closing brace, with a key of
/// events behind it.
pub(super) fn find_boundary(bytes: &[u8], from: usize) -> Option<usize> {
    let mut from = from;
    loop {
        let brace = from + memchr(b'{', bytes.get(from..)?)?;
        let before = bytes[..brace].trim_ascii_end();
        let before = before
            .strip_suffix(b",")
            .map_or(before, <[u8]>::trim_ascii_end);
        if before.ends_with(b"}") && begins_event(bytes, brace) {
            return Some(brace);
        }
        from = brace + 1;
    }
}

/// Whether the brace at `at` is followed by a key that events have.
fn begins_event(bytes: &[u8], at: usize) -> bool {
    const KEYS: [&[u8]; 10] = [
        b"ph", b"cat", b"name", b"pid", b"tid", b"ts", b"id", b"dur", b"args", b"bp",
    ];
    let mut ahead = Cursor::new(bytes);
    ahead.at = at + 1;
    ahead.key().is_some_and(|key| KEYS.contains(&key))
}

/// Reads the events of one piece, which begins at `base` in the content. Says how it ends, and where in the piece.
fn read_piece(bytes: &[u8], base: u64, is_last: bool, only_flows: bool) -> (Part, Ending, usize) {
    let mut cursor = Cursor::new(bytes);
    let mut part = Part::default();
    part.flows.keep = only_flows;
    let mut learnt = Learnt::default();
    let mut patience = RecoveryPatience::new(bytes.len());
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
                let bad_before = part.losses.bad_field;
                let mut event = Event::default();
                let read = event.read(&mut cursor, &mut learnt, &mut part.losses.bad_field, base);
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
                if !is_last && cursor.at_end() {
                    // It goes on in the next piece, with which it is read again.
                    part.losses.bad_field = bad_before;
                    cursor.at = begin;
                    break Ending::MidEvent;
                }
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
struct RecoveryPatience {
    bytes_left: usize,
}

impl RecoveryPatience {
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

/// The next place that looks like the beginning of an event: a brace after a comma, bracket or brace, with one of the keys of events. (The
/// brace of `args` comes after a colon.)
fn next_event(bytes: &[u8], from: usize) -> Option<usize> {
    let mut from = from;
    loop {
        let brace = from + memchr(b'{', bytes.get(from..)?)?;
        let before = bytes[..brace].trim_ascii_end().last();
        if matches!(before, None | Some(b',' | b'[' | b'}')) && begins_event(bytes, brace) {
            return Some(brace);
        }
        from = brace + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_begin_in_every_layout() {
        for (text, begins) in [
            ("  },\n  {\n    \"ph\": \"X\"", Some(7)),
            ("1}},{\"args\":{}", Some(4)),
            ("1}}\n{\"name\":\"a\"", Some(4)),
            ("\"args\": {\"name\": 1}", None),
            ("[{\"name\": 1}", None),
            ("}, {\"value\": 1}", None),
        ] {
            assert_eq!(find_boundary(text.as_bytes(), 0), begins, "{text}");
        }
    }

    /// Cut at any place: what a piece lacks is read with the next.
    #[test]
    fn a_wrong_cut_does_not_show() {
        let event = |number: usize, name: &str| {
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{number},"dur":1,"args":{{"l":[{{"name":"a"}},{{"name":"b"}}],"s":"}},{{\"name\":1"}}}}"#
            )
        };
        let list: Vec<String> = (1..4)
            .map(|number| event(number, &format!("op{number}")))
            .collect();
        let content = list.join(",");
        let bytes = content.as_bytes();
        for first in 0..bytes.len() {
            for second in [first + 1, first + 40, first + 200] {
                let cuts = [0, first, second.min(bytes.len()), bytes.len()];
                let mut part = Part::default();
                let mut assembly = Assembly::new(&mut part, 0);
                for pair in cuts.windows(2) {
                    let (from, to) = (pair[0], pair[1]);
                    let is_last = to == bytes.len();
                    let piece = Piece::read(&bytes[from..to], from, is_last);
                    let at = assembly.at;
                    assembly.add(piece, is_last, || Cow::Borrowed(&bytes[at..to]));
                }
                assert_eq!(assembly.ending, Ending::Open);
                assert_eq!(part.builder.events_read, 3, "cut at {first} and {second}");
                assert_eq!(part.losses.issues(), []);
            }
        }
    }
}
