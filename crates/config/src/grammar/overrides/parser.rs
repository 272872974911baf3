//! Recursive descent over the tokens of one override.

use super::call::{self, Call};
use super::element::Element;
use super::lexer::{self, Kind, Token};
use super::primitive;
use super::shuffle::Shuffle;
use super::sweep::{ChoiceSweep, Sweep};
use super::{Override, OverrideKind};
use crate::grammar::{GrammarError, MAX_DEPTH, Span};

/// Parses one override, such as `+db.port=choice(1,2)`.
///
/// `shuffle` decides the order that `shuffle([…])` gives a list; a shuffled sweep is put in order only when it is
/// enumerated.
pub fn parse_override(line: &str, shuffle: &mut dyn Shuffle) -> Result<Override, GrammarError> {
    let mut parser = Parser {
        source: line,
        tokens: lexer::tokens(line),
        at: 0,
        depth: 0,
        shuffle,
    };
    parser.whole_override()
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    shuffle: &'a mut dyn Shuffle,
}

impl Parser<'_> {
    fn whole_override(&mut self) -> Result<Override, GrammarError> {
        let kind = if self.take(&Kind::Tilde) {
            OverrideKind::Delete
        } else if self.take(&Kind::Plus) {
            if self.take(&Kind::Plus) {
                OverrideKind::ForceAdd
            } else {
                OverrideKind::Add
            }
        } else {
            OverrideKind::Change
        };
        let key_or_group = self.package_or_group()?;
        let package = self.take(&Kind::At).then(|| self.package());
        let element = if kind == OverrideKind::Delete && *self.kind() == Kind::End {
            None
        } else {
            Some(self.assignment(package.is_some())?)
        };
        Ok(Override {
            kind,
            key_or_group,
            package,
            element,
            input_line: self.source.to_owned(),
        })
    }

    fn assignment(&mut self, has_package: bool) -> Result<Element, GrammarError> {
        if !self.take(&Kind::Equal) {
            return Err(self.unexpected(match self.kind() {
                Kind::Colon if has_package => {
                    "`=` (the form `group@from:to` is no longer supported)"
                }
                Kind::At => "`=` (a key has at most one `@package`)",
                _ => "`=` after the key",
            }));
        }
        if *self.kind() == Kind::End {
            return Ok(Element::Str(String::new()));
        }
        let mut elements = vec![self.element()?];
        while self.take(&Kind::Comma) {
            elements.push(self.element()?);
        }
        if *self.kind() != Kind::End {
            return Err(self.unexpected(self.expected_after_element()));
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
        let before = self.at.checked_sub(1).map(|at| &self.tokens[at]);
        let nested = before.is_some_and(|token| {
            token.kind == Kind::Interpolation && token.span.of(self.source)[2..].contains("${")
        });
        match self.kind() {
            Kind::BraceClose if nested => {
                "the end of the value (quote a value that nests interpolations)"
            }
            Kind::Equal => "`,` or the end of the value (quote a value that contains `=`)",
            Kind::ParenOpen => "`,` or the end of the value (quote a value that contains `(`)",
            Kind::Quoted => "`,` or the end of the value (quote the value as a whole)",
            _ => "`,` or the end of the value",
        }
    }

    fn package_or_group(&mut self) -> Result<String, GrammarError> {
        if *self.kind() != Kind::Id || self.next_kind() != Some(&Kind::Slash) {
            return Ok(self.package());
        }
        let start = self.span();
        let mut end = start;
        self.at += 1;
        while self.take(&Kind::Slash) {
            if *self.kind() != Kind::Id {
                return Err(self.unexpected("the name of a config group after `/`"));
            }
            end = self.span();
            self.at += 1;
        }
        Ok(start.to(end).of(self.source).to_owned())
    }

    /// A dotted path, a word, or nothing.
    fn package(&mut self) -> String {
        match self.kind() {
            Kind::Id | Kind::Special | Kind::DotPath => {
                let text = self.text().to_owned();
                self.at += 1;
                text
            }
            _ => String::new(),
        }
    }

    fn element(&mut self) -> Result<Element, GrammarError> {
        if self.depth >= MAX_DEPTH {
            return Err(GrammarError::TooDeep {
                limit: MAX_DEPTH,
                span: self.span(),
            });
        }
        self.depth += 1;
        let element = match self.kind() {
            Kind::BracketOpen => self.list(),
            Kind::BraceOpen => self.dict(),
            Kind::Id if self.next_kind() == Some(&Kind::ParenOpen) => self.function(),
            Kind::Quoted => {
                let quoted = primitive::unquote(self.text());
                self.at += 1;
                Ok(Element::Quoted(quoted))
            }
            _ => self.primitive(
                |kind| {
                    primitive::in_dict_key(kind)
                        || matches!(kind, Kind::Colon | Kind::Interpolation)
                },
                "a value",
            ),
        };
        self.depth -= 1;
        element
    }

    fn primitive(
        &mut self,
        accept: impl Fn(&Kind) -> bool,
        expected: &'static str,
    ) -> Result<Element, GrammarError> {
        let start = self.at;
        while accept(self.kind()) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.unexpected(expected));
        }
        primitive::evaluate(self.source, &self.tokens[start..self.at])
    }

    fn list(&mut self) -> Result<Element, GrammarError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(&Kind::BracketClose) {
            return Ok(Element::List(items));
        }
        loop {
            items.push(self.element()?);
            if self.take(&Kind::BracketClose) {
                return Ok(Element::List(items));
            }
            self.expect(&Kind::Comma, "`,` or `]` in this list")?;
        }
    }

    fn dict(&mut self) -> Result<Element, GrammarError> {
        self.at += 1;
        let mut pairs: Vec<(Element, Element)> = Vec::new();
        if self.take(&Kind::BraceClose) {
            return Ok(Element::Dict(pairs));
        }
        loop {
            let key =
                self.primitive(primitive::in_dict_key, "an unquoted key of this dictionary")?;
            self.expect(&Kind::Colon, "`:` after the key of a dictionary")?;
            let value = self.element()?;
            match pairs.iter_mut().find(|(known, _)| known.equals(&key)) {
                Some((_, slot)) => *slot = value,
                None => pairs.push((key, value)),
            }
            if self.take(&Kind::BraceClose) {
                return Ok(Element::Dict(pairs));
            }
            self.expect(&Kind::Comma, "`,` or `}` in this dictionary")?;
        }
    }

    fn function(&mut self) -> Result<Element, GrammarError> {
        let name_span = self.span();
        let mut call = Call {
            name: self.text().to_owned(),
            name_span,
            positional: Vec::new(),
            named: Vec::new(),
            span: name_span,
        };
        self.at += 2;
        if !self.take(&Kind::ParenClose) {
            loop {
                self.argument(&mut call)?;
                if self.take(&Kind::ParenClose) {
                    break;
                }
                self.expect(&Kind::Comma, "`,` or `)` in this call")?;
            }
        }
        call.span = name_span.to(self.tokens[self.at - 1].span);
        call::evaluate(call, self.shuffle)
    }

    fn argument(&mut self, call: &mut Call) -> Result<(), GrammarError> {
        let start = self.span();
        if *self.kind() == Kind::Id && self.next_kind() == Some(&Kind::Equal) {
            let name = self.text().to_owned();
            self.at += 2;
            let value = self.element()?;
            match call.named.iter_mut().find(|(known, _)| *known == name) {
                Some((_, slot)) => *slot = value,
                None => call.named.push((name, value)),
            }
            return Ok(());
        }
        let value = self.element()?;
        if !call.named.is_empty() {
            return Err(GrammarError::PositionalAfterNamed {
                span: start.to(self.tokens[self.at - 1].span),
            });
        }
        call.positional.push(value);
        Ok(())
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

    fn text(&self) -> &str {
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
                found: "the end of the override".to_owned(),
                span: self.span(),
            },
            _ => GrammarError::Unexpected {
                expected,
                found: format!("`{}`", self.text().trim()),
                span: self.span(),
            },
        }
    }
}
