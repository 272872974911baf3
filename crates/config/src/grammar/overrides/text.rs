//! Elements written back as override text, the way Hydra does for job names and sweeps.

use super::element::{Element, QuotedString};
use crate::python::float_repr;

impl Element {
    /// The element as text that parses to it again; nothing if a sweep is in it.
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
            Self::Str(text) => escape(text),
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
            Self::Sweep(_) => return None,
        })
    }

    /// The element with every quoted string replaced by its text.
    #[must_use]
    pub fn unquoted(&self) -> Self {
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

impl QuotedString {
    /// The string in its quotes, with backslashes doubled where they precede a quote.
    pub fn with_quotes(&self) -> String {
        let quote = self.quote.char();
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
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\()[]{}:=, \t".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
