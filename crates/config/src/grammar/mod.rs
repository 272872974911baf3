//! The two little languages of a Hydra command line and of OmegaConf values.
//!
//! * [`overrides`]: one command-line override, `+db.port=choice(1,2)`.
//! * [`interpolation`]: a configuration value that holds `${…}`.
//!
//! Both are pure functions from text to a syntax tree. What hydra-core 1.3 and
//! OmegaConf 2.3 accept is accepted with the same meaning; errors carry the byte [`TextSpan`] of the offending text.

mod error;
pub mod interpolation;
mod lexeme;
mod number;
pub mod overrides;
mod token;

pub use error::{GrammarError, TextSpan};
pub use interpolation::{
    Argument, Expression, Interpolation, InterpolationTarget, Template, TemplatePiece,
};
pub use overrides::{
    ChoiceSweep, Element, Glob, IntervalSweep, Number, Override, OverrideKind, Quote, QuotedString,
    RangeSweep, Sweep,
};

/// How deep lists, dictionaries, calls and interpolations may nest before the input is refused.
///
/// Python's recursion limit stops Hydra at about this depth too; ours protects the stack.
pub const MAX_DEPTH: usize = 256;
