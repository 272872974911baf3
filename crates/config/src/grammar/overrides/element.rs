//! The value of an override: scalars, containers and sweeps.

pub(super) mod sweep;

use self::sweep::Sweep;
use crate::int::Int;

/// A parsed element; functions are already evaluated.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// `null` in any case: `Null` and `NULL` too.
    Null,
    /// `true` or `false`, in any case.
    Bool(bool),
    Int(Int),
    /// A floating-point number, `inf` and `nan` among them.
    Float(f64),
    /// Text that had no quotes, unescaped; an interpolation is such text too.
    Str(String),
    Quoted(QuotedString),
    List(Vec<Element>),
    /// `{a:1}` in order of first appearance; keys are scalars, and of equal keys the last value counts.
    Dict(Vec<(Element, Element)>),
    /// A sweep. Hydra's parser lets one stand inside containers, where nothing can use it.
    Sweep(Sweep),
}

/// The quote around a [`QuotedString`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quote {
    Single,
    Double,
}

impl Quote {
    pub const fn as_char(self) -> char {
        match self {
            Self::Single => '\'',
            Self::Double => '"',
        }
    }
}

/// Text that was quoted, without quotes and escapes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuotedString {
    pub text: String,
    /// The quote it was written with.
    pub quote: Quote,
}
