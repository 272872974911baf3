//! Recursive descent over the tokens of one override.

use super::call::{self, FunctionCall};
use super::element::Element;
use super::element::sweep::{ChoiceSweep, Sweep};
use super::lexer::OverrideLexer;
use super::primitive;
use super::shuffle::Shuffle;
use super::{Override, OverrideKind};
use crate::grammar::GrammarError;
use crate::grammar::token::{GrammarTokenKind, TokenCursor};

/// Parses one override, such as `+db.port=choice(1,2)`.
///
/// `shuffle` decides the order that `shuffle([…])` gives a list; a shuffled sweep is put in order only when it is
/// enumerated.
pub fn parse_override(line: &str, shuffle: &mut dyn Shuffle) -> Result<Override, GrammarError> {
    let mut parser = OverrideParser {
        tokens: TokenCursor::new(line, "override", OverrideLexer::default()),
        shuffle,
    };
    parser.whole_override()
}

struct OverrideParser<'a> {
    tokens: TokenCursor<'a>,
    shuffle: &'a mut dyn Shuffle,
}

impl OverrideParser<'_> {
    fn whole_override(&mut self) -> Result<Override, GrammarError> {
        let kind = if self.tokens.consume_if(&GrammarTokenKind::Tilde) {
            OverrideKind::Delete
        } else if self.tokens.consume_if(&GrammarTokenKind::Plus) {
            if self.tokens.consume_if(&GrammarTokenKind::Plus) {
                OverrideKind::ForceAdd
            } else {
                OverrideKind::Add
            }
        } else {
            OverrideKind::Change
        };
        let key_or_group = self.package_or_group()?;
        let package = self
            .tokens
            .consume_if(&GrammarTokenKind::At)
            .then(|| self.parse_package());
        let element =
            if kind == OverrideKind::Delete && *self.tokens.kind() == GrammarTokenKind::End {
                None
            } else {
                Some(self.parse_assignment(package.is_some())?)
            };
        Ok(Override {
            kind,
            key_or_group,
            package,
            element,
            input_line: self.tokens.source().to_owned(),
        })
    }

    fn parse_assignment(&mut self, has_package: bool) -> Result<Element, GrammarError> {
        if !self.tokens.consume_if(&GrammarTokenKind::Equal) {
            return Err(self.tokens.unexpected(match self.tokens.kind() {
                GrammarTokenKind::Colon if has_package => {
                    "`=` (the form `group@from:to` is no longer supported)"
                }
                GrammarTokenKind::At => "`=` (a key has at most one `@package`)",
                _ => "`=` after the key",
            }));
        }
        if *self.tokens.kind() == GrammarTokenKind::End {
            return Ok(Element::Str(String::new()));
        }
        let mut elements = vec![self.parse_element()?];
        while self.tokens.consume_if(&GrammarTokenKind::Comma) {
            elements.push(self.parse_element()?);
        }
        if *self.tokens.kind() != GrammarTokenKind::End {
            return Err(self.tokens.unexpected(self.expected_after_element()));
        }
        if elements.len() > 1 {
            return Ok(Element::Sweep(Sweep::Choice(ChoiceSweep {
                list: elements,
                simple_form: true,
                ..ChoiceSweep::default()
            })));
        }
        Ok(elements.swap_remove(0))
    }

    fn expected_after_element(&self) -> &'static str {
        let nested = self.tokens.previous_token().is_some_and(|token| {
            let text = token.span.slice_of(self.tokens.source());
            token.kind == GrammarTokenKind::Interpolation && text[2..].contains("${")
        });
        match self.tokens.kind() {
            GrammarTokenKind::BraceClose if nested => {
                "the end of the value (quote a value that nests interpolations)"
            }
            GrammarTokenKind::Equal => {
                "`,` or the end of the value (quote a value that contains `=`)"
            }
            GrammarTokenKind::ParenOpen => {
                "`,` or the end of the value (quote a value that contains `(`)"
            }
            GrammarTokenKind::Quoted => "`,` or the end of the value (quote the value as a whole)",
            _ => "`,` or the end of the value",
        }
    }

    fn package_or_group(&mut self) -> Result<String, GrammarError> {
        if *self.tokens.kind() != GrammarTokenKind::Id
            || self.tokens.next_kind() != Some(&GrammarTokenKind::Slash)
        {
            return Ok(self.parse_package());
        }
        let start = self.tokens.span();
        let mut end = start;
        self.tokens.advance();
        while self.tokens.consume_if(&GrammarTokenKind::Slash) {
            if *self.tokens.kind() != GrammarTokenKind::Id {
                return Err(self
                    .tokens
                    .unexpected("the name of a config group after `/`"));
            }
            end = self.tokens.span();
            self.tokens.advance();
        }
        Ok(start
            .join_with(end)
            .slice_of(self.tokens.source())
            .to_owned())
    }

    /// A dotted path, a word, or nothing.
    fn parse_package(&mut self) -> String {
        match self.tokens.kind() {
            GrammarTokenKind::Id | GrammarTokenKind::Special | GrammarTokenKind::DotPath => {
                let text = self.tokens.text().to_owned();
                self.tokens.advance();
                text
            }
            _ => String::new(),
        }
    }

    fn parse_element(&mut self) -> Result<Element, GrammarError> {
        self.tokens.enter_level()?;
        let element = match self.tokens.kind() {
            GrammarTokenKind::BracketOpen => self.parse_list(),
            GrammarTokenKind::BraceOpen => self.parse_dict(),
            GrammarTokenKind::Id
                if self.tokens.next_kind() == Some(&GrammarTokenKind::ParenOpen) =>
            {
                self.parse_function()
            }
            GrammarTokenKind::Quoted => {
                let quoted = primitive::unquote_token(self.tokens.text());
                self.tokens.advance();
                Ok(Element::Quoted(quoted))
            }
            _ => self.parse_primitive(
                |kind| {
                    primitive::in_dict_key(kind)
                        || matches!(
                            kind,
                            GrammarTokenKind::Colon | GrammarTokenKind::Interpolation
                        )
                },
                "a value",
            ),
        };
        self.tokens.leave_level();
        element
    }

    fn parse_primitive(
        &mut self,
        accept: impl Fn(&GrammarTokenKind) -> bool,
        expected: &'static str,
    ) -> Result<Element, GrammarError> {
        let source = self.tokens.source();
        match self.tokens.take_while(accept) {
            [] => Err(self.tokens.unexpected(expected)),
            tokens => primitive::evaluate_primitive(source, tokens),
        }
    }

    fn parse_list(&mut self) -> Result<Element, GrammarError> {
        self.tokens.advance();
        let mut items = Vec::new();
        if self.tokens.consume_if(&GrammarTokenKind::BracketClose) {
            return Ok(Element::List(items));
        }
        loop {
            items.push(self.parse_element()?);
            if self.tokens.consume_if(&GrammarTokenKind::BracketClose) {
                return Ok(Element::List(items));
            }
            self.tokens
                .expect(&GrammarTokenKind::Comma, "`,` or `]` in this list")?;
        }
    }

    fn parse_dict(&mut self) -> Result<Element, GrammarError> {
        self.tokens.advance();
        let mut pairs: Vec<(Element, Element)> = Vec::new();
        if self.tokens.consume_if(&GrammarTokenKind::BraceClose) {
            return Ok(Element::Dict(pairs));
        }
        loop {
            let key =
                self.parse_primitive(primitive::in_dict_key, "an unquoted key of this dictionary")?;
            self.tokens.expect(
                &GrammarTokenKind::Colon,
                "`:` after the key of a dictionary",
            )?;
            let value = self.parse_element()?;
            match pairs.iter_mut().find(|(known, _)| known.equals(&key)) {
                Some((_, slot)) => *slot = value,
                None => pairs.push((key, value)),
            }
            if self.tokens.consume_if(&GrammarTokenKind::BraceClose) {
                return Ok(Element::Dict(pairs));
            }
            self.tokens
                .expect(&GrammarTokenKind::Comma, "`,` or `}` in this dictionary")?;
        }
    }

    fn parse_function(&mut self) -> Result<Element, GrammarError> {
        let name_span = self.tokens.span();
        let mut call = FunctionCall {
            name: self.tokens.text().to_owned(),
            name_span,
            positional: Vec::new(),
            named: Vec::new(),
            span: name_span,
        };
        self.tokens.advance();
        self.tokens.advance();
        if !self.tokens.consume_if(&GrammarTokenKind::ParenClose) {
            loop {
                self.parse_argument(&mut call)?;
                if self.tokens.consume_if(&GrammarTokenKind::ParenClose) {
                    break;
                }
                self.tokens
                    .expect(&GrammarTokenKind::Comma, "`,` or `)` in this call")?;
            }
        }
        call.span = self.tokens.span_from(name_span);
        call::evaluate_call(call, self.shuffle)
    }

    fn parse_argument(&mut self, call: &mut FunctionCall) -> Result<(), GrammarError> {
        let start = self.tokens.span();
        if *self.tokens.kind() == GrammarTokenKind::Id
            && self.tokens.next_kind() == Some(&GrammarTokenKind::Equal)
        {
            let name = self.tokens.text().to_owned();
            self.tokens.advance();
            self.tokens.advance();
            let value = self.parse_element()?;
            match call.named.iter_mut().find(|(known, _)| *known == name) {
                Some((_, slot)) => *slot = value,
                None => call.named.push((name, value)),
            }
            return Ok(());
        }
        let value = self.parse_element()?;
        if !call.named.is_empty() {
            return Err(GrammarError::PositionalAfterNamed {
                span: self.tokens.span_from(start),
            });
        }
        call.positional.push(value);
        Ok(())
    }
}
