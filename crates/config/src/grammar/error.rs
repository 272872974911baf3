//! What can be wrong with an override or an interpolation, and where.

use thiserror::Error;

/// A half-open range of bytes within the parsed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextSpan {
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl TextSpan {
    /// The span from `start` up to, not including, `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The text the span covers, or nothing if it does not fit `source`.
    pub fn slice_of(self, source: &str) -> &str {
        source.get(self.start..self.end).unwrap_or_default()
    }

    /// The smallest span that covers both.
    #[must_use]
    pub fn join_with(self, other: Self) -> Self {
        Self::new(self.start.min(other.start), self.end.max(other.end))
    }
}

/// A mistake in an override or an interpolation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GrammarError {
    /// A character that may not stand here unquoted.
    #[error("the character {found:?} is not allowed {place}; {hint}")]
    UnexpectedCharacter {
        found: char,
        /// Where we were, as in "in a key".
        place: &'static str,
        hint: &'static str,
        span: TextSpan,
    },
    /// A quoted string without its closing quote.
    #[error("this quoted string is not closed: expected another {quote}")]
    UnterminatedQuote {
        /// The quote that was opened.
        quote: char,
        /// From the opening quote to the end.
        span: TextSpan,
    },
    /// Something other than what the grammar allows here.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        expected: &'static str,
        found: String,
        span: TextSpan,
    },
    /// A positional argument after a named one.
    #[error("a positional argument cannot follow a named one")]
    PositionalAfterNamed { span: TextSpan },
    /// A call of a function that does not exist.
    #[error("there is no function `{name}`; the functions are {available}")]
    UnknownFunction {
        name: String,
        available: String,
        /// The name in the text.
        span: TextSpan,
    },
    /// A call that the function refused.
    #[error("{function}(): {reason}")]
    Call {
        function: String,
        reason: String,
        span: TextSpan,
    },
    /// An integer with more digits than Python converts.
    #[error("this integer has {digits} digits; the limit is 4300")]
    IntegerTooLong {
        /// How many digits it has.
        digits: usize,
        span: TextSpan,
    },
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        limit: usize,
        /// Where the limit was passed.
        span: TextSpan,
    },
    /// An operation that needs a value, or a sweep, of another kind.
    #[error("{reason}")]
    NotApplicable {
        /// Why it does not apply.
        reason: String,
        span: TextSpan,
    },
}

impl GrammarError {
    /// The place in the text that is wrong; empty at the end of the text when something is missing there.
    pub fn span(&self) -> TextSpan {
        match self {
            Self::UnexpectedCharacter { span, .. }
            | Self::UnterminatedQuote { span, .. }
            | Self::Unexpected { span, .. }
            | Self::PositionalAfterNamed { span }
            | Self::UnknownFunction { span, .. }
            | Self::Call { span, .. }
            | Self::IntegerTooLong { span, .. }
            | Self::TooDeep { span, .. }
            | Self::NotApplicable { span, .. } => *span,
        }
    }
}
