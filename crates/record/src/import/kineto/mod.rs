//! Kineto's and Chrome's trace JSON.
//!
//! The list of events is cut into pieces where one event seems to end and the next to begin; the pieces are read at the same time. Which
//! piece an event was in makes no difference to the trace, nor does the layout: pretty, one line, a line for each event.

mod begin_end;
mod collectives;
mod cursor;
mod device_lanes;
mod event;
mod field;
mod flows;
mod grids;
mod habits;
mod header;
mod losses;
mod merged_ranks;
mod number;
mod packed;
mod pieces;
mod rows;
mod word;

use std::path::Path;

use memchr::memmem;

use self::cursor::Cursor;
use self::pieces::{Ending, read_events};
use super::{ImportError, Importer, Profile, Source};
use crate::issue::Issue;
use crate::trace::Trace;

pub(super) use self::packed::read as read_packed;

/// The entry of this format.
pub(crate) const IMPORTER: Importer = Importer {
    name: "kineto",
    sniff,
    read: |source| Ok(Profile::Trace(Box::new(read(source)?))),
};

/// An object that has a list of events among its first keys, or the list alone.
fn sniff(head: &[u8]) -> bool {
    let head = head
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(head)
        .trim_ascii_start();
    let has = |text: &[u8]| memmem::find(head, text).is_some();
    match head.first() {
        Some(b'{') => {
            has(b"\"traceEvents\"")
                || (has(b"\"schemaVersion\"") && has(b"\"deviceProperties\""))
                || begins_with_event(head)
        }
        Some(b'[') => head[1..].trim_ascii_start().starts_with(b"{") && has(b"\"ph\""),
        _ => false,
    }
}

pub fn read(source: &Source) -> Result<Trace, ImportError> {
    let mut cursor = Cursor::new(source.bytes());
    if cursor.bytes.starts_with(BYTE_ORDER) {
        cursor.at = BYTE_ORDER.len();
    }
    cursor.skip_space();
    let mut part = new_part();
    let ending = match cursor.peek() {
        // The bare list may lack its closing bracket: Chrome's format says so.
        b'[' => {
            cursor.at += 1;
            read_bare_events(&mut cursor, &mut part)
        }
        _ if begins_with_event(source.head()) => read_bare_events(&mut cursor, &mut part),
        _ => read_object(&mut cursor, &mut part),
    };
    let outcome = ReadOutcome {
        ending,
        at: cursor.at,
        repaired: cursor.repaired,
    };
    finish(part, outcome, source.path(), |_| Ok(Some(source)))
}

/// Events that no object is around. Chrome's format lets the closing bracket off; lines of events have none.
fn read_bare_events(cursor: &mut Cursor<'_>, part: &mut rows::Part) -> Ending {
    match read_events(cursor, part) {
        Ending::MidEvent => Ending::MidEvent,
        Ending::Open | Ending::Closed => Ending::Closed,
    }
}

/// Whether the first object is an event, one of a line each: it has a phase, and no list of events.
fn begins_with_event(head: &[u8]) -> bool {
    let mut cursor = Cursor::new(head.strip_prefix(BYTE_ORDER).unwrap_or(head));
    if cursor.take(b'{').is_none() {
        return false;
    }
    let mut is_event = false;
    loop {
        let Some(key) = cursor.key() else {
            return false;
        };
        is_event |= key == b"ph";
        if cursor.value().is_none() {
            return false;
        }
        cursor.skip_space();
        match cursor.peek() {
            b',' => cursor.at += 1,
            b'}' => return is_event,
            _ => return false,
        }
    }
}

const BYTE_ORDER: &[u8] = b"\xef\xbb\xbf";

#[derive(Clone, Copy)]
struct ReadOutcome {
    ending: Ending,
    at: usize,
    /// Strings outside of events that were repaired.
    repaired: u64,
}

fn new_part() -> rows::Part {
    let mut part = rows::Part::default();
    let metadata = &mut part.builder.metadata;
    metadata.insert("tool".to_owned(), "kineto".to_owned());
    part
}

