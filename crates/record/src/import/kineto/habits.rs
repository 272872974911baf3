//! What a program writes again and again: the text between two values, and the lists that say what an operator was called with.
//!
//! Both are read once. Where what comes next is what came next before, the bytes are compared and not read. Nothing depends on a
//! guess: the same bytes at the same place say the same.

use std::hash::{Hash, Hasher};

use hashbrown::HashMap;
use rustc_hash::{FxBuildHasher, FxHasher};

use super::cursor::Cursor;
use super::field::Field;
use crate::trace::RawInputs;

/// Words of a text between two values; a longer one is read each time.
const WORDS: usize = 6;
const TEXT_BYTES: usize = 8 * WORDS;
/// Texts that are kept; a program writes some dozens.
const TEXTS_MAX: usize = 250;
/// What came after a text, the latest first.
const GUESSES: usize = 4;

type Words = [u64; WORDS];

/// From the end of a value, or the brace that opens an object, to the next value or behind the closing brace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Text {
    words: Words,
    length: u8,
    /// Nothing of the object is before it, so that it has no comma.
    is_first: bool,
}

struct Known {
    text: Text,
    mask: Words,
    field: Field,
    after: [u8; GUESSES],
}

/// The texts between values that the writer of this file repeats.
pub(super) struct Habits {
    known: Vec<Known>,
    numbers: HashMap<Text, u8, FxBuildHasher>,
    /// The text that was read last; 0 is none of them.
    last: u8,
}

impl Default for Habits {
    fn default() -> Self {
        // Before the first text of an event.
        let none = Known {
            text: Text {
                words: [0; WORDS],
                length: 0,
                is_first: false,
            },
            mask: [0; WORDS],
            field: Field::Other,
            after: [0; GUESSES],
        };
        Self {
            known: vec![none],
            numbers: HashMap::default(),
            last: 0,
        }
    }
}

impl Habits {
    pub(super) fn begin(&mut self) {
        self.last = 0;
    }

    /// Steps over what stands before the first value of an object, the cursor being behind its brace.
    #[inline]
    pub(super) fn first(&mut self, cursor: &mut Cursor<'_>) -> Option<Field> {
        self.step(cursor, true)
    }

    /// Steps over what stands between a value and the next.
    #[inline]
    pub(super) fn next(&mut self, cursor: &mut Cursor<'_>) -> Option<Field> {
        self.step(cursor, false)
    }

    #[inline]
    fn step(&mut self, cursor: &mut Cursor<'_>, is_first: bool) -> Option<Field> {
        let ahead = cursor.bytes.get(cursor.at..)?;
        // One byte more shows that no space follows.
        if let Some(ahead) = ahead.first_chunk::<{ TEXT_BYTES + 1 }>() {
            let words = words_of(ahead);
            for number in self.known[usize::from(self.last)].after {
                if number == 0 {
                    break;
                }
                let known = &self.known[usize::from(number)];
                let length = usize::from(known.text.length);
                if known.text.is_first == is_first
                    && known.matches(&words)
                    && (known.field == Field::End || ahead[length] > b' ')
                {
                    cursor.at += length;
                    self.last = number;
                    return Some(known.field);
                }
            }
        }
        self.read(cursor, is_first)
    }

    /// Reads the text, and keeps it.
    fn read(&mut self, cursor: &mut Cursor<'_>, is_first: bool) -> Option<Field> {
        let from = cursor.at;
        cursor.skip_space();
        let field = match cursor.peek() {
            b'}' => {
                cursor.at += 1;
                Field::End
            }
            b',' if !is_first => {
                cursor.at += 1;
                Field::from_key(cursor.key()?)
            }
            _ if is_first => Field::from_key(cursor.key()?),
            _ => return None,
        };
        let number = self.number(&cursor.bytes[from..cursor.at], is_first, field);
        let after = &mut self.known[usize::from(self.last)].after;
        if number != 0 && !after.contains(&number) {
            after.rotate_right(1);
            after[0] = number;
        }
        self.last = number;
        Some(field)
    }

