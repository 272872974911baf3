//! The syntax tree of a value with interpolations.

use crate::grammar::{Element, TextSpan};
use crate::int::Int;

/// A whole configuration value: text with interpolations in it.
///
/// A single interpolation keeps the type of what it refers to; anything else is joined to a string.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// The parts, in order; never empty.
    pub pieces: Vec<TemplatePiece>,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq)]
pub enum TemplatePiece {
    /// Text, unescaped. Two literals never follow one another.
    Literal(String),
    /// A `${…}` inside or around the text.
    Interpolation(Interpolation),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Interpolation {
    pub target: InterpolationTarget,
    /// From `$` to `}` in the source.
    pub span: TextSpan,
}

/// What an interpolation refers to.
#[derive(Debug, Clone, PartialEq)]
pub enum InterpolationTarget {
    /// `${a.b}`: another node. Joined, the pieces are the key, with its leading dots, dots and brackets; OmegaConf
    /// splits it only then, so a nested interpolation may itself contribute several levels.
    Node(Vec<TemplatePiece>),
    /// `${name:args}`: the result of a resolver.
    Resolver {
        /// The name; joined, the pieces include the dots.
        name: Vec<TemplatePiece>,
        args: Vec<Argument>,
    },
}

/// One argument of a resolver.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    pub value: Expression,
    /// Where it stands; empty for an argument left out, as in `${f:a,,b}`, which is the empty string.
    pub span: TextSpan,
}

/// A value that may need interpolations resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// `null` in any case: `Null` and `NULL` too.
    Null,
    /// `true` or `false`, in any case.
    Bool(bool),
    Int(Int),
    Float(f64),
    /// Text without quotes and without interpolations, unescaped.
    Str(String),
    /// A lone `${…}`, which keeps the type of its result.
    Interpolation(Box<Interpolation>),
    /// Unquoted text with interpolations, joined to a string.
    Text(Vec<TemplatePiece>),
    /// Quoted text, always a string; no pieces is the empty string.
    Quoted(Vec<TemplatePiece>),
    List(Vec<Expression>),
    /// `{a:1}` in order of first appearance; keys are scalars, and of equal keys the last value counts.
    Dict(Vec<(Expression, Expression)>),
}

impl Expression {
    /// Whether Python sees two dictionary keys as one: `1`, `1.0` and `true` are, two `nan` are not.
    pub(super) fn same_key(&self, other: &Self) -> bool {
        match (self.as_number(), other.as_number()) {
            (Some(a), Some(b)) => a.equals(&b),
            (None, None) => self == other,
            _ => false,
        }
    }

    fn as_number(&self) -> Option<Element> {
        match self {
            Self::Int(value) => Some(Element::Int(value.clone())),
            Self::Bool(value) => Some(Element::Bool(*value)),
            Self::Float(value) => Some(Element::Float(*value)),
            _ => None,
        }
    }
}