/// Makes the trace. `unpacked` gives the whole content, which arrows are read from where they are wanted, and what was dropped of it.
fn finish<S: std::borrow::Borrow<Source>>(
    part: rows::Part,
    outcome: ReadOutcome,
    path: &Path,
    unpacked: impl FnOnce(bool) -> Result<Option<S>, ImportError>,
) -> Result<Trace, ImportError> {
    let rows::Part {
        mut builder,
        mut losses,
        halves,
        flows,
        ranks,
        accelerator,
        ..
    } = part;
    if outcome.ending != Ending::Closed {
        losses.truncated.add(outcome.at as u64);
        if builder.events_read == 0 {
            return Err(ImportError::Unusable {
                path: path.to_owned(),
                format: "kineto",
                what: format!("truncated at byte {} before any event", outcome.at),
            });
        }
    }
    if outcome.repaired > 0 {
        losses.repaired.add(0);
    }
    halves.join(&mut builder, &mut losses);
    let ascend_threads = device_lanes::move_device_events(&mut builder);
    let is_ascend = !ascend_threads.is_empty();
    if let Some(kind) = accelerator {
        device_lanes::set_kind(&mut builder, kind);
    }
    let wants_flows = flows.wanted || is_ascend;
    let source = unpacked(wants_flows)?;
    if let Some(source) = source.as_ref().map(std::borrow::Borrow::borrow) {
        if wants_flows {
            let flows = pieces::read_flows(source.bytes());
            flows.resolve(&mut builder);
            if is_ascend {
                flows.resolve_ascend(&mut builder, &ascend_threads);
            }
        }
        let known = |issue: &Issue| builder.issues.contains(issue);
        let more: Vec<Issue> = source
            .issues()
            .iter()
            .filter(|issue| !known(issue))
            .cloned()
            .collect();
        builder.issues.extend(more);
    }
    ranks.resolve(&mut builder);
    grids::count_blocks(&mut builder);
    builder.issues.extend(losses.issues());
    builder.are_ends_rounded = true;
    Ok(builder.finish())
}

/// Where the list of events begins, behind its bracket.
#[derive(Clone, Copy)]
struct ListStart {
    at: usize,
    /// No object is around it.
    is_bare: bool,
}

/// Reads the keys before the list of events of an object. `None` where the list does not begin in these bytes.
fn skip_to_events(start: &[u8], part: &mut rows::Part) -> Option<ListStart> {
    let mut cursor = Cursor::new(start);
    if start.starts_with(BYTE_ORDER) {
        cursor.at = BYTE_ORDER.len();
    }
    cursor.skip_space();
    let bare = |at| Some(ListStart { at, is_bare: true });
    if cursor.peek() == b'[' {
        return bare(cursor.at + 1);
    }
    if begins_with_event(start) {
        return bare(cursor.at);
    }
    cursor.take(b'{')?;
    loop {
        cursor.skip_space();
        if cursor.peek() == b',' {
            cursor.at += 1;
            continue;
        }
        let key = cursor.key()?;
        if key == b"traceEvents" && cursor.peek() == b'[' {
            return Some(ListStart {
                at: cursor.at + 1,
                is_bare: false,
            });
        }
        header::read_key(key, &mut cursor, &mut part.builder)?;
        // A value that ends with these bytes may go on behind them.
        if cursor.at_end() {
            return None;
        }
    }
}

/// Reads the keys of the outer object, the events among them.
fn read_object(cursor: &mut Cursor<'_>, part: &mut rows::Part) -> Ending {
    if cursor.take(b'{').is_none() {
        return Ending::Open;
    }
    read_keys(cursor, part)
}

/// The same behind its brace.
fn read_keys(cursor: &mut Cursor<'_>, part: &mut rows::Part) -> Ending {
    loop {
        cursor.skip_space();
        match cursor.peek() {
            b'}' => return Ending::Closed,
            b',' => cursor.at += 1,
            _ => {
                let Some(key) = cursor.key() else {
                    return Ending::Open;
                };
                if key == b"traceEvents" && cursor.peek() == b'[' {
                    cursor.at += 1;
                    let ending = read_events(cursor, part);
                    if ending != Ending::Closed {
                        return ending;
                    }
                } else if header::read_key(key, cursor, &mut part.builder).is_none() {
                    return Ending::Open;
                }
            }
        }
    }
}
