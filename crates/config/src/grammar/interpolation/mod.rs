//! OmegaConf 2.3's grammar of values with interpolations.

mod ast;
mod lexer;
mod parser;

pub use ast::{Argument, Expression, Interpolation, InterpolationTarget, Template, TemplatePiece};
pub use parser::{parse_element, parse_template};

/// Whether OmegaConf would treat this string as an interpolation at all: it contains `${`, escaped or not.
pub(crate) fn is_interpolation(text: &str) -> bool {
    text.contains("${")
}
