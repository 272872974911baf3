//! Tokens of a value with interpolations. What a character means depends on where it stands, so the lexer keeps a
//! stack of modes that `${`, `{` and quotes push and `}` and quotes pop.

use crate::grammar::token::{self, GrammarTokenKind, Lexer};
use crate::grammar::{GrammarError, TextSpan, lexeme};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LexerMode {
    /// A configuration value as a whole.
    Top,
    /// An argument, or an element on its own.
    Value,
    /// Inside `${…}`, before the arguments of a resolver.
    Interpolation,
    Quoted(u8),
}

pub(super) struct ValueLexer {
    mode: LexerMode,
    outer: Vec<LexerMode>,
}

impl Lexer for ValueLexer {
    fn next_token(&mut self, rest: &str) -> Option<(GrammarTokenKind, usize)> {
        let bytes = rest.as_bytes();
        if bytes.starts_with(b"${") {
            self.push_mode(LexerMode::Interpolation);
            return Some((GrammarTokenKind::Open, 2 + lexeme::blanks_len(&bytes[2..])));
        }
        match self.mode {
            LexerMode::Top => Some(text_token(bytes, None)),
            LexerMode::Value => self.value_token(rest),
            LexerMode::Interpolation => self.interpolation_token(bytes),
            LexerMode::Quoted(quote) if bytes[0] == quote => {
                self.pop_mode().then_some((GrammarTokenKind::QuoteClose, 1))
            }
            LexerMode::Quoted(quote) => Some(text_token(bytes, Some(quote))),
        }
    }

    fn explain_invalid(&self, source: &str, at: usize) -> GrammarError {
        let rest = &source[at..];
        let skipped = lexeme::blanks_len(rest.as_bytes());
        let character = rest[skipped..].chars().next().unwrap_or(' ');
        let (place, hint) = match (self.mode, character) {
            (LexerMode::Interpolation, '{') => (
                "in a key",
                "an interpolation can be a whole part of a key, as in `${a.${b}}`, not a piece of one",
            ),
            (LexerMode::Interpolation, _) => (
                "here in an interpolation",
                "expected a key such as `a.b`, a resolver such as `oc.env:HOME`, or `}`",
            ),
            (_, '}') => ("here", "nothing was opened that it could close"),
            _ => ("in an unquoted argument", "put the argument in quotes"),
        };
        let start = at + skipped;
        GrammarError::UnexpectedCharacter {
            found: character,
            place,
            hint,
            span: TextSpan::new(start, (start + character.len_utf8()).min(source.len())),
        }
    }
}

impl ValueLexer {
    pub(super) fn new(mode: LexerMode) -> Self {
        Self {
            mode,
            outer: Vec::new(),
        }
    }

    fn value_token(&mut self, rest: &str) -> Option<(GrammarTokenKind, usize)> {
        let bytes = rest.as_bytes();
        let token = token::punctuation_lexeme(bytes);
        match (&token, bytes[0]) {
            (Some((GrammarTokenKind::BraceClose, _)), _) => {
                return self.pop_mode().then_some(token).flatten();
            }
            (Some((GrammarTokenKind::BraceOpen, _)), _) => self.push_mode(LexerMode::Value),
            (None, quote @ (b'"' | b'\'')) => {
                self.push_mode(LexerMode::Quoted(quote));
                return Some((GrammarTokenKind::QuoteOpen, 1));
            }
            _ => {}
        }
        token.or_else(|| token::plain_token(rest))
    }

    fn interpolation_token(&mut self, rest: &[u8]) -> Option<(GrammarTokenKind, usize)> {
        let before = lexeme::blanks_len(rest);
        let end = before + 1;
        match rest.get(before)? {
            b':' => {
                self.mode = LexerMode::Value;
                return Some((
                    GrammarTokenKind::Colon,
                    end + lexeme::blanks_len(&rest[end..]),
                ));
            }
            b'}' => return self.pop_mode().then_some((GrammarTokenKind::Close, end)),
            _ if before > 0 => return None,
            b'.' => return Some((GrammarTokenKind::Dot, 1)),
            b'[' => return Some((GrammarTokenKind::BracketOpen, 1)),
            b']' => return Some((GrammarTokenKind::BracketClose, 1)),
            _ => {}
        }
        match lexeme::leading_count(rest, |b| !b"\\{}()[]:. \t'\"".contains(&b)) {
            0 => None,
            length if length == lexeme::id_len(rest) => Some((GrammarTokenKind::Id, length)),
            length => Some((GrammarTokenKind::Key, length)),
        }
    }

    fn push_mode(&mut self, mode: LexerMode) {
        self.outer.push(self.mode);
        self.mode = mode;
    }

    /// Back to the mode around this one; false if there is none.
    fn pop_mode(&mut self) -> bool {
        match self.outer.pop() {
            Some(mode) => {
                self.mode = mode;
                true
            }
            None => false,
        }
    }
}

/// A token of a string: text as long as possible, short of `$`, of the closing quote, and of the backslashes before
/// either, whose number decides what they mean. `rest` does not start with `${` or the quote.
fn text_token(rest: &[u8], quote: Option<u8>) -> (GrammarTokenKind, usize) {
    let ends = |b: u8| b == b'$' || Some(b) == quote;
    let mut length = lexeme::leading_count(rest, |b| !ends(b));
    while length > 0 && rest[length - 1] == b'\\' {
        length -= 1;
    }
    if length > 0 {
        return (GrammarTokenKind::Text, length);
    }
    let backslashes = lexeme::leading_count(rest, |b| b == b'\\');
    let odd = backslashes % 2 == 1;
    let after = &rest[backslashes..];
    if odd && after.starts_with(b"${") {
        (GrammarTokenKind::EscapedOpen, backslashes + 2)
    } else if odd && quote.is_some() && after.first().copied() == quote {
        (GrammarTokenKind::Escape, backslashes + 1)
    } else if backslashes == 0 {
        // A `$` that opens nothing.
        (GrammarTokenKind::Text, 1)
    } else if odd {
        (GrammarTokenKind::Text, backslashes)
    } else {
        (GrammarTokenKind::Backslashes, backslashes)
    }
}
