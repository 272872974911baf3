//! Recursive descent over the tokens of a value with interpolations.

use super::ast::{Argument, Expression, Interpolation, Piece, Target, Template};
use super::lexer::{self, Kind, Mode, Token};
use crate::grammar::lexeme::{self, Plain};
use crate::grammar::{GrammarError, MAX_DEPTH, Span, number};

/// Parses a configuration value: text with `${…}` in it.
pub fn parse(source: &str) -> Result<Template, GrammarError> {
    let mut parser = Parser::new(source, Mode::Top);
    let pieces = parser.text()?;
    if pieces.is_empty() {
        return Err(parser.unexpected("some text"));
    }
    parser.end("text or `${`")?;
    Ok(Template { pieces })
}

/// Parses a single element on its own, such as `oc.decode` reads: `[1,${x}]`, `null`, `"text"`.
pub fn parse_element(source: &str) -> Result<Expression, GrammarError> {
    let mut parser = Parser::new(source, Mode::Value);
    let element = parser.element()?;
    parser.end("the end of the value")?;
    Ok(element)
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str, mode: Mode) -> Self {
        Self {
            source,
            tokens: lexer::tokens(source, mode),
            at: 0,
            depth: 0,
        }
    }

    fn end(&self, expected: &'static str) -> Result<(), GrammarError> {
        match self.kind() {
            Kind::End => Ok(()),
            _ => Err(self.unexpected(expected)),
        }
    }

    /// Text and interpolations up to something else: the end, or a closing quote.
    fn text(&mut self) -> Result<Vec<Piece>, GrammarError> {
        let mut pieces = Pieces::default();
        loop {
            match self.kind() {
                Kind::Text => pieces.push(self.slice()),
                Kind::EscapedOpen => {
                    // `\\\${` is an escaped backslash and an escaped opening.
                    let text = self.slice();
                    pieces.push(&text[text.len() - (text.len() / 2 + 1)..]);
                }
                Kind::Escape => pieces.push(&lexeme::unescape_pairs(self.slice())),
                Kind::Backslashes => {
                    let text = self.slice();
                    let counts = matches!(self.next_kind(), Some(Kind::Open | Kind::QuoteClose));
                    pieces.push(if counts {
                        &text[text.len() / 2..]
                    } else {
                        text
                    });
                }
                Kind::Open => {
                    pieces.0.push(Piece::Interpolation(self.interpolation()?));
                    continue;
                }
                _ => return Ok(pieces.0),
            }
            self.at += 1;
        }
    }

    fn interpolation(&mut self) -> Result<Interpolation, GrammarError> {
        self.nested(Self::interpolation_inside)
    }

    fn interpolation_inside(&mut self) -> Result<Interpolation, GrammarError> {
        let start = self.span();
        self.at += 1;
        let mut key = Pieces::default();
        // A resolver's name has only identifiers and interpolations, with single dots between.
        let mut may_be_name = !matches!(self.kind(), Kind::Dot | Kind::BracketOpen);
        while self.take(&Kind::Dot) {
            key.push(".");
        }
        may_be_name &= self.key_part(&mut key)?;
        loop {
            match self.kind() {
                Kind::Dot => {
                    self.at += 1;
                    key.push(".");
                    may_be_name &= self.config_key(&mut key)?;
                }
                Kind::BracketOpen => {
                    may_be_name = false;
                    self.key_part(&mut key)?;
                }
                Kind::Close => {
                    let span = start.to(self.span());
                    self.at += 1;
                    let target = Target::Node(key.0);
                    return Ok(Interpolation { target, span });
                }
                Kind::Colon if may_be_name => {
                    self.at += 1;
                    let args = self.arguments()?;
                    let span = start.to(self.span());
                    self.expect(&Kind::BraceClose, "`,` or `}` after an argument")?;
                    let target = Target::Resolver { name: key.0, args };
                    return Ok(Interpolation { target, span });
                }
                Kind::Colon => {
                    return Err(self.unexpected(
                        "`}` (what stands before this `:` is not the name of a resolver)",
                    ));
                }
                _ => return Err(self.unexpected("`.`, `[`, `:` or `}` in this interpolation")),
            }
        }
    }

    /// `key` or `[key]`; whether it could be part of a resolver's name.
    fn key_part(&mut self, key: &mut Pieces) -> Result<bool, GrammarError> {
        if !self.take(&Kind::BracketOpen) {
            return self.config_key(key);
        }
        key.push("[");
        self.config_key(key)?;
        self.expect(&Kind::BracketClose, "`]` after the key")?;
        key.push("]");
        Ok(false)
    }

    fn config_key(&mut self, key: &mut Pieces) -> Result<bool, GrammarError> {
        let is_name = match self.kind() {
            Kind::Open => {
                key.0.push(Piece::Interpolation(self.interpolation()?));
                return Ok(true);
            }
            Kind::Id => true,
            Kind::Key => false,
            _ => return Err(self.unexpected("a key or `${`")),
        };
        key.push(self.slice());
        self.at += 1;
        Ok(is_name)
    }

    /// Arguments up to the closing brace or bracket. One left out is the empty string, but none at all is none.
    fn arguments(&mut self) -> Result<Vec<Argument>, GrammarError> {
        let mut arguments = Vec::new();
        if matches!(self.kind(), Kind::BraceClose | Kind::BracketClose) {
            return Ok(arguments);
        }
        loop {
            let start = self.span();
            let missing = matches!(
                self.kind(),
                Kind::Comma | Kind::BraceClose | Kind::BracketClose
            );
            arguments.push(if missing {
                Argument {
                    value: Expression::Str(String::new()),
                    span: Span::new(start.start, start.start),
                }
            } else {
                Argument {
                    value: self.element()?,
                    span: start.to(self.tokens[self.at - 1].span),
                }
            });
            if !self.take(&Kind::Comma) {
                return Ok(arguments);
            }
        }
    }

    fn element(&mut self) -> Result<Expression, GrammarError> {
        match self.kind() {
            Kind::BracketOpen => self.nested(Self::list),
            Kind::BraceOpen => self.nested(Self::dict),
            Kind::QuoteOpen => self.quoted(),
            _ => self.primitive(),
        }
    }

    fn list(&mut self) -> Result<Expression, GrammarError> {
        self.at += 1;
        let items = self.arguments()?;
        self.expect(&Kind::BracketClose, "`,` or `]` in this list")?;
        Ok(Expression::List(
            items.into_iter().map(|item| item.value).collect(),
        ))
    }

    fn dict(&mut self) -> Result<Expression, GrammarError> {
        self.at += 1;
        let mut pairs: Vec<(Expression, Expression)> = Vec::new();
        if self.take(&Kind::BraceClose) {
            return Ok(Expression::Dict(pairs));
        }
        loop {
            let key = self.dict_key()?;
            self.expect(&Kind::Colon, "`:` after the key of a dictionary")?;
            let value = self.element()?;
            match pairs.iter_mut().find(|(known, _)| known.same_key(&key)) {
                Some((_, slot)) => *slot = value,
                None => pairs.push((key, value)),
            }
            if self.take(&Kind::BraceClose) {
                return Ok(Expression::Dict(pairs));
            }
            self.expect(&Kind::Comma, "`,` or `}` in this dictionary")?;
        }
    }

    fn quoted(&mut self) -> Result<Expression, GrammarError> {
        let open = self.span();
        self.at += 1;
        let pieces = self.text()?;
        if *self.kind() == Kind::End {
            return Err(GrammarError::UnterminatedQuote {
                quote: if open.of(self.source) == "'" {
                    '\''
                } else {
                    '"'
                },
                span: Span::new(open.start, self.source.len()),
            });
        }
        self.expect(&Kind::QuoteClose, "text or a closing quote")?;
        Ok(Expression::Quoted(pieces))
    }

    fn dict_key(&mut self) -> Result<Expression, GrammarError> {
        let start = self.at;
        while matches!(self.kind(), Kind::Id | Kind::Escape | Kind::Plain(_)) {
            self.at += 1;
        }
        match self.at - start {
            0 => Err(self.unexpected("an unquoted key of this dictionary")),
            1 => self.scalar(start),
            _ => {
                let mut pieces = Pieces::default();
                for at in start..self.at {
                    pieces.push(&self.unescaped(at));
                }
                Ok(pieces.into_expression())
            }
        }
    }

    /// Unquoted tokens: a single one keeps its type, several are joined.
    fn primitive(&mut self) -> Result<Expression, GrammarError> {
        let start = self.at;
        let mut count = 0;
        let mut pieces = Pieces::default();
        loop {
            match self.kind() {
                Kind::Open => pieces.0.push(Piece::Interpolation(self.interpolation()?)),
                Kind::Id | Kind::Escape | Kind::Colon | Kind::Plain(_) => {
                    pieces.push(&self.unescaped(self.at));
                    self.at += 1;
                }
                _ => break,
            }
            count += 1;
        }
        match count {
            0 => Err(self.unexpected("a value")),
            1 => match pieces.0.pop() {
                Some(Piece::Interpolation(inner)) => Ok(Expression::Interpolation(Box::new(inner))),
                _ => self.scalar(start),
            },
            _ => Ok(pieces.into_expression()),
        }
    }

    /// The value of one token.
    fn scalar(&self, at: usize) -> Result<Expression, GrammarError> {
        let Token { kind, span } = &self.tokens[at];
        let text = span.of(self.source);
        let Kind::Plain(kind) = kind else {
            return Ok(Expression::Str(self.unescaped(at)));
        };
        Ok(match kind {
            Plain::Null => Expression::Null,
            Plain::Bool => Expression::Bool(text.eq_ignore_ascii_case("true")),
            Plain::Int => Expression::Int(number::int_from_text(text).ok_or(
                GrammarError::IntegerTooLong {
                    digits: text.bytes().filter(u8::is_ascii_digit).count(),
                    span: *span,
                },
            )?),
            Plain::Float => Expression::Float(
                number::float_from_text(text).expect("the lexer accepts only what Python reads"),
            ),
            Plain::Blank => {
                return Err(GrammarError::Unexpected {
                    expected: "a value",
                    found: "only blanks".to_owned(),
                    span: *span,
                });
            }
            Plain::Symbol | Plain::Id | Plain::Escape => Expression::Str(text.to_owned()),
        })
    }

    fn unescaped(&self, at: usize) -> String {
        let token = &self.tokens[at];
        let text = token.span.of(self.source);
        if token.kind == Kind::Escape {
            lexeme::unescape_pairs(text)
        } else {
            text.to_owned()
        }
    }

    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, GrammarError>,
    ) -> Result<T, GrammarError> {
        if self.depth >= MAX_DEPTH {
            return Err(GrammarError::TooDeep {
                limit: MAX_DEPTH,
                span: self.span(),
            });
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn token(&self) -> &Token {
        // The last token ends the input and is never consumed.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn kind(&self) -> &Kind {
        &self.token().kind
    }

    fn next_kind(&self) -> Option<&Kind> {
        self.tokens.get(self.at + 1).map(|token| &token.kind)
    }

    fn span(&self) -> Span {
        self.token().span
    }

    fn slice(&self) -> &'a str {
        self.span().of(self.source)
    }

    fn take(&mut self, kind: &Kind) -> bool {
        let found = self.kind() == kind;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, kind: &Kind, expected: &'static str) -> Result<(), GrammarError> {
        if self.take(kind) {
            Ok(())
        } else {
            Err(self.unexpected(expected))
        }
    }

    fn unexpected(&self, expected: &'static str) -> GrammarError {
        match self.kind() {
            Kind::Invalid(error) => error.clone(),
            Kind::End => GrammarError::Unexpected {
                expected,
                found: "the end of the value".to_owned(),
                span: self.span(),
            },
            _ => GrammarError::Unexpected {
                expected,
                found: format!("`{}`", self.slice().trim()),
                span: self.span(),
            },
        }
    }
}

/// Pieces in the making, with adjacent text joined.
#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn push(&mut self, text: &str) {
        if let Some(Piece::Literal(last)) = self.0.last_mut() {
            last.push_str(text);
        } else {
            self.0.push(Piece::Literal(text.to_owned()));
        }
    }

    fn into_expression(mut self) -> Expression {
        match self.0.as_mut_slice() {
            [Piece::Literal(text)] => Expression::Str(std::mem::take(text)),
            _ => Expression::Text(self.0),
        }
    }
}
