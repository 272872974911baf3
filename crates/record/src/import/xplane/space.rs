//! The messages of an XSpace, with names in place of the ids that refer to them.
//!
//! Field numbers are those of `xplane.proto` in openxla/xla. Fields that no reader here needs are passed over.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::import::protobuf::{Damaged, Field, Fields, all_bytes, cut_field, first_field};

/// One device, the host, or a collection of facts without events.
pub(super) struct Plane<'a> {
    pub(super) name: String,
    pub(super) lines: Vec<&'a [u8]>,
    pub(super) stats: Vec<&'a [u8]>,
    event_names: HashMap<u64, &'a [u8], FxBuildHasher>,
    stat_names: HashMap<u64, &'a str, FxBuildHasher>,
}

/// A row of events: a stream of a device, a thread of the host.
pub(super) struct Line<'a> {
    pub(super) id: i64,
    pub(super) name: &'a [u8],
    /// The moment that offsets of events count from, ns.
    pub(super) timestamp_ns: i64,
    pub(super) events: Vec<&'a [u8]>,
}

pub(super) struct Event<'a> {
    /// What its name goes by: one of millions of events has no name of its own.
    pub(super) name_id: u64,
    pub(super) name: &'a [u8],
    pub(super) offset_ps: i64,
    pub(super) duration_ps: i64,
    message: &'a [u8],
}

/// The value of a statistic of an event or plane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stat<'a> {
    Integer(i64),
    Text(&'a [u8]),
}

impl Stat<'_> {
    pub(super) fn integer(self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(value),
            Self::Text(_) => None,
        }
    }
}

impl<'a> Plane<'a> {
    /// Reads a plane; false where the message is damaged, with what comes before the damage.
    pub(super) fn read(message: &'a [u8]) -> (Self, bool) {
        let mut plane = Self {
            name: String::new(),
            lines: Vec::new(),
            stats: Vec::new(),
            event_names: HashMap::default(),
            stat_names: HashMap::default(),
        };
        for field in Fields::new(message) {
            let Ok((number, field)) = field else {
                plane.lines.extend(cut_message(message, 3));
                return (plane, false);
            };
            let Some(bytes) = field.bytes() else { continue };
            match number {
                2 => plane.name = String::from_utf8_lossy(bytes).into_owned(),
                3 => plane.lines.push(bytes),
                4 => {
                    if let Some((id, metadata)) = map_entry(bytes) {
                        plane.event_names.insert(id, event_name(metadata));
                    }
                }
                5 => {
                    if let Some((id, metadata)) = map_entry(bytes) {
                        let name = first_field(metadata, 2).and_then(Field::bytes);
                        let name = name.and_then(|name| str::from_utf8(name).ok());
                        plane.stat_names.insert(id, name.unwrap_or_default());
                    }
                }
                6 => plane.stats.push(bytes),
                _ => {}
            }
        }
        (plane, true)
    }

    /// The event behind a message; `None` where it has no known name or no time.
    pub(super) fn event(&self, message: &'a [u8]) -> Option<Event<'a>> {
        let (mut id, mut offset_ps, mut duration_ps) = (0, Some(0), 0);
        for field in Fields::new(message) {
            match field.ok()? {
                (1, Field::Varint(value)) => id = value,
                (2, Field::Varint(value)) => offset_ps = Some(value as i64),
                // An aggregate: how often it happened, and no moment when.
                (5, Field::Varint(_)) => offset_ps = None,
                (3, Field::Varint(value)) => duration_ps = value as i64,
                _ => {}
            }
        }
        Some(Event {
            name_id: id,
            name: self.event_names.get(&id)?,
            offset_ps: offset_ps?,
            duration_ps,
            message,
        })
    }

    /// The statistic of a message of [`Plane::stats`] or of an event, with its name.
    fn stat(&self, message: &'a [u8]) -> Option<(&'a str, Stat<'a>)> {
        let (mut name, mut value) = ("", None);
        for field in Fields::new(message) {
            match field.ok()? {
                (1, Field::Varint(id)) => name = self.stat_names.get(&id).copied()?,
                (3 | 4, Field::Varint(integer)) => value = Some(Stat::Integer(integer as i64)),
                (5, Field::Bytes(text)) => value = Some(Stat::Text(text)),
                (7, Field::Varint(id)) => {
                    value = Some(Stat::Text(self.stat_names.get(&id)?.as_bytes()));
                }
                _ => {}
            }
        }
        Some((name, value?))
    }

    /// The facts about the plane itself.
    pub(super) fn facts(&self) -> impl Iterator<Item = (&'a str, Stat<'a>)> {
        self.stats.iter().filter_map(|message| self.stat(message))
    }

    pub(super) fn stats_of(&self, event: &Event<'a>) -> impl Iterator<Item = (&'a str, Stat<'a>)> {
        all_bytes(event.message, 4).filter_map(|message| self.stat(message))
    }
}

/// The short name of an event (`fusion.3`) where there is one; the full name of an HLO op is its whole text.
fn event_name(metadata: &[u8]) -> &[u8] {
    let text = |number| first_field(metadata, number).and_then(Field::bytes);
    let short = text(4).filter(|name| !name.is_empty());
    short.or_else(|| text(2)).unwrap_or_default()
}

impl<'a> Line<'a> {
    /// Reads a line; false where the message is damaged, with what comes before the damage.
    pub(super) fn read(message: &'a [u8]) -> (Self, bool) {
        let mut line = Self {
            id: 0,
            name: &[],
            timestamp_ns: 0,
            events: Vec::new(),
        };
        let mut display_name: &[u8] = &[];
        let mut is_whole = true;
        for field in Fields::new(message) {
            match field {
                Ok((1, Field::Varint(id))) => line.id = id as i64,
                Ok((2, Field::Bytes(name))) => line.name = name,
                Ok((11, Field::Bytes(name))) => display_name = name,
                Ok((3, Field::Varint(time))) => line.timestamp_ns = time as i64,
                Ok((4, Field::Bytes(event))) => line.events.push(event),
                Ok(_) => {}
                Err(Damaged) => is_whole = false,
            }
        }
        if line.name.is_empty() {
            line.name = display_name;
        }
        (line, is_whole)
    }
}

/// Key and value of one entry of a map from ids to messages.
fn map_entry(entry: &[u8]) -> Option<(u64, &[u8])> {
    let (mut key, mut value): (u64, &[u8]) = (0, &[]);
    for field in Fields::new(entry) {
        match field.ok()? {
            (1, Field::Varint(id)) => key = id,
            (2, Field::Bytes(message)) => value = message,
            _ => {}
        }
    }
    Some((key, value))
}

/// The beginning of the message with this number in which a longer message was cut.
pub(super) fn cut_message(message: &[u8], number: u64) -> Option<&[u8]> {
    cut_field(message).and_then(|(cut, bytes)| (cut == number).then_some(bytes))
}
