//! Tokens of an override: a key up to the first `=`, then a value.

use crate::grammar::lexeme::{self, Plain};
use crate::grammar::{GrammarError, Span};

/// What a token is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Equal,
    Tilde,
    Plus,
    At,
    Colon,
    Slash,
    /// A word; in a key, one without `$`.
    Id,
    /// In a key: a word with `$` in it.
    Special,
    /// In a key: at least two parts with dots between.
    DotPath,
    ParenOpen,
    ParenClose,
    Comma,
    BracketOpen,
    BracketClose,
    BraceOpen,
    BraceClose,
    /// Part of an unquoted value, other than a word.
    Plain(Plain),
    Quoted,
    Interpolation,
    /// The rest of the input cannot be read.
    Invalid(GrammarError),
    End,
}

/// A token and where it stands; blanks next to punctuation belong to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Span,
}

/// All tokens, with [`Kind::End`] or [`Kind::Invalid`] last.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut in_value = false;
    while at < source.len() {
        let lexed = if in_value {
            value_token(&source[at..])
        } else {
            key_token(&source[at..])
        };
        let (kind, length) = lexed.unwrap_or_else(|| invalid(source, at, in_value));
        in_value |= kind == Kind::Equal;
        let stop = matches!(kind, Kind::Invalid(_));
        tokens.push(Token {
            kind,
            span: Span::new(at, at + length),
        });
        if stop {
            return tokens;
        }
        at += length;
    }
    tokens.push(Token {
        kind: Kind::End,
        span: Span::new(at, at),
    });
    tokens
}

fn invalid(source: &str, at: usize, in_value: bool) -> (Kind, usize) {
    let rest = &source[at..];
    let found = rest.chars().next().unwrap_or_default();
    let span = Span::new(at, at + found.len_utf8());
    let error = match found {
        quote @ ('"' | '\'') if in_value => GrammarError::UnterminatedQuote {
            quote,
            span: Span::new(at, source.len()),
        },
        _ if in_value => GrammarError::UnexpectedCharacter {
            found,
            place: "in an unquoted value",
            hint: "put the value in quotes",
            span,
        },
        _ => GrammarError::UnexpectedCharacter {
            found,
            place: "here in a key",
            hint: "a key is words of letters, digits, `_`, `-` and `$` with `.` between, or a group with `/`",
            span,
        },
    };
    (Kind::Invalid(error), rest.len())
}

fn key_token(rest: &str) -> Option<(Kind, usize)> {
    let bytes = rest.as_bytes();
    let kind = match bytes.first()? {
        b'=' => return Some((Kind::Equal, 1 + lexeme::blanks(&bytes[1..]))),
        b'~' => Kind::Tilde,
        b'+' => Kind::Plus,
        b'@' => Kind::At,
        b':' => Kind::Colon,
        b'/' => Kind::Slash,
        _ => return key_word(bytes),
    };
    Some((kind, 1))
}

fn key_word(rest: &[u8]) -> Option<(Kind, usize)> {
    let special = |rest: &[u8]| match rest.first() {
        Some(b) if b.is_ascii_alphabetic() || matches!(b, b'_' | b'$') => {
            lexeme::count(rest, |b| {
                b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$')
            })
        }
        _ => 0,
    };
    let part = |rest: &[u8]| special(rest).max(lexeme::unsigned(rest));
    let first = part(rest);
    let mut end = first;
    while end > 0 && rest.get(end) == Some(&b'.') {
        match part(&rest[end + 1..]) {
            0 => break,
            length => end += 1 + length,
        }
    }
    if end > first {
        Some((Kind::DotPath, end))
    } else if first == 0 || special(rest) == 0 {
        None
    } else if lexeme::id(rest) == first {
        Some((Kind::Id, first))
    } else {
        Some((Kind::Special, first))
    }
}

fn value_token(rest: &str) -> Option<(Kind, usize)> {
    let bytes = rest.as_bytes();
    if let Some(token) = punctuation(bytes) {
        return Some(token);
    }
    match bytes.first()? {
        b'"' | b'\'' => quoted(bytes).map(|length| (Kind::Quoted, length)),
        b'$' if interpolation(bytes) > 0 => Some((Kind::Interpolation, interpolation(bytes))),
        _ => lexeme::plain(rest).map(|(kind, length)| match kind {
            Plain::Id => (Kind::Id, length),
            kind => (Kind::Plain(kind), length),
        }),
    }
}

/// Punctuation takes the blanks around it, save those before an opening bracket or brace.
fn punctuation(rest: &[u8]) -> Option<(Kind, usize)> {
    let before = lexeme::blanks(rest);
    let (kind, takes_after) = match rest.get(before)? {
        b'(' => (Kind::ParenOpen, true),
        b')' => (Kind::ParenClose, false),
        b',' => (Kind::Comma, true),
        b':' => (Kind::Colon, true),
        b'=' => (Kind::Equal, true),
        b']' => (Kind::BracketClose, false),
        b'}' => (Kind::BraceClose, false),
        b'[' if before == 0 => (Kind::BracketOpen, true),
        b'{' if before == 0 => (Kind::BraceOpen, true),
        _ => return None,
    };
    let end = before + 1;
    let after = if takes_after {
        lexeme::blanks(&rest[end..])
    } else {
        0
    };
    Some((kind, end + after))
}

/// Up to the first quote of the same kind that an even number of backslashes precedes.
fn quoted(rest: &[u8]) -> Option<usize> {
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
fn interpolation(rest: &[u8]) -> usize {
    if !rest.starts_with(b"${") {
        return 0;
    }
    match lexeme::count(&rest[2..], |b| b != b'}') {
        0 => 0,
        inside if rest.len() > 2 + inside => inside + 3,
        _ => 0,
    }
}
