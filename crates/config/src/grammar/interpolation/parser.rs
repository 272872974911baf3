//! Recursive descent over the tokens of a value with interpolations.

use super::ast::{
    Argument, Expression, Interpolation, InterpolationTarget, Template, TemplatePiece,
};
use super::lexer::{LexerMode, ValueLexer};
use crate::grammar::lexeme::{self, Plain};
use crate::grammar::token::{GrammarToken, GrammarTokenKind, TokenCursor, unescaped_text};
use crate::grammar::{GrammarError, TextSpan, number};

/// Parses a configuration value: text with `${…}` in it.
pub fn parse_template(source: &str) -> Result<Template, GrammarError> {
    let mut parser = InterpolationParser::new(source, LexerMode::Top);
    let pieces = parser.parse_text()?;
    if pieces.is_empty() {
        return Err(parser.tokens.unexpected("some text"));
    }
    parser.expect_end("text or `${`")?;
    Ok(Template { pieces })
}

/// Parses a single element on its own, such as `oc.decode` reads: `[1,${x}]`, `null`, `"text"`.
pub fn parse_element(source: &str) -> Result<Expression, GrammarError> {
    let mut parser = InterpolationParser::new(source, LexerMode::Value);
    let element = parser.parse_element()?;
    parser.expect_end("the end of the value")?;
    Ok(element)
}

struct InterpolationParser<'a> {
    tokens: TokenCursor<'a>,
}

impl<'a> InterpolationParser<'a> {
    fn new(source: &'a str, mode: LexerMode) -> Self {
        Self {
            tokens: TokenCursor::new(source, "value", ValueLexer::new(mode)),
        }
    }

    fn expect_end(&self, expected: &'static str) -> Result<(), GrammarError> {
        match self.tokens.kind() {
            GrammarTokenKind::End => Ok(()),
            _ => Err(self.tokens.unexpected(expected)),
        }
    }

    /// Text and interpolations up to something else: the end, or a closing quote.
    fn parse_text(&mut self) -> Result<Vec<TemplatePiece>, GrammarError> {
        let mut pieces = Pieces::default();
        loop {
            match self.tokens.kind() {
                GrammarTokenKind::Text => pieces.push_text(self.tokens.text()),
                GrammarTokenKind::EscapedOpen => {
                    // `\\\${` is an escaped backslash and an escaped opening.
                    let text = self.tokens.text();
                    pieces.push_text(&text[text.len() - (text.len() / 2 + 1)..]);
                }
                GrammarTokenKind::Escape => {
                    pieces.push_text(&lexeme::unescape_pairs(self.tokens.text()));
                }
                GrammarTokenKind::Backslashes => {
                    let text = self.tokens.text();
                    let counts = matches!(
                        self.tokens.next_kind(),
                        Some(GrammarTokenKind::Open | GrammarTokenKind::QuoteClose)
                    );
                    pieces.push_text(if counts {
                        &text[text.len() / 2..]
                    } else {
                        text
                    });
                }
                GrammarTokenKind::Open => {
                    pieces
                        .0
                        .push(TemplatePiece::Interpolation(self.parse_interpolation()?));
                    continue;
                }
                _ => return Ok(pieces.0),
            }
            self.tokens.advance();
        }
    }

    fn parse_interpolation(&mut self) -> Result<Interpolation, GrammarError> {
        self.parse_nested(Self::interpolation_inside)
    }

    fn interpolation_inside(&mut self) -> Result<Interpolation, GrammarError> {
        let start = self.tokens.span();
        self.tokens.advance();
        let mut key = Pieces::default();
        // A resolver's name has only identifiers and interpolations, with single dots between.
        let mut may_be_name = !matches!(
            self.tokens.kind(),
            GrammarTokenKind::Dot | GrammarTokenKind::BracketOpen
        );
        while self.tokens.consume_if(&GrammarTokenKind::Dot) {
            key.push_text(".");
        }
        may_be_name &= self.key_part(&mut key)?;
        loop {
            match self.tokens.kind() {
                GrammarTokenKind::Dot => {
                    self.tokens.advance();
                    key.push_text(".");
                    may_be_name &= self.config_key(&mut key)?;
                }
                GrammarTokenKind::BracketOpen => {
                    may_be_name = false;
                    self.key_part(&mut key)?;
                }
                GrammarTokenKind::Close => {
                    let span = start.join_with(self.tokens.span());
                    self.tokens.advance();
                    let target = InterpolationTarget::Node(key.0);
                    return Ok(Interpolation { target, span });
                }
                GrammarTokenKind::Colon if may_be_name => {
                    self.tokens.advance();
                    let args = self.parse_arguments()?;
                    let span = start.join_with(self.tokens.span());
                    self.tokens.expect(
                        &GrammarTokenKind::BraceClose,
                        "`,` or `}` after an argument",
                    )?;
                    let target = InterpolationTarget::Resolver { name: key.0, args };
                    return Ok(Interpolation { target, span });
                }
                GrammarTokenKind::Colon => {
                    return Err(self.tokens.unexpected(
                        "`}` (what stands before this `:` is not the name of a resolver)",
                    ));
                }
                _ => {
                    return Err(self
                        .tokens
                        .unexpected("`.`, `[`, `:` or `}` in this interpolation"));
                }
            }
        }
    }

