//! The tokens of both grammars, and a cursor over them.
//!
//! The grammars differ in what stands around values: keys and calls in an override, quotes that interpolate and nested `${…}` in
//! a configuration value. What a value itself is made of is lexed here for both.

use std::borrow::Cow;

use super::lexeme::{self, Plain};
use super::{GrammarError, MAX_DEPTH, TextSpan};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum GrammarTokenKind {
    // In both grammars.
    Colon,
    Comma,
    BracketOpen,
    BracketClose,
    BraceOpen,
    /// `}` that ends a dictionary or a resolver call.
    BraceClose,
    /// A word; in the key of an override, one without `$`.
    Id,
    /// Escapes that are always undone, unlike [`Backslashes`](Self::Backslashes).
    Escape,
    /// Part of an unquoted value, other than a word or an escape.
    Plain(Plain),
    /// The rest of the input cannot be read.
    Invalid(GrammarError),
    End,

    // In an override.
    Equal,
    Tilde,
    Plus,
    At,
    Slash,
    /// In a key: a word with `$` in it.
    Special,
    /// In a key: at least two parts with dots between.
    DotPath,
    ParenOpen,
    ParenClose,
    Quoted,
    Interpolation,

    // In a configuration value.
    /// Text of a string, taken as it is.
    Text,
    /// `\${` with the backslashes before it: a `${` that is text.
    EscapedOpen,
    /// An even number of backslashes: escapes if an interpolation (in quotes, also the end) follows, else text.
    Backslashes,
    Open,
    /// `}` that ends a node interpolation.
    Close,
    Dot,
    /// In a node interpolation: a key that is not an identifier.
    Key,
    QuoteOpen,
    QuoteClose,
}

/// A token and where it stands; blanks next to punctuation belong to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GrammarToken {
    pub(super) kind: GrammarTokenKind,
    pub(super) span: TextSpan,
}

/// What distinguishes the tokens of one grammar.
pub(super) trait Lexer {
    /// The token at the start of `rest`, which is not empty, and its length.
    fn next_token(&mut self, rest: &str) -> Option<(GrammarTokenKind, usize)>;

    /// The error for the character at `at`, where no token begins.
    fn explain_invalid(&self, source: &str, at: usize) -> GrammarError;
}

/// All tokens, with [`GrammarTokenKind::End`] or [`GrammarTokenKind::Invalid`] last.
fn scan_tokens(source: &str, mut lexer: impl Lexer) -> Vec<GrammarToken> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < source.len() {
        let Some((kind, length)) = lexer.next_token(&source[at..]) else {
            tokens.push(GrammarToken {
                kind: GrammarTokenKind::Invalid(lexer.explain_invalid(source, at)),
                span: TextSpan::new(at, source.len()),
            });
            return tokens;
        };
        tokens.push(GrammarToken {
            kind,
            span: TextSpan::new(at, at + length),
        });
        at += length;
    }
    tokens.push(GrammarToken {
        kind: GrammarTokenKind::End,
        span: TextSpan::new(at, at),
    });
    tokens
}

/// The punctuation of lists and dictionaries. It takes the blanks around it, save those before an opening bracket or brace.
pub(super) fn punctuation_lexeme(rest: &[u8]) -> Option<(GrammarTokenKind, usize)> {
    let before = lexeme::blanks_len(rest);
    let end = before + 1;
    let with_blanks = |kind| Some((kind, end + lexeme::blanks_len(&rest[end..])));
    match rest.get(before)? {
        b',' => with_blanks(GrammarTokenKind::Comma),
        b':' => with_blanks(GrammarTokenKind::Colon),
        b']' => Some((GrammarTokenKind::BracketClose, end)),
        b'}' => Some((GrammarTokenKind::BraceClose, end)),
        b'[' if before == 0 => with_blanks(GrammarTokenKind::BracketOpen),
        b'{' if before == 0 => with_blanks(GrammarTokenKind::BraceOpen),
        _ => None,
    }
}

