//! Which option each group has, and who said so: the command line, `override` items, deletions.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::element::{Element, GroupChoice};
use super::error::Error;
use super::repository::Repository;
use crate::grammar::{Element as Literal, Override, OverrideKind};
use crate::near_names::nearest_name;

/// Where a choice that overrides another one was made.
#[derive(Debug, Clone)]
struct Overriding {
    choice: GroupChoice,
    /// The config with the `override` item; `None` for the command line.
    config: Option<String>,
    used: bool,
}

#[derive(Debug, Clone)]
struct Deletion {
    /// The option that must be chosen for the deletion to apply; `None` deletes any.
    option: Option<String>,
    used: bool,
}

/// Choices made from outside a config, and those seen while walking the defaults.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    overriding: IndexMap<String, Overriding>,
    deletions: IndexMap<String, Deletion>,
    /// `+group=option` items, appended to the primary config's defaults.
    pub(crate) appended: Vec<Element>,
    /// Overrides of values rather than of groups, in order.
    pub(crate) values: Vec<Override>,
    /// Every group met with its final option, in the order Hydra meets them.
    pub(crate) known: IndexMap<String, Option<String>>,
    known_by_group: IndexMap<String, BTreeSet<String>>,
}

impl Choices {
    /// Tells overrides of groups from overrides of values. Sweeps are for the sweeper.
    pub(crate) fn new(repository: &Repository, overrides: &[Override]) -> Result<Self, Error> {
        let mut choices = Self::default();
        for line in overrides {
            if matches!(line.element, Some(Literal::Sweep(_))) {
                continue;
            }
            let is_dict = matches!(line.element, Some(Literal::Dict(_)));
            if is_dict || !repository.group_exists(&line.key_or_group) {
                choices.values.push(line.clone());
                continue;
            }
            choices.add_group_override(line)?;
        }
        Ok(choices)
    }

    fn add_group_override(&mut self, line: &Override) -> Result<(), Error> {
        let key = match &line.package {
            Some(package) => format!("{}@{package}", line.key_or_group),
            None => line.key_or_group.clone(),
        };
        match line.kind {
            OverrideKind::ForceAdd => {
                return Err(Error::ForceAddGroup {
                    line: line.input_line.clone(),
                });
            }
            OverrideKind::Delete => {
                let option = match &line.element {
                    None | Some(Literal::Null) => None,
                    Some(element) => {
                        Some(literal_text(element).ok_or_else(|| invalid_value(line, "a string"))?)
                    }
                };
                self.deletions.insert(
                    key,
                    Deletion {
                        option,
                        used: false,
                    },
                );
            }
            OverrideKind::Add => {
                let choice = parse_choice(line)?;
                let element =
                    Element::group(&line.key_or_group, line.package.clone(), choice, false);
                self.appended.push(element.into_appended());
            }
            OverrideKind::Change => {
                let overriding = Overriding {
                    choice: parse_choice(line)?,
                    config: None,
                    used: false,
                };
                self.overriding.insert(key, overriding);
            }
        }
        Ok(())
    }

    /// Notes an `override` item of a config, unless something stronger has spoken.
    pub(crate) fn add_override(&mut self, config: &str, element: &Element) {
        if let Some(choice) = element.choice() {
            self.overriding
                .entry(element.override_key())
                .or_insert_with(|| Overriding {
                    choice: choice.clone(),
                    config: Some(config.to_owned()),
                    used: false,
                });
        }
    }

    /// Gives a group item the option chosen for it elsewhere, if there is one.
    pub(crate) fn apply_choice(&mut self, element: &mut Element) {
        if !element.is_group() {
            return;
        }
        if let Some(overriding) = self.overriding.get_mut(&element.override_key()) {
            overriding.used = true;
            element.replace_choice(overriding.choice.clone());
        }
    }

    /// Marks a group item as deleted if `~group` says so.
    pub(crate) fn apply_deletion(&mut self, element: &mut Element) -> bool {
        if !element.is_group() {
            return false;
        }
        let Some(deletion) = self.deletions.get_mut(&element.override_key()) else {
            return false;
        };
        let matches = deletion
            .option
            .as_deref()
            .is_none_or(|option| element.name() == Some(option));
        if matches {
            deletion.used = true;
            element.deleted = true;
        }
        matches
    }

    /// Records the option of a group item; a second, different one is an error.
    pub(crate) fn learn_choice(&mut self, element: &Element) -> Result<(), Error> {
        if !element.is_group() {
            return Ok(());
        }
        let key = element.override_key();
        let name = element.name().map(str::to_owned);
        if let Some(previous) = self.known.get(&key) {
            if *previous != name {
                return Err(Error::MultipleValues {
                    key,
                    previous: previous.clone().unwrap_or_else(|| "null".to_owned()),
                });
            }
        } else {
            self.known.insert(key.clone(), name);
        }
        self.known_by_group
            .entry(element.group_path())
            .or_default()
            .insert(key);
        Ok(())
    }

    /// Fails if an override or a deletion found nothing to change.
    pub(crate) fn ensure_all_used(&self) -> Result<(), Error> {
        for (key, overriding) in &self.overriding {
            if overriding.used {
                continue;
            }
            let group = key.split('@').next().unwrap_or(key);
            let candidates: Vec<String> = match self.known_by_group.get(group) {
                Some(keys) => keys.iter().cloned().collect(),
                None => nearest_name(key, self.known.keys().map(String::as_str))
                    .map(str::to_owned)
                    .into_iter()
                    .collect(),
            };
            return Err(Error::UnusedOverride {
                key: key.clone(),
                config: overriding.config.clone(),
                choice: match &overriding.choice {
                    GroupChoice::Null => "null".to_owned(),
                    GroupChoice::Name(name) => name.clone(),
                    GroupChoice::Options(options) => format!("[{}]", options.join(",")),
                },
                candidates,
            });
        }
        for (key, deletion) in &self.deletions {
            if !deletion.used {
                return Err(Error::UnusedDeletion {
                    key: match &deletion.option {
                        Some(option) => format!("{key}={option}"),
                        None => key.clone(),
                    },
                    chosen: self.known.get(key).cloned().flatten(),
                    known: self.known.keys().cloned().collect(),
                });
            }
        }
        Ok(())
    }
}

fn parse_choice(line: &Override) -> Result<GroupChoice, Error> {
    match &line.element {
        Some(Literal::List(items)) => items
            .iter()
            .map(|item| literal_text(item).ok_or_else(|| invalid_value(line, "a list of strings")))
            .collect::<Result<_, _>>()
            .map(GroupChoice::Options),
        Some(element) => literal_text(element)
            .map(GroupChoice::Name)
            .ok_or_else(|| invalid_value(line, "a string or a list")),
        None => Err(invalid_value(line, "a string or a list")),
    }
}

fn literal_text(element: &Literal) -> Option<String> {
    match element {
        Literal::Str(text) => Some(text.clone()),
        Literal::Quoted(quoted) => Some(quoted.text.clone()),
        _ => None,
    }
}

fn invalid_value(line: &Override, expected: &'static str) -> Error {
    Error::InvalidGroupValue {
        line: line.input_line.clone(),
        group: line.key_or_group.clone(),
        expected,
    }
}