    /// `key` or `[key]`; whether it could be part of a resolver's name.
    fn key_part(&mut self, key: &mut Pieces) -> Result<bool, GrammarError> {
        if !self.tokens.consume_if(&GrammarTokenKind::BracketOpen) {
            return self.config_key(key);
        }
        key.push_text("[");
        self.config_key(key)?;
        self.tokens
            .expect(&GrammarTokenKind::BracketClose, "`]` after the key")?;
        key.push_text("]");
        Ok(false)
    }

    fn config_key(&mut self, key: &mut Pieces) -> Result<bool, GrammarError> {
        let is_name = match self.tokens.kind() {
            GrammarTokenKind::Open => {
                key.0
                    .push(TemplatePiece::Interpolation(self.parse_interpolation()?));
                return Ok(true);
            }
            GrammarTokenKind::Id => true,
            GrammarTokenKind::Key => false,
            _ => return Err(self.tokens.unexpected("a key or `${`")),
        };
        key.push_text(self.tokens.text());
        self.tokens.advance();
        Ok(is_name)
    }

    /// Arguments up to the closing brace or bracket. One left out is the empty string, but none at all is none.
    fn parse_arguments(&mut self) -> Result<Vec<Argument>, GrammarError> {
        let mut arguments = Vec::new();
        if matches!(
            self.tokens.kind(),
            GrammarTokenKind::BraceClose | GrammarTokenKind::BracketClose
        ) {
            return Ok(arguments);
        }
        loop {
            let start = self.tokens.span();
            let missing = matches!(
                self.tokens.kind(),
                GrammarTokenKind::Comma
                    | GrammarTokenKind::BraceClose
                    | GrammarTokenKind::BracketClose
            );
            arguments.push(if missing {
                Argument {
                    value: Expression::Str(String::new()),
                    span: TextSpan::new(start.start, start.start),
                }
            } else {
                Argument {
                    value: self.parse_element()?,
                    span: self.tokens.span_from(start),
                }
            });
            if !self.tokens.consume_if(&GrammarTokenKind::Comma) {
                return Ok(arguments);
            }
        }
    }

    fn parse_element(&mut self) -> Result<Expression, GrammarError> {
        match self.tokens.kind() {
            GrammarTokenKind::BracketOpen => self.parse_nested(Self::parse_list),
            GrammarTokenKind::BraceOpen => self.parse_nested(Self::parse_dict),
            GrammarTokenKind::QuoteOpen => self.parse_quoted(),
            _ => self.parse_primitive(),
        }
    }

    fn parse_list(&mut self) -> Result<Expression, GrammarError> {
        self.tokens.advance();
        let items = self.parse_arguments()?;
        self.tokens
            .expect(&GrammarTokenKind::BracketClose, "`,` or `]` in this list")?;
        Ok(Expression::List(
            items.into_iter().map(|item| item.value).collect(),
        ))
    }

    fn parse_dict(&mut self) -> Result<Expression, GrammarError> {
        self.tokens.advance();
        let mut pairs: Vec<(Expression, Expression)> = Vec::new();
        if self.tokens.consume_if(&GrammarTokenKind::BraceClose) {
            return Ok(Expression::Dict(pairs));
        }
        loop {
            let key = self.dict_key()?;
            self.tokens.expect(
                &GrammarTokenKind::Colon,
                "`:` after the key of a dictionary",
            )?;
            let value = self.parse_element()?;
            match pairs.iter_mut().find(|(known, _)| known.same_key(&key)) {
                Some((_, slot)) => *slot = value,
                None => pairs.push((key, value)),
            }
            if self.tokens.consume_if(&GrammarTokenKind::BraceClose) {
                return Ok(Expression::Dict(pairs));
            }
            self.tokens
                .expect(&GrammarTokenKind::Comma, "`,` or `}` in this dictionary")?;
        }
    }

