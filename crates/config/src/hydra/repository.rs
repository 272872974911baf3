//! Configs by path over the whole search path, read once each.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::element::{Element, GroupChoice};
use super::error::Error;
use super::schema;
use super::source::{ConfigSource, Listing, SourceInfo};
use crate::node::{Node, Value};
use crate::source::SourceText as Text;
use crate::yaml;

/// A config as read from its source.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    /// What the file says, without its `defaults` list.
    pub(crate) config: Node,
    /// Package from the file's `# @package` header.
    pub(crate) package: Option<String>,
    pub(crate) defaults: Vec<Element>,
    /// Whether anything but `defaults` is in it, missing values aside.
    pub(crate) has_content: bool,
    /// Whether it comes from Hydra's own typed configs.
    pub(crate) is_schema: bool,
}

/// The search path as one tree, in which the first source that has a config wins.
#[derive(Debug)]
pub(crate) struct Repository {
    sources: Vec<ConfigSource>,
    cache: RefCell<HashMap<String, Option<Rc<LoadedConfig>>>>,
}

impl Repository {
    pub(crate) fn new(sources: Vec<ConfigSource>) -> Self {
        Self {
            sources,
            cache: RefCell::default(),
        }
    }

    /// Replaces the search path. What was read stays, as in Hydra: that is the primary config.
    pub(crate) fn set_sources(&mut self, sources: Vec<ConfigSource>) {
        self.sources = sources;
    }

    pub(crate) fn sources(&self) -> &[ConfigSource] {
        &self.sources
    }

    /// The search path, one indented line for each source.
    pub(crate) fn describe_sources(&self) -> String {
        let lines: Vec<_> = self
            .source_infos()
            .map(|info| format!("\t{info}"))
            .collect();
        lines.join("\n")
    }

    pub(crate) fn source_infos(&self) -> impl Iterator<Item = &SourceInfo> {
        self.sources.iter().map(ConfigSource::info)
    }

    pub(crate) fn group_exists(&self, path: &str) -> bool {
        self.sources.iter().any(|source| source.is_group(path))
    }

    pub(crate) fn config_exists(&self, path: &str) -> bool {
        self.sources.iter().any(|source| source.is_config(path))
    }

    /// The configs of a group over all sources, sorted.
    pub(crate) fn group_options(&self, group: &str) -> Vec<String> {
        self.list_all(group, Listing::Configs)
    }

    /// The groups directly below a group, sorted.
    pub(crate) fn child_groups(&self, group: &str) -> Vec<String> {
        self.list_all(group, Listing::Groups)
    }

    fn list_all(&self, group: &str, listing: Listing) -> Vec<String> {
        let names: BTreeSet<String> = self
            .sources
            .iter()
            .filter(|source| source.is_group(group))
            .flat_map(|source| source.list_names(group, listing))
            .collect();
        names.into_iter().collect()
    }

    /// Every group of the search path that has options, with its path from the root.
    pub(crate) fn all_groups(&self) -> Vec<String> {
        let mut groups = Vec::new();
        let mut pending = self.child_groups("");
        while let Some(group) = pending.pop() {
            // A link to a directory above would never end.
            if group.matches('/').count() > 16 {
                continue;
            }
            pending.extend(
                self.child_groups(&group)
                    .into_iter()
                    .map(|sub| format!("{group}/{sub}")),
            );
            if !self.group_options(&group).is_empty() {
                groups.push(group);
            }
        }
        groups.sort();
        groups
    }

    /// Reads a config; `None` when no source has it.
    pub(crate) fn load_config(&self, path: &str) -> Result<Option<Rc<LoadedConfig>>, Error> {
        if let Some(loaded) = self.cache.borrow().get(path) {
            return Ok(loaded.clone());
        }
        let loaded = match self.sources.iter().find(|source| source.is_config(path)) {
            Some(source) => read_config(source, path)?.map(Rc::new),
            None => None,
        };
        self.cache
            .borrow_mut()
            .insert(path.to_owned(), loaded.clone());
        Ok(loaded)
    }
}