/// Part of an unquoted value.
pub(super) fn plain_token(rest: &str) -> Option<(GrammarTokenKind, usize)> {
    lexeme::plain_lexeme(rest).map(|(kind, length)| match kind {
        Plain::Id => (GrammarTokenKind::Id, length),
        Plain::Escape => (GrammarTokenKind::Escape, length),
        kind => (GrammarTokenKind::Plain(kind), length),
    })
}

/// The text that a token of a value stands for.
pub(super) fn unescaped_text<'a>(source: &'a str, token: &GrammarToken) -> Cow<'a, str> {
    let text = token.span.slice_of(source);
    if token.kind == GrammarTokenKind::Escape {
        Cow::Owned(lexeme::unescape_pairs(text))
    } else {
        Cow::Borrowed(text)
    }
}

/// A place among the tokens of one text.
pub(super) struct TokenCursor<'a> {
    source: &'a str,
    /// What the text is, for errors at its end.
    name: &'static str,
    tokens: Vec<GrammarToken>,
    at: usize,
    depth: usize,
}

impl<'a> TokenCursor<'a> {
    /// At the first token of `source`, which is a `name`.
    pub(super) fn new(source: &'a str, name: &'static str, lexer: impl Lexer) -> Self {
        Self {
            source,
            name,
            tokens: scan_tokens(source, lexer),
            at: 0,
            depth: 0,
        }
    }

    pub(super) fn source(&self) -> &'a str {
        self.source
    }

    pub(super) fn token(&self) -> &GrammarToken {
        // The last token ends the input and is never consumed.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(super) fn kind(&self) -> &GrammarTokenKind {
        &self.token().kind
    }

    pub(super) fn next_kind(&self) -> Option<&GrammarTokenKind> {
        self.tokens.get(self.at + 1).map(|token| &token.kind)
    }

    pub(super) fn span(&self) -> TextSpan {
        self.token().span
    }

    pub(super) fn text(&self) -> &'a str {
        self.span().slice_of(self.source)
    }

    /// The token before this one.
    pub(super) fn previous_token(&self) -> Option<&GrammarToken> {
        self.at.checked_sub(1).map(|at| &self.tokens[at])
    }

    /// From `start` to the end of the token before this one.
    pub(super) fn span_from(&self, start: TextSpan) -> TextSpan {
        self.previous_token()
            .map_or(start, |last| start.join_with(last.span))
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    pub(super) fn consume_if(&mut self, kind: &GrammarTokenKind) -> bool {
        let is_match = self.kind() == kind;
        self.at += usize::from(is_match);
        is_match
    }

    /// All tokens from here that `accept` takes.
    pub(super) fn take_while(
        &mut self,
        accept: impl Fn(&GrammarTokenKind) -> bool,
    ) -> &[GrammarToken] {
        let start = self.at;
        while accept(self.kind()) {
            self.at += 1;
        }
        &self.tokens[start..self.at]
    }

    pub(super) fn expect(
        &mut self,
        kind: &GrammarTokenKind,
        expected: &'static str,
    ) -> Result<(), GrammarError> {
        if self.consume_if(kind) {
            Ok(())
        } else {
            Err(self.unexpected(expected))
        }
    }

    pub(super) fn unexpected(&self, expected: &'static str) -> GrammarError {
        let actual = match self.kind() {
            GrammarTokenKind::Invalid(error) => return error.clone(),
            GrammarTokenKind::End => format!("the end of the {}", self.name),
            _ => format!("`{}`", self.text().trim()),
        };
        GrammarError::Unexpected {
            expected,
            found: actual,
            span: self.span(),
        }
    }

    /// One level deeper, until [`Self::leave_level`].
    pub(super) fn enter_level(&mut self) -> Result<(), GrammarError> {
        if self.depth >= MAX_DEPTH {
            return Err(GrammarError::TooDeep {
                limit: MAX_DEPTH,
                span: self.span(),
            });
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave_level(&mut self) {
        self.depth -= 1;
    }
}