    fn parse_quoted(&mut self) -> Result<Expression, GrammarError> {
        let open = self.tokens.span();
        self.tokens.advance();
        let pieces = self.parse_text()?;
        if *self.tokens.kind() == GrammarTokenKind::End {
            return Err(GrammarError::UnterminatedQuote {
                quote: if open.slice_of(self.tokens.source()) == "'" {
                    '\''
                } else {
                    '"'
                },
                span: TextSpan::new(open.start, self.tokens.source().len()),
            });
        }
        self.tokens
            .expect(&GrammarTokenKind::QuoteClose, "text or a closing quote")?;
        Ok(Expression::Quoted(pieces))
    }

    fn dict_key(&mut self) -> Result<Expression, GrammarError> {
        let source = self.tokens.source();
        let is_part = |kind: &GrammarTokenKind| {
            matches!(
                kind,
                GrammarTokenKind::Id | GrammarTokenKind::Escape | GrammarTokenKind::Plain(_)
            )
        };
        match self.tokens.take_while(is_part) {
            [] => Err(self.tokens.unexpected("an unquoted key of this dictionary")),
            [token] => parse_scalar(source, token),
            tokens => {
                let mut pieces = Pieces::default();
                for token in tokens {
                    pieces.push_text(&unescaped_text(source, token));
                }
                Ok(pieces.into_expression())
            }
        }
    }

    /// Unquoted tokens: a single one keeps its type, several are joined.
    fn parse_primitive(&mut self) -> Result<Expression, GrammarError> {
        let first = self.tokens.token().clone();
        let mut count = 0;
        let mut pieces = Pieces::default();
        loop {
            match self.tokens.kind() {
                GrammarTokenKind::Open => pieces
                    .0
                    .push(TemplatePiece::Interpolation(self.parse_interpolation()?)),
                GrammarTokenKind::Id
                | GrammarTokenKind::Escape
                | GrammarTokenKind::Colon
                | GrammarTokenKind::Plain(_) => {
                    pieces.push_text(&unescaped_text(self.tokens.source(), self.tokens.token()));
                    self.tokens.advance();
                }
                _ => break,
            }
            count += 1;
        }
        match count {
            0 => Err(self.tokens.unexpected("a value")),
            1 => match pieces.0.pop() {
                Some(TemplatePiece::Interpolation(inner)) => {
                    Ok(Expression::Interpolation(Box::new(inner)))
                }
                _ => parse_scalar(self.tokens.source(), &first),
            },
            _ => Ok(pieces.into_expression()),
        }
    }

    fn parse_nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, GrammarError>,
    ) -> Result<T, GrammarError> {
        self.tokens.enter_level()?;
        let parsed = parse(self);
        self.tokens.leave_level();
        parsed
    }
}

/// The value of one token.
fn parse_scalar(source: &str, token: &GrammarToken) -> Result<Expression, GrammarError> {
    let GrammarTokenKind::Plain(kind) = token.kind else {
        return Ok(Expression::Str(unescaped_text(source, token).into_owned()));
    };
    let text = token.span.slice_of(source);
    Ok(match kind {
        Plain::Null => Expression::Null,
        Plain::Bool => Expression::Bool(text.eq_ignore_ascii_case("true")),
        Plain::Int => Expression::Int(number::int_of_token(text, token.span)?),
        Plain::Float => Expression::Float(number::float_of_token(text)),
        Plain::Blank => {
            return Err(GrammarError::Unexpected {
                expected: "a value",
                found: "only blanks".to_owned(),
                span: token.span,
            });
        }
        Plain::Symbol | Plain::Id | Plain::Escape => Expression::Str(text.to_owned()),
    })
}

/// Pieces in the making, with adjacent text joined.
#[derive(Default)]
struct Pieces(Vec<TemplatePiece>);

impl Pieces {
    fn push_text(&mut self, text: &str) {
        if let Some(TemplatePiece::Literal(last)) = self.0.last_mut() {
            last.push_str(text);
        } else {
            self.0.push(TemplatePiece::Literal(text.to_owned()));
        }
    }

    fn into_expression(mut self) -> Expression {
        match self.0.as_mut_slice() {
            [TemplatePiece::Literal(text)] => Expression::Str(std::mem::take(text)),
            _ => Expression::Text(self.0),
        }
    }
}