fn read_config(source: &ConfigSource, path: &str) -> Result<Option<LoadedConfig>, Error> {
    let Some((text, file)) = source.read_config(path)? else {
        return Ok(None);
    };
    let package = yaml::parse_header(&text)
        .map_err(|error| Error::InvalidHeader {
            config: path.to_owned(),
            reason: error.to_string(),
        })?
        .into_iter()
        .find_map(|(key, value)| (key == "package").then_some(value));
    let mut config =
        yaml::load_config(&Text::new(file, text)).map_err(|error| Error::InvalidConfig {
            config: path.to_owned(),
            error,
        })?;
    let defaults = match config.remove("defaults") {
        Some(list) => parse_elements(path, &list)?,
        None => Vec::new(),
    };
    if source.is_schema() {
        config = schema::store_config(path).unwrap_or(config);
    }
    let has_content = config
        .as_dict()
        .is_some_and(|dict| dict.values().any(|value| !value.is_missing()));
    Ok(Some(LoadedConfig {
        config,
        package,
        defaults,
        has_content,
        is_schema: source.is_schema(),
    }))
}

fn parse_elements(config: &str, list: &Node) -> Result<Vec<Element>, Error> {
    let invalid = |reason: String, node: &Node| Error::InvalidDefaults {
        config: config.to_owned(),
        reason,
        origin: node.origin.clone(),
    };
    let Some(items) = list.as_list() else {
        let actual = match &list.value {
            Value::Dict(_) => "a mapping",
            _ => list.type_name(),
        };
        return Err(invalid(
            format!("defaults must be a list, got {actual}"),
            list,
        ));
    };
    items
        .iter()
        .map(|item| match &item.value {
            Value::Str(text) => config_element(text).map_err(|reason| invalid(reason, item)),
            Value::Dict(entries) => {
                let mut entries = entries.iter();
                match (entries.next(), entries.next()) {
                    (Some((key, value)), None) => match key.as_str() {
                        Some(key) => {
                            group_element(key, value).map_err(|reason| invalid(reason, value))
                        }
                        None => Err(invalid(
                            format!("the group name `{key}` is not a string"),
                            item,
                        )),
                    },
                    (None, _) => Err(invalid(
                        "missing group name in a defaults item".to_owned(),
                        item,
                    )),
                    (Some(_), Some(_)) => Err(invalid(
                        format!("too many keys in the defaults item {}", item.value.repr()),
                        item,
                    )),
                }
            }
            _ => Err(invalid(
                format!("a defaults item cannot be {}", item.type_name()),
                item,
            )),
        })
        .collect()
}

fn config_element(text: &str) -> Result<Element, String> {
    let (path, package) = split_package(text);
    if path == "_self_" && package.is_some() {
        return Err("_self_@PACKAGE is not supported".to_owned());
    }
    Ok(Element::config(path, package.map(str::to_owned)))
}

fn group_element(key: &str, value: &Node) -> Result<Element, String> {
    let (group, package) = split_package(key);
    let mut words: Vec<&str> = group.split(' ').collect();
    let group = words.pop().unwrap_or_default();
    if group.is_empty() {
        return Err(format!("missing group name in '{key}'"));
    }
    let (mut optional, mut is_override) = (false, false);
    for word in words {
        match word {
            "optional" => optional = true,
            "override" => is_override = true,
            // Hydra stops looking at the first other word, and says nothing.
            _ => break,
        }
    }
    let choice = match &value.value {
        Value::Null => GroupChoice::Null,
        Value::Str(name) => GroupChoice::Name(name.clone()),
        Value::List(items) => GroupChoice::Options(
            items
                .iter()
                .map(|item| {
                    item.as_str().map(str::to_owned).ok_or_else(|| {
                        format!(
                            "an option of '{group}' must be a string, not {}",
                            item.type_name()
                        )
                    })
                })
                .collect::<Result<_, _>>()?,
        ),
        _ => {
            return Err(format!(
                "the option of '{group}' must be a string or a list, not {}",
                value.type_name()
            ));
        }
    };
    let mut element = Element::group(group, package.map(str::to_owned), choice, is_override);
    element.optional = optional;
    Ok(element)
}

/// Splits `name@package`; of the old rename form `name@from:to` only the first part counts.
fn split_package(text: &str) -> (&str, Option<&str>) {
    match text.split_once('@') {
        None => (text, None),
        Some((name, package)) => {
            let package = package.split_once(':').map_or(package, |(from, _)| from);
            (name, Some(package))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_before_a_group() {
        let null = Node::new(Value::Null);
        let element = group_element("optional override /db@pkg", &null).expect("valid");
        assert!(element.optional && element.is_override());
        assert_eq!(element.override_key(), "db@pkg");
        assert!(group_element("override ", &null).is_err());
        assert!(group_element("db", &Node::new(1)).is_err());
    }
}
