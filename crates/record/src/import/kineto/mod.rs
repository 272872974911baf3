//! Kineto's and Chrome's trace JSON.
//!
//! The list of events is cut into pieces where Kineto's layout shows that one event ends and the next begins; the
//! pieces are read at the same time. A file in any other layout is one piece, read by the same code on one thread.
//! Which piece an event was in makes no difference to the trace.

mod begin_end;
mod collectives;
mod cursor;
mod event;
mod flows;
mod grids;
mod header;
mod losses;
mod number;
mod pieces;
mod rows;

use memchr::memmem;

use self::cursor::Cursor;
use self::pieces::{Ending, read_events};
use super::{ImportError, Importer, Profile, Source};
use crate::trace::Trace;

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
            has(b"\"traceEvents\"") || (has(b"\"schemaVersion\"") && has(b"\"deviceProperties\""))
        }
        Some(b'[') => head[1..].trim_ascii_start().starts_with(b"{") && has(b"\"ph\""),
        _ => false,
    }
}

pub fn read(source: &Source) -> Result<Trace, ImportError> {
    let mut cursor = Cursor::new(source.bytes());
    if cursor.bytes.starts_with(b"\xef\xbb\xbf") {
        cursor.at = 3;
    }
    cursor.skip_space();
    let mut part = rows::Part::default();
    part.builder
        .metadata
        .insert("tool".to_owned(), "kineto".to_owned());
    let ending = match cursor.peek() {
        // The bare list may lack its closing bracket: Chrome's format says so.
        b'[' => match read_events(&mut cursor, &mut part) {
            Ending::MidEvent => Ending::MidEvent,
            Ending::Open | Ending::Closed => Ending::Closed,
        },
        _ => read_object(&mut cursor, &mut part),
    };
    if ending != Ending::Closed {
        part.losses.truncated.add(cursor.at as u64);
    }
    if part.builder.events_read == 0 && ending != Ending::Closed {
        return Err(source.unusable(
            "kineto",
            format!("truncated at byte {} before any event", cursor.at),
        ));
    }
    if cursor.repaired > 0 {
        part.losses.repaired.add(0);
    }
    let rows::Part {
        mut builder,
        mut losses,
        halves,
        flows,
    } = part;
    halves.join(&mut builder, &mut losses);
    if flows.wanted {
        pieces::read_flows(source.bytes()).resolve(&mut builder);
    }
    grids::count_blocks(&mut builder);
    builder.issues.extend(source.issues().iter().cloned());
    builder.issues.extend(losses.issues());
    Ok(builder.finish())
}

/// Reads the keys of the outer object, the events among them.
fn read_object(cursor: &mut Cursor<'_>, part: &mut rows::Part) -> Ending {
    if cursor.take(b'{').is_none() {
        return Ending::Open;
    }
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
