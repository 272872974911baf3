//! One column: values of one type, in memory or inside a mapped file.

use std::{fmt, mem, ops::Deref, sync::Arc};

use bytemuck::Pod;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use super::ids::{InputsId, StrId, ThreadId};
use crate::mapped::Mapped;

/// How many entries the dictionaries of a trace have: what an id in a column must stay below.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub(crate) strings: usize,
    pub(crate) inputs: usize,
    pub(crate) threads: usize,
    pub(crate) frames: usize,
}

/// Rows that one task puts in order: some microseconds of work, far more than starting a task takes.
const MIN_ROWS_PER_TASK: usize = 1 << 13;

/// A type that a column can hold: plain bytes of a fixed layout, so that a file can be used where it lies.
pub trait Element: Pod + PartialEq + fmt::Debug + Send + Sync {
    /// The name of the type in a trace file, with its width: `i64`, `string:u32`.
    const TYPE: &'static str;

    /// Whether a value is an id that its dictionary does not have.
    #[doc(hidden)]
    fn dangling(_values: &[Self], _bounds: Bounds) -> bool
    where
        Self: Sized,
    {
        false
    }
}

macro_rules! plain {
    ($($name:ident),*) => { $(impl Element for $name { const TYPE: &'static str = stringify!($name); })* };
}
plain!(u8, u16, u32, u64, i32, i64, f32);

impl Element for [u32; 3] {
    const TYPE: &'static str = "[u32;3]";
}

impl Element for StrId {
    const TYPE: &'static str = "string:u32";

    fn dangling(values: &[Self], bounds: Bounds) -> bool {
        values.iter().any(|id| id.0 as usize >= bounds.strings)
    }
}

impl Element for InputsId {
    const TYPE: &'static str = "inputs:u32";

    fn dangling(values: &[Self], bounds: Bounds) -> bool {
        values.iter().any(|id| id.0 as usize >= bounds.inputs)
    }
}

impl Element for ThreadId {
    const TYPE: &'static str = "thread:u32";

    fn dangling(values: &[Self], bounds: Bounds) -> bool {
        values.iter().any(|id| id.0 as usize >= bounds.threads)
    }
}

/// A column without its type: a name, what the type is called, and the bytes.
#[derive(Clone, Copy)]
pub(crate) struct ColumnBytes<'a> {
    pub(crate) name: &'static str,
    pub(crate) element: &'static str,
    pub(crate) bytes: &'a [u8],
}

/// The values of one field of a table. Reads like a slice; take `&column[..]` once before a hot loop.
pub struct Column<T: Element>(Storage<T>);

enum Storage<T> {
    Owned(Vec<T>),
    Mapped {
        file: Arc<Mapped>,
        start: usize,
        end: usize,
    },
}

impl<T: Element> Column<T> {
    /// A view of the bytes `start..end` of a mapped file, or nothing where they are outside of it, misaligned or
    /// not a whole number of values.
    pub(crate) fn mapped(file: &Arc<Mapped>, start: usize, end: usize) -> Option<Self> {
        let bytes = file.get(start..end)?;
        bytemuck::try_cast_slice::<u8, T>(bytes).ok()?;
        Some(Self(Storage::Mapped {
            file: Arc::clone(file),
            start,
            end,
        }))
    }

    /// The values as a vector that can be changed; a mapped column is copied first.
    pub fn make_mut(&mut self) -> &mut Vec<T> {
        if let Storage::Mapped { .. } = self.0 {
            self.0 = Storage::Owned(self.to_vec());
        }
        match &mut self.0 {
            Storage::Owned(values) => values,
            Storage::Mapped { .. } => unreachable!("copied just above"),
        }
    }

    /// Adds a value at the end.
    pub fn push(&mut self, value: T) {
        self.make_mut().push(value);
    }

    /// Moves the values of `other` to the end and frees them there.
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            *self = mem::take(other);
        } else {
            self.make_mut().extend_from_slice(other);
            *other = Self::default();
        }
    }

    /// Puts the values in the order in which `order` lists their rows.
    pub(crate) fn permute(&mut self, order: &[u32]) {
        let values = &self[..];
        let order = order.par_iter().with_min_len(MIN_ROWS_PER_TASK);
        *self = Self(Storage::Owned(
            order.map(|&row| values[row as usize]).collect(),
        ));
    }

    /// The column as it lies in a file.
    pub(crate) fn named(&self, name: &'static str) -> ColumnBytes<'_> {
        ColumnBytes {
            name,
            element: T::TYPE,
            bytes: self.bytes(),
        }
    }

    /// The values as they lie in a file.
    pub(crate) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
}

impl<T: Element> Deref for Column<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::Owned(values) => values,
            Storage::Mapped { file, start, end } => bytemuck::cast_slice(&file[*start..*end]),
        }
    }
}

impl<T: Element> Default for Column<T> {
    fn default() -> Self {
        Self(Storage::Owned(Vec::new()))
    }
}

impl<T: Element> Clone for Column<T> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Storage::Owned(values) => Storage::Owned(values.clone()),
            Storage::Mapped { file, start, end } => Storage::Mapped {
                file: Arc::clone(file),
                start: *start,
                end: *end,
            },
        })
    }
}

/// Equal bit by bit: a NaN, which stands for "not given", equals itself here.
impl<T: Element> PartialEq for Column<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl<T: Element> fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

impl<T: Element> From<Vec<T>> for Column<T> {
    fn from(values: Vec<T>) -> Self {
        Self(Storage::Owned(values))
    }
}

impl<T: Element> FromIterator<T> for Column<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::from(values.into_iter().collect::<Vec<_>>())
    }
}
