//! Hydra 1.3's override grammar: `key=value` and its variants.

mod arguments;
mod call;
mod cast;
mod decimal;
mod element;
mod enumerate;
mod fnmatch;
mod functions;
mod lexer;
mod order;
mod parser;
mod primitive;
mod shuffle;
mod text;

pub use element::sweep::{ChoiceSweep, Glob, IntervalSweep, Number, RangeSweep, Sweep};
pub use element::{Element, Quote, QuotedString};
pub use parser::parse_override;
pub use shuffle::{KeepOrder, SeededShuffle, Shuffle};

use crate::grammar::{GrammarError, TextSpan};

/// What an override does to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverrideKind {
    /// `key=value`: the key must exist, or be a group of the defaults list.
    Change,
    /// `+key=value`: the key must not exist yet.
    Add,
    /// `++key=value`: sets the key whether it exists or not.
    ForceAdd,
    /// `~key`, or `~key=value` to delete it only while it has that value.
    Delete,
}

impl OverrideKind {
    /// The characters before the key.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Change => "",
            Self::Add => "+",
            Self::ForceAdd => "++",
            Self::Delete => "~",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    pub kind: OverrideKind,
    /// The config group (`db/mysql`) or dotted key (`db.port`); may be empty.
    pub key_or_group: String,
    /// The package after `@`; `Some("")` for a bare `@`.
    pub package: Option<String>,
    /// The value as written: absent only in `~key`; `key=` is the empty string. See [`Override::value`].
    pub element: Option<Element>,
    /// The text this was parsed from.
    pub input_line: String,
}

impl Override {
    /// The value with quotes taken off, as it goes into the config; `null` where there is none.
    pub fn value(&self) -> Element {
        self.element
            .as_ref()
            .map_or(Element::Null, Element::unquoted)
    }

    /// The key as written: prefix, key and package.
    pub fn key_element(&self) -> String {
        let prefix = self.kind.prefix();
        match &self.package {
            Some(package) => format!("{prefix}{}@{package}", self.key_or_group),
            None => format!("{prefix}{}", self.key_or_group),
        }
    }

    /// The value as Hydra writes it back, quotes kept; `null` where there is none. Fails if a sweep is in it.
    ///
    /// `spaced` puts a space after commas and colons.
    pub fn value_text(&self, spaced: bool) -> Result<String, GrammarError> {
        self.element
            .as_ref()
            .map_or(Some("null".to_owned()), |element| element.to_text(spaced))
            .ok_or_else(|| self.not_applicable("a sweep is not a single value"))
    }

    /// The input after its first `=`, untouched.
    pub fn value_source(&self) -> Option<&str> {
        self.input_line.split_once('=').map(|(_, value)| value)
    }

    /// Whether the value as a whole is a sweep.
    pub fn is_sweep(&self) -> bool {
        matches!(self.element, Some(Element::Sweep(_)))
    }

    /// Whether this configures Hydra itself.
    pub(crate) fn is_hydra_override(&self) -> bool {
        self.key_or_group.starts_with("hydra.") || self.key_or_group.starts_with("hydra/")
    }

    /// The elements of a choice or range sweep, in the order to visit; of a glob, the matching names of
    /// `group_options`, which is asked for the options of the group.
    pub(crate) fn sweep_elements(
        &self,
        group_options: impl FnOnce(&str) -> Vec<String>,
        shuffle: &mut dyn Shuffle,
    ) -> Result<Vec<Element>, GrammarError> {
        let Some(Element::Sweep(sweep)) = &self.element else {
            return Err(self.not_applicable("this override is not a sweep"));
        };
        let (elements, shuffled) = match sweep {
            Sweep::Choice(choice) => (choice.list.clone(), choice.shuffle),
            Sweep::Range(range) => (
                range
                    .numbers()
                    .map_err(|reason| self.not_applicable(&reason))?,
                range.shuffle,
            ),
            Sweep::Glob(glob) => {
                let options = group_options(&self.key_or_group);
                let names: Vec<&str> = options.iter().map(String::as_str).collect();
                let kept = glob
                    .filter_names(&names)
                    .map_err(|reason| self.not_applicable(&reason))?;
                let kept = kept.into_iter().map(|name| Element::Str(name.to_owned()));
                (kept.collect(), false)
            }
            Sweep::Interval(_) => {
                return Err(self
                    .not_applicable("an interval has no list of values; use range() or choice()"));
            }
        };
        Ok(if shuffled {
            shuffle::shuffle_items(&elements, shuffle)
        } else {
            elements
        })
    }

    /// [`Override::sweep_elements`] as text that can stand after `=` again. Names from a glob are not escaped.
    pub fn sweep_texts(
        &self,
        group_options: impl FnOnce(&str) -> Vec<String>,
        shuffle: &mut dyn Shuffle,
    ) -> Result<Vec<String>, GrammarError> {
        let is_glob = matches!(self.element, Some(Element::Sweep(Sweep::Glob(_))));
        self.sweep_elements(group_options, shuffle)?
            .into_iter()
            .map(|element| match element {
                Element::Str(name) if is_glob => Ok(name),
                other => other
                    .to_text(false)
                    .ok_or_else(|| self.not_applicable("a sweep inside a sweep cannot be listed")),
            })
            .collect()
    }

    fn not_applicable(&self, reason: &str) -> GrammarError {
        GrammarError::NotApplicable {
            reason: reason.to_owned(),
            span: TextSpan::new(0, self.input_line.len()),
        }
    }
}
