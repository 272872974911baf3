//! Unquoted and quoted scalars: tokens to an [`Element`].

use super::element::{Element, Quote, QuotedString};
use crate::grammar::lexeme::Plain;
use crate::grammar::token::{GrammarToken, GrammarTokenKind, unescaped_text};
use crate::grammar::{GrammarError, number};

/// Whether a token may be part of an unquoted dictionary key; values also take colons and interpolations.
pub(super) fn in_dict_key(kind: &GrammarTokenKind) -> bool {
    matches!(
        kind,
        GrammarTokenKind::Id | GrammarTokenKind::Escape | GrammarTokenKind::Plain(_)
    )
}

/// The scalar that adjacent tokens make: a single one keeps its type, several are text.
pub(super) fn evaluate_primitive(
    source: &str,
    tokens: &[GrammarToken],
) -> Result<Element, GrammarError> {
    let is_blank = |token: &GrammarToken| token.kind == GrammarTokenKind::Plain(Plain::Blank);
    let leading = usize::from(tokens.first().is_some_and(is_blank));
    let trailing = usize::from(tokens.last().is_some_and(is_blank));
    let Some(tokens) = tokens.get(leading..tokens.len() - trailing) else {
        return Err(GrammarError::Unexpected {
            expected: "a value",
            found: "only blanks".to_owned(),
            span: tokens[0].span,
        });
    };
    if let [token] = tokens {
        return evaluate_token(source, token);
    }
    let parts = tokens.iter().map(|token| unescaped_text(source, token));
    Ok(Element::Str(parts.collect()))
}

fn evaluate_token(source: &str, token: &GrammarToken) -> Result<Element, GrammarError> {
    let GrammarTokenKind::Plain(kind) = token.kind else {
        return Ok(Element::Str(unescaped_text(source, token).into_owned()));
    };
    let text = token.span.slice_of(source);
    Ok(match kind {
        Plain::Null => Element::Null,
        Plain::Bool => Element::Bool(text.eq_ignore_ascii_case("true")),
        Plain::Int => Element::Int(number::int_of_token(text, token.span)?),
        Plain::Float => Element::Float(number::float_of_token(text)),
        Plain::Symbol | Plain::Id | Plain::Escape | Plain::Blank => Element::Str(text.to_owned()),
    })
}

/// A quoted token without its quotes. Backslashes count as escapes only before a quote, the closing one included.
pub(super) fn unquote_token(token: &str) -> QuotedString {
    let quote = if token.starts_with('"') {
        Quote::Double
    } else {
        Quote::Single
    };
    let inside = token.get(1..token.len() - 1).unwrap_or_default();
    let mut text = String::with_capacity(inside.len());
    let mut backslashes = 0;
    for c in inside.chars() {
        if c == '\\' {
            backslashes += 1;
            continue;
        }
        let kept = if c == quote.as_char() {
            backslashes / 2
        } else {
            backslashes
        };
        text.extend(std::iter::repeat_n('\\', kept));
        text.push(c);
        backslashes = 0;
    }
    text.extend(std::iter::repeat_n('\\', backslashes / 2));
    QuotedString { text, quote }
}
