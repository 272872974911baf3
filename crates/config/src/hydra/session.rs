//! One command line against one search path, before anything is composed.

use super::apply;
use super::error::Error;
use super::repository::Repository;
use super::search_path;
use super::{App, Host};
use crate::context::Context;
use crate::error::Error as ValueError;
use crate::grammar::overrides::{SeededShuffle, Shuffle, parse_override};
use crate::grammar::{Element as Literal, Override, OverrideKind};
use crate::node::Node;
use crate::resolve;

/// A search path with the overrides that were parsed against it.
pub(super) struct ComposeSession {
    pub(super) repository: Repository,
    pub(super) overrides: Vec<Override>,
}

impl App {
    pub(super) fn open_session(
        &self,
        overrides: &[String],
        host: &Host,
    ) -> Result<ComposeSession, Error> {
        let sources = search_path::default_sources(self, host)?;
        let mut overrides = parse_overrides(overrides, &mut SeededShuffle::new(host.seed))?;
        for line in &mut overrides {
            self.resolve_alias(line);
        }
        let mut repository = Repository::new(sources.clone());
        if let Some((provider, entries)) =
            self.configured_search_path(&repository, &overrides, host)?
        {
            let sources = search_path::extend_sources(self, host, sources, provider, &entries)?;
            repository.set_sources(sources);
            let absent = repository.sources().iter();
            for source in absent.filter(|source| !source.is_available()) {
                host.warnings
                    .add_once(format!("{} is not available.", source.info()));
            }
        }
        Ok(ComposeSession {
            repository,
            overrides,
        })
    }

    fn resolve_alias(&self, line: &mut Override) {
        let group = line.key_or_group.as_str();
        if let Some(Literal::Str(name)) = &mut line.element
            && let Some(alias) = self
                .aliases
                .iter()
                .find(|alias| alias.group == group && alias.alias.eq_ignore_ascii_case(name))
        {
            alias.option.clone_into(name);
        }
    }

    /// `hydra.searchpath` of the command line or, failing that, of the primary config.
    fn configured_search_path(
        &self,
        repository: &Repository,
        overrides: &[Override],
        host: &Host,
    ) -> Result<Option<(&'static str, Vec<String>)>, Error> {
        let mut primary = Node::empty_dict();
        if let Some(name) = &self.config_name
            && let Some(loaded) = repository.load_config(name)?
        {
            if loaded.config.as_dict().is_none() {
                return Err(Error::PrimaryNotMapping {
                    config: name.clone(),
                    found: loaded.config.type_name(),
                });
            }
            primary = loaded.config.clone();
        }
        let on_command_line = overrides.iter().find(|line| {
            line.kind == OverrideKind::Change
                && line.package.is_none()
                && line.key_or_group == "hydra.searchpath"
        });
        let (provider, list) = match on_command_line.and_then(|line| line.element.as_ref()) {
            Some(element) if *element != Literal::Null => (
                "hydra.searchpath in command-line",
                Some(apply::literal_node(element)?),
            ),
            _ => {
                let context = host.compose_context();
                let list = resolve::select_key(&primary, "hydra.searchpath", &context)?
                    .map(|list| resolve_list(&primary, list, &context))
                    .transpose()?;
                ("hydra.searchpath in main", list)
            }
        };
        let invalid = |node: &Node| Error::InvalidSearchPath {
            reason: format!("got {}", node.value.repr()),
        };
        match list {
            None => Ok(None),
            Some(list) if list.is_null() => Ok(None),
            Some(list) => {
                let items = list.as_list().ok_or_else(|| invalid(&list))?;
                let texts = items
                    .iter()
                    .map(|item| {
                        item.as_str()
                            .map(str::to_owned)
                            .ok_or_else(|| invalid(&list))
                    })
                    .collect::<Result<_, _>>()?;
                Ok(Some((provider, texts)))
            }
        }
    }
}

/// Parses every override of a command line.
pub(super) fn parse_overrides(
    lines: &[String],
    shuffle: &mut dyn Shuffle,
) -> Result<Vec<Override>, Error> {
    lines
        .iter()
        .map(|line| {
            parse_override(line, shuffle).map_err(|error| Error::OverrideGrammar {
                line: line.clone(),
                error,
            })
        })
        .collect()
}

/// A list selected from `root`, with its items resolved.
fn resolve_list(root: &Node, list: Node, context: &Context) -> Result<Node, ValueError> {
    let Some(items) = list.as_list() else {
        return Ok(list);
    };
    let items = items.iter().map(|item| match item.as_str() {
        Some(text) if item.is_interpolation() => resolve::evaluate_text(root, text, context),
        _ => Ok(item.clone()),
    });
    Ok(Node::new(items.collect::<Result<Vec<_>, _>>()?))
}
