//! What a pickle builds.

use std::borrow::Cow;
use std::cell::Cell;

use super::integer::Integer;

/// A value. What is larger than a number lies in the [`Heap`] it came from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Python's `None`, distinct from [`Option::None`].
    None,
    Bool(bool),
    /// A whole number that fits.
    Int(i64),
    /// A whole number that does not.
    Integer(u32),
    Float(f64),
    Text(u32),
    /// Python's `bytes`, by their index in the heap.
    Bytes(u32),
    List(u32),
    Tuple(u32),
    Dict(u32),
    Set(u32),
    /// A set that cannot change.
    FrozenSet(u32),
}

/// Where values lie. Text and bytes are borrowed from the pickle where they stand in it as they are.
#[derive(Debug, Default)]
pub struct Heap<'a> {
    pub(super) integers: Vec<Integer>,
    pub(super) texts: Vec<Cow<'a, str>>,
    pub(super) bytes: Vec<&'a [u8]>,
    /// Items of lists, tuples and sets, which differ in nothing that is read.
    pub(super) sequences: Vec<Vec<Value>>,
    pub(super) dicts: Vec<Vec<(Value, Value)>>,
    /// Steps that readers may still take. A pickle can name one value any number of times, so that what is read may be
    /// far more than what was written.
    pub(super) steps_left: Cell<u64>,
}

impl Heap<'_> {
    /// The text of a value; `None` where it is none. Reading and copying it are steps for each of its bytes: a text that
    /// was written once may be named by any number of values.
    pub fn text(&self, value: Value) -> Option<&str> {
        let text = self.free_text(value)?;
        self.spend(text.len()).then_some(text)
    }

    fn free_text(&self, value: Value) -> Option<&str> {
        match value {
            Value::Text(index) => self.texts.get(index as usize).map(AsRef::as_ref),
            _ => None,
        }
    }

    /// The bytes of a value.
    pub fn bytes(&self, value: Value) -> Option<&[u8]> {
        match value {
            Value::Bytes(index) => self.bytes.get(index as usize).copied(),
            _ => None,
        }
    }

    pub fn integer(&self, value: Value) -> Option<&Integer> {
        match value {
            Value::Integer(index) => self.integers.get(index as usize),
            _ => None,
        }
    }

    /// The elements of a list, a tuple or a set, in the order in which they were put in.
    pub fn items(&self, value: Value) -> Option<&[Value]> {
        match value {
            Value::List(index)
            | Value::Tuple(index)
            | Value::Set(index)
            | Value::FrozenSet(index) => self.sequences.get(index as usize).map(Vec::as_slice),
            _ => None,
        }
    }

    /// The pairs of a dictionary in the order in which they were put in. A key may come twice; its last value counts.
    pub fn pairs(&self, value: Value) -> Option<&[(Value, Value)]> {
        match value {
            Value::Dict(index) => self.dicts.get(index as usize).map(Vec::as_slice),
            _ => None,
        }
    }

    /// Takes steps of a reader; false where it has taken more than the size of the pickle allows.
    pub fn spend(&self, steps: usize) -> bool {
        let left = self.steps_left.get().saturating_sub(steps as u64);
        self.steps_left.set(left);
        left > 0
    }

    pub fn is_spent(&self) -> bool {
        self.steps_left.get() == 0
    }

    /// What a dictionary has under a name.
    pub fn get(&self, dict: Value, name: &str) -> Option<Value> {
        let pairs = self.pairs(dict)?;
        if !self.spend(pairs.len() + 1) {
            return None;
        }
        pairs
            .iter()
            .rev()
            .find(|(key, _)| self.free_text(*key) == Some(name))
            .map(|(_, value)| *value)
    }
}