    /// The number of a text; 0 where it is too long, or one of too many.
    fn number(&mut self, text: &[u8], is_first: bool, field: Field) -> u8 {
        if text.len() > TEXT_BYTES {
            return 0;
        }
        let mut bytes = [0; TEXT_BYTES];
        bytes[..text.len()].copy_from_slice(text);
        let mut mask = [0; TEXT_BYTES];
        mask[..text.len()].fill(0xff);
        let text = Text {
            words: words_of(&bytes),
            length: text.len() as u8,
            is_first,
        };
        if let Some(&number) = self.numbers.get(&text) {
            return number;
        }
        if self.known.len() >= TEXTS_MAX {
            return 0;
        }
        let number = self.known.len() as u8;
        self.numbers.insert(text, number);
        self.known.push(Known {
            text,
            mask: words_of(&mask),
            field,
            after: [0; GUESSES],
        });
        number
    }
}

impl Known {
    #[inline]
    fn matches(&self, words: &Words) -> bool {
        let both = self.text.words.iter().zip(&self.mask).zip(words);
        both.fold(0, |different, ((own, mask), word)| {
            different | ((own ^ word) & mask)
        }) == 0
    }
}

#[inline]
fn words_of(bytes: &[u8]) -> Words {
    let (chunks, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|place| u64::from_le_bytes(chunks[place]))
}

/// What an operator was called with, where it was read before.
#[derive(Clone, Copy)]
struct KnownInputs<'a> {
    /// From the first value to the end of the last.
    text: &'a [u8],
    first: Field,
    /// The text before the last value, among the [`Habits`].
    last: u8,
    raw: RawInputs<'a>,
}

/// The lists of inputs of a piece. The same operators follow each other in every layer of a model: what came after a list with a name
/// is what comes after it again.
#[derive(Default)]
pub(super) struct InputHabits<'a> {
    known: Vec<KnownInputs<'a>>,
    numbers: HashMap<(Field, &'a [u8]), u32, FxBuildHasher>,
    after: HashMap<(u32, u64), u32, FxBuildHasher>,
    last: u32,
}

impl<'a> InputHabits<'a> {
    /// Steps over lists whose first value the cursor is at and which are those that came here before. The answer is their number, from 1 on.
    pub(super) fn take(
        &mut self,
        first: Field,
        name: &[u8],
        cursor: &mut Cursor<'a>,
        habits: &mut Habits,
    ) -> Option<(u32, RawInputs<'a>)> {
        let number = *self.after.get(&(self.last, short_hash(name)))?;
        let known = self.known.get(number as usize - 1)?;
        let ahead = cursor.bytes.get(cursor.at..)?;
        if known.first != first || !ahead.starts_with(known.text) {
            return None;
        }
        cursor.at += known.text.len();
        habits.last = known.last;
        self.last = number;
        Some((number, known.raw))
    }

    /// Keeps lists that were read; the answer is their number.
    pub(super) fn keep(
        &mut self,
        first: Field,
        name: &[u8],
        text: &'a [u8],
        raw: RawInputs<'a>,
        before_last: u8,
    ) -> u32 {
        let known = &mut self.known;
        let number = *self.numbers.entry((first, text)).or_insert_with(|| {
            known.push(KnownInputs {
                text,
                first,
                last: before_last,
                raw,
            });
            known.len() as u32
        });
        self.after.insert((self.last, short_hash(name)), number);
        self.last = number;
        number
    }
}

impl Habits {
    /// The text that was read last, for [`InputHabits::keep`].
    pub(super) fn last(&self) -> u8 {
        self.last
    }
}

/// Of the ends of a name and its length: names that it mixes up are told apart by what follows them.
fn short_hash(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    name.len().hash(&mut hasher);
    for end in [name.first_chunk::<8>(), name.last_chunk::<8>()] {
        end.map(|end| u64::from_le_bytes(*end)).hash(&mut hasher);
    }
    hasher.finish()
}
