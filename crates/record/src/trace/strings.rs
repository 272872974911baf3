//! Interned strings.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use super::column::{Column, ColumnBytes};
use super::ids::StrId;
use super::sections::{Sections, TraceFileError};

/// Every distinct string of a trace, once. In a finished trace they are sorted, so ids compare as the strings do.
#[derive(Clone, Debug, PartialEq)]
pub struct Strings {
    /// Where each string ends in `text`; it begins where the one before ends.
    ends: Column<u64>,
    text: Column<u8>,
}

impl Strings {
    /// The name of the dictionary in a trace file.
    pub const NAME: &'static str = "strings";

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Always false: the empty string is there.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string `id`; empty for an id of another trace that this one does not have.
    pub fn get(&self, id: StrId) -> &str {
        str::from_utf8(self.bytes(id.0 as usize)).unwrap_or_default()
    }

    /// The id of `text`, where the trace has it.
    pub fn find(&self, text: &str) -> Option<StrId> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.bytes(middle).cmp(text.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(StrId(middle as u32)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// All of them, in the order of their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(StrId(index as u32)))
    }

    fn bytes(&self, index: usize) -> &[u8] {
        let begin = match index {
            0 => 0,
            _ => self.ends.get(index - 1).copied().unwrap_or(0) as usize,
        };
        let end = self.ends.get(index).copied().unwrap_or(0) as usize;
        self.text.get(begin..end).unwrap_or_default()
    }

    /// Makes a dictionary of sorted, distinct strings of which the first is empty.
    pub(super) fn from_sorted<'a>(sorted: impl Iterator<Item = &'a str>) -> Self {
        let mut ends = Vec::new();
        let mut text = Vec::new();
        for string in sorted {
            text.extend_from_slice(string.as_bytes());
            ends.push(text.len() as u64);
        }
        text.shrink_to_fit();
        Self {
            ends: ends.into(),
            text: text.into(),
        }
    }

    pub(super) fn columns(&self) -> Vec<ColumnBytes<'_>> {
        vec![self.ends.named("ends"), self.text.named("text")]
    }

    pub(super) fn from_columns(source: &Sections) -> Result<Self, TraceFileError> {
        let strings = Self {
            ends: source.column(Self::NAME, "ends")?,
            text: source.column(Self::NAME, "text")?,
        };
        let whole = strings.ends.first() == Some(&0)
            && strings.ends.is_sorted()
            && strings.ends.last() == Some(&(strings.text.len() as u64))
            && str::from_utf8(&strings.text).is_ok_and(|text| {
                strings
                    .ends
                    .iter()
                    .all(|&end| text.is_char_boundary(end as usize))
            });
        if whole {
            Ok(strings)
        } else {
            Err(source.broken(
                Self::NAME,
                "strings overlap, are not text, or lack the empty one",
            ))
        }
    }
}

impl Default for Strings {
    fn default() -> Self {
        Self::from_sorted(std::iter::once(""))
    }
}

/// The upper half of a hash. It is kept beside each id: it rejects nearly all false candidates without touching the
/// text, and spares rehashing when the table grows.
#[inline]
fn hash_tag(bytes: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    (hasher.finish() >> 32) as u32
}

/// The tag in both halves of a hash: the table takes its bucket from one and its filter from the other.
#[inline]
fn spread_tag(tag: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(tag)
}

/// Gives equal strings equal ids while a trace is being read. Ids are in order of first use; [`finish`](super::TraceBuilder::finish) sorts them.
#[derive(Clone)]
pub struct Interner {
    text: Vec<u8>,
    ends: Vec<usize>,
    lookup: HashTable<(u32, u32)>,
}

impl Default for Interner {
    fn default() -> Self {
        let mut interner = Self {
            text: Vec::new(),
            ends: Vec::new(),
            lookup: HashTable::new(),
        };
        interner.intern("");
        interner
    }
}

impl Interner {
    /// The id of `text`, new where it was not seen before.
    pub fn intern(&mut self, text: &str) -> StrId {
        self.intern_bytes(text.as_bytes())
    }

    /// The id of a text that was interned before. Needs no proof that the bytes are text: only text is in here.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<StrId> {
        self.find_hashed(bytes, hash_tag(bytes))
    }

    fn find_hashed(&self, bytes: &[u8], tag: u32) -> Option<StrId> {
        let candidate =
            |&(other, id): &(u32, u32)| other == tag && self.bytes(id as usize) == bytes;
        self.lookup
            .find(spread_tag(tag), candidate)
            .map(|&(_, id)| StrId(id))
    }

    /// Interns bytes that need not be text; [`get`](Self::get) gives nothing for those that are not.
    pub(super) fn intern_bytes(&mut self, bytes: &[u8]) -> StrId {
        let tag = hash_tag(bytes);
        if let Some(id) = self.find_hashed(bytes, tag) {
            return id;
        }
        let id = self.ends.len() as u32;
        self.text.extend_from_slice(bytes);
        self.ends.push(self.text.len());
        self.lookup
            .insert_unique(spread_tag(tag), (tag, id), |&(tag, _)| spread_tag(tag));
        StrId(id)
    }

    /// The string `id`; empty where there is none.
    pub fn get(&self, id: StrId) -> &str {
        str::from_utf8(self.bytes(id.0 as usize)).unwrap_or_default()
    }

    /// How many distinct strings there are, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Always false: the empty string is there.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Interns all strings of `other`; the answer maps its ids to ids here.
    pub fn absorb(&mut self, other: &Self) -> Vec<StrId> {
        (0..other.len())
            .map(|index| self.intern_bytes(other.bytes(index)))
            .collect()
    }

    pub(super) fn get_bytes(&self, id: StrId) -> &[u8] {
        self.bytes(id.0 as usize)
    }

    fn bytes(&self, index: usize) -> &[u8] {
        let Some(&end) = self.ends.get(index) else {
            return &[];
        };
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[begin..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_an_id_and_the_empty_one_is_zero() {
        let mut interner = Interner::default();
        let mm = interner.intern("aten::mm");
        assert_eq!(interner.intern("aten::mm"), mm);
        assert_ne!(interner.intern("aten::bmm"), mm);
        assert_eq!(interner.intern(""), StrId::EMPTY);
        assert_eq!(interner.get(mm), "aten::mm");
        assert_eq!(interner.get(StrId(99)), "");
    }

    #[test]
    fn absorbing_maps_ids() {
        let (mut left, mut right) = (Interner::default(), Interner::default());
        left.intern("a");
        let b = right.intern("b");
        let a = right.intern("a");
        let map = left.absorb(&right);
        assert_eq!(left.get(map[b.0 as usize]), "b");
        assert_eq!(left.get(map[a.0 as usize]), "a");
        assert_eq!(left.len(), 3);
    }

    #[test]
    fn a_sorted_dictionary_finds_by_text() {
        let strings = Strings::from_sorted(["", "aten::bmm", "aten::mm"].into_iter());
        assert_eq!(strings.find("aten::mm"), Some(StrId(2)));
        assert_eq!(strings.find(""), Some(StrId::EMPTY));
        assert_eq!(strings.find("aten::add"), None);
        assert_eq!(strings.get(StrId(1)), "aten::bmm");
    }
}
