//! Tokens of an override: a key up to the first `=`, then a value.

use crate::grammar::token::{self, GrammarTokenKind, Lexer};
use crate::grammar::{GrammarError, TextSpan, lexeme};

/// In the key, or behind its `=`.
#[derive(Default)]
pub(super) struct OverrideLexer {
    in_value: bool,
}

impl Lexer for OverrideLexer {
    fn next_token(&mut self, rest: &str) -> Option<(GrammarTokenKind, usize)> {
        if self.in_value {
            return value_token(rest);
        }
        let token = key_token(rest);
        self.in_value = matches!(token, Some((GrammarTokenKind::Equal, _)));
        token
    }

    fn explain_invalid(&self, source: &str, at: usize) -> GrammarError {
        let character = source[at..].chars().next().unwrap_or_default();
        let span = TextSpan::new(at, at + character.len_utf8());
        match character {
            quote @ ('"' | '\'') if self.in_value => GrammarError::UnterminatedQuote {
                quote,
                span: TextSpan::new(at, source.len()),
            },
            _ if self.in_value => GrammarError::UnexpectedCharacter {
                found: character,
                place: "in an unquoted value",
                hint: "put the value in quotes",
                span,
            },
            _ => GrammarError::UnexpectedCharacter {
                found: character,
                place: "here in a key",
                hint: "a key is words of letters, digits, `_`, `-` and `$` with `.` between, or a group with `/`",
                span,
            },
        }
    }
}

fn key_token(rest: &str) -> Option<(GrammarTokenKind, usize)> {
    let bytes = rest.as_bytes();
    let kind = match bytes.first()? {
        b'=' => return Some((GrammarTokenKind::Equal, 1 + lexeme::blanks_len(&bytes[1..]))),
        b'~' => GrammarTokenKind::Tilde,
        b'+' => GrammarTokenKind::Plus,
        b'@' => GrammarTokenKind::At,
        b':' => GrammarTokenKind::Colon,
        b'/' => GrammarTokenKind::Slash,
        _ => return key_word(bytes),
    };
    Some((kind, 1))
}

fn key_word(rest: &[u8]) -> Option<(GrammarTokenKind, usize)> {
    let special = |rest: &[u8]| match rest.first() {
        Some(b) if b.is_ascii_alphabetic() || matches!(b, b'_' | b'$') => {
            lexeme::leading_count(rest, |b| {
                b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$')
            })
        }
        _ => 0,
    };
    let part = |rest: &[u8]| special(rest).max(lexeme::unsigned_len(rest));
    let first = part(rest);
    let mut end = first;
    while end > 0 && rest.get(end) == Some(&b'.') {
        match part(&rest[end + 1..]) {
            0 => break,
            length => end += 1 + length,
        }
    }
    if end > first {
        Some((GrammarTokenKind::DotPath, end))
    } else if first == 0 || special(rest) == 0 {
        None
    } else if lexeme::id_len(rest) == first {
        Some((GrammarTokenKind::Id, first))
    } else {
        Some((GrammarTokenKind::Special, first))
    }
}

fn value_token(rest: &str) -> Option<(GrammarTokenKind, usize)> {
    let bytes = rest.as_bytes();
    if let Some(token) = punctuation_token(bytes).or_else(|| token::punctuation_lexeme(bytes)) {
        return Some(token);
    }
    match bytes.first()? {
        b'"' | b'\'' => quoted_len(bytes).map(|length| (GrammarTokenKind::Quoted, length)),
        b'$' if interpolation_len(bytes) > 0 => {
            Some((GrammarTokenKind::Interpolation, interpolation_len(bytes)))
        }
        _ => token::plain_token(rest),
    }
}

/// The punctuation of calls, with the blanks around it.
fn punctuation_token(rest: &[u8]) -> Option<(GrammarTokenKind, usize)> {
    let before = lexeme::blanks_len(rest);
    let end = before + 1;
    let with_blanks = |kind| Some((kind, end + lexeme::blanks_len(&rest[end..])));
    match rest.get(before)? {
        b'(' => with_blanks(GrammarTokenKind::ParenOpen),
        b')' => Some((GrammarTokenKind::ParenClose, end)),
        b'=' => with_blanks(GrammarTokenKind::Equal),
        _ => None,
    }
}

/// Up to the first quote of the same kind that an even number of backslashes precedes.
fn quoted_len(rest: &[u8]) -> Option<usize> {
    let quote = *rest.first()?;
    let mut escaped = false;
    for (at, &b) in rest.iter().enumerate().skip(1) {
        if b == quote && !escaped {
            return Some(at + 1);
        }
        escaped = b == b'\\' && !escaped;
    }
    None
}

/// `${` up to the first `}`, with something in between: this grammar does not nest interpolations.
fn interpolation_len(rest: &[u8]) -> usize {
    if !rest.starts_with(b"${") {
        return 0;
    }
    match lexeme::leading_count(&rest[2..], |b| b != b'}') {
        0 => 0,
        inside if rest.len() > 2 + inside => inside + 3,
        _ => 0,
    }
}
