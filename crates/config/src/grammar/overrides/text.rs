//! Elements written back as override text, the way Hydra does for job names and sweeps.

use super::element::sweep::{Glob, Sweep};
use super::element::{Element, QuotedString};
use crate::grammar::interpolation::{self, is_interpolation};
use crate::python::float_repr;

impl Element {
    /// The element as text that parses to it again; nothing if a sweep other than a glob is in it.
    ///
    /// Hydra writes booleans as `True` and `False`. `spaced` puts a space after commas and colons.
    pub fn to_text(&self, spaced: bool) -> Option<String> {
        let (comma, colon) = if spaced { (", ", ": ") } else { (",", ":") };
        Some(match self {
            Self::Null => "null".to_owned(),
            Self::Bool(true) => "True".to_owned(),
            Self::Bool(false) => "False".to_owned(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => float_repr(*value),
            Self::Str(text) => escape_special(text),
            Self::Quoted(quoted) => quoted.with_quotes(),
            Self::List(items) => {
                let items: Option<Vec<_>> = items.iter().map(|item| item.to_text(spaced)).collect();
                format!("[{}]", items?.join(comma))
            }
            Self::Dict(pairs) => {
                let pairs: Option<Vec<_>> = pairs
                    .iter()
                    .map(|(key, value)| {
                        Some(format!(
                            "{}{colon}{}",
                            key.to_text(false)?,
                            value.to_text(spaced)?
                        ))
                    })
                    .collect();
                format!("{{{}}}", pairs?.join(comma))
            }
            Self::Sweep(Sweep::Glob(glob)) => glob.to_dict()?.to_text(spaced)?,
            Self::Sweep(_) => return None,
        })
    }

    /// The element with every quoted string replaced by its text.
    #[must_use]
    pub(crate) fn unquoted(&self) -> Self {
        match self {
            Self::Quoted(quoted) => Self::Str(quoted.text.clone()),
            Self::List(items) => Self::List(items.iter().map(Self::unquoted).collect()),
            Self::Dict(pairs) => Self::Dict(
                pairs
                    .iter()
                    .map(|(key, value)| (key.unquoted(), value.unquoted()))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
}

impl Glob {
    /// A glob that is not swept over, as in `[glob(*)]`: Hydra turns it into a dictionary of its patterns, as strings.
    /// Nothing if a pattern cannot become one.
    pub(crate) fn to_dict(&self) -> Option<Element> {
        let strings = |patterns: &[Element]| {
            let strings = patterns.iter().map(|pattern| match pattern {
                Element::Str(text) if is_interpolation(text) => interpolation::parse_template(text)
                    .ok()
                    .map(|_| text.clone()),
                Element::Str(text) => Some(text.clone()),
                Element::Bool(_) | Element::Int(_) | Element::Float(_) => pattern.to_text(false),
                _ => None,
            });
            let strings: Option<Vec<_>> = strings.map(|text| text.map(Element::Str)).collect();
            strings.map(Element::List)
        };
        Some(Element::Dict(vec![
            (Element::Str("include".to_owned()), strings(&self.include)?),
            (Element::Str("exclude".to_owned()), strings(&self.exclude)?),
        ]))
    }
}

impl QuotedString {
    /// The string in its quotes, with backslashes doubled where they precede a quote.
    pub fn with_quotes(&self) -> String {
        let quote = self.quote.as_char();
        let mut out = String::from(quote);
        let mut backslashes = 0;
        for c in self.text.chars() {
            if c == '\\' {
                backslashes += 1;
            } else {
                if c == quote {
                    out.extend(std::iter::repeat_n('\\', backslashes + 1));
                }
                backslashes = 0;
            }
            out.push(c);
        }
        out.extend(std::iter::repeat_n('\\', backslashes));
        out.push(quote);
        out
    }
}

/// Text with a backslash before each character that is special outside quotes.
fn escape_special(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\()[]{}:=, \t".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
