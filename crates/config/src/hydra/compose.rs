//! Composition: the configs of the defaults list merged in order, then the overrides of values,
//! then what Hydra itself fills in under `hydra`.

use super::apply;
use super::builtin::EMPTY_CONFIG;
use super::choices::Choices;
use super::defaults_list::{self, ResultDefault};
use super::error::Error;
use super::repository::{LoadedConfig, Repository};
use super::schema;
use super::session::ComposeSession;
use super::source::SourceInfo;
use super::tree::{Tree, TreeBuilder};
use super::{App, Host, RunMode};
use crate::context::Context;
use crate::error::Error as ValueError;
use crate::grammar::{Element as Literal, Override, Sweep};
use crate::merge::merge_into;
use crate::node::{Node, Value};
use crate::resolve;
use crate::update::{Update, update_key};

pub(super) const REPLACE: Update = Update {
    merge: false,
    force_add: false,
};

/// Which configs are merged, and how that came about.
#[derive(Debug, Clone)]
pub struct MergedDefaults {
    /// The configs in the order they are merged.
    pub list: Vec<ResultDefault>,
    /// Every group met, with its option.
    pub choices: Vec<(String, Option<String>)>,
    pub(crate) tree: Tree,
}

#[derive(Debug, Clone)]
pub struct Composed {
    /// The whole config, with `hydra`.
    pub config: Node,
    /// The defaults tree and list that `config` was merged from.
    pub defaults: MergedDefaults,
    pub sources: Vec<SourceInfo>,
    pub(crate) host: Host,
}

impl App {
    /// Composes the config of one job or, in [`RunMode::Multirun`], the config that a sweep starts from.
    pub fn compose(
        &self,
        overrides: &[String],
        mode: RunMode,
        host: &Host,
    ) -> Result<Composed, Error> {
        let session = self.open_session(overrides, host)?;
        check_sweeps(&session.overrides, mode)?;
        self.compose_session(&session, mode, host)
    }

    /// Every group of the application's search path with its options, Hydra's own groups aside.
    pub fn list_groups(&self, host: &Host) -> Result<Vec<(String, Vec<String>)>, Error> {
        let session = self.open_session(&[], host)?;
        let groups = session.repository.all_groups().into_iter();
        Ok(groups
            .filter(|group| !group.starts_with("hydra/"))
            .map(|group| {
                let options = session.repository.group_options(&group);
                (group, options)
            })
            .collect())
    }

    /// Composes without looking at sweeps, to find out the run mode.
    pub(super) fn compose_unchecked(
        &self,
        overrides: &[String],
        mode: RunMode,
        host: &Host,
    ) -> Result<Composed, Error> {
        self.compose_session(&self.open_session(overrides, host)?, mode, host)
    }

    /// The defaults list and tree alone; the configs are not merged.
    pub fn compose_defaults(
        &self,
        overrides: &[String],
        mode: RunMode,
        host: &Host,
    ) -> Result<MergedDefaults, Error> {
        let session = self.open_session(overrides, host)?;
        self.defaults_of(&session, mode, host)
            .map(|(defaults, _)| defaults)
    }

    fn defaults_of(
        &self,
        session: &ComposeSession,
        mode: RunMode,
        host: &Host,
    ) -> Result<(MergedDefaults, Vec<Override>), Error> {
        let mut choices = Choices::new(&session.repository, &session.overrides)?;
        let context = host.compose_context();
        let resolve = |scope: Node, text: &str| resolve::evaluate_text(&scope, text, &context);
        let mut builder = TreeBuilder {
            repository: &session.repository,
            choices: &mut choices,
            skip_missing: mode == RunMode::Multirun,
            resolve: &resolve,
            warnings: &host.warnings,
        };
        let tree = builder.build_tree(self.config_name.as_deref().unwrap_or(EMPTY_CONFIG))?;
        let list = defaults_list::flatten_tree(&tree)?;
        choices.ensure_all_used()?;
        let defaults = MergedDefaults {
            list,
            choices: choices.known.into_iter().collect(),
            tree,
        };
        Ok((defaults, choices.values))
    }

    fn compose_session(
        &self,
        session: &ComposeSession,
        mode: RunMode,
        host: &Host,
    ) -> Result<Composed, Error> {
        let (defaults, values) = self.defaults_of(session, mode, host)?;
        let context = host.compose_context();
        let mut config = Node::empty_dict();
        for item in &defaults.list {
            merge_default(&mut config, item, &session.repository, &context)?;
        }
        config.set_struct(Some(true));
        for line in &values {
            apply::apply_override(&mut config, line, &session.repository, &context)?;
        }
        let mut composed = Composed {
            config,
            defaults,
            sources: session.repository.source_infos().cloned().collect(),
            host: host.clone(),
        };
        self.fill_runtime(&mut composed, &session.overrides)?;
        Ok(composed)
    }
}

impl Composed {
    /// What composing it and resolving its values warned about since the last time.
    pub fn take_warnings(&self) -> Vec<String> {
        self.host.warnings.take_all()
    }

    /// The config of the job: everything but `hydra`.
    pub fn job_config(&self) -> Node {
        let mut job = self.config.clone();
        job.remove("hydra");
        job
    }

    /// Hydra's own config, under its key.
    pub fn hydra_config(&self) -> Node {
        let mut root = Node::empty_dict();
        if let Some(hydra) = self.config.get("hydra") {
            root.insert("hydra", hydra.clone());
        }
        root
    }

    /// The resolved value at a key; null where there is none.
    pub fn resolved_value(&self, key: &str) -> Result<Node, Error> {
        self.value_in(key, &self.host.compose_context())
    }

    pub(super) fn value_in(&self, key: &str, context: &Context) -> Result<Node, Error> {
        let node = resolve::select_key(&self.config, key, context)?;
        Ok(node.unwrap_or_else(|| Node::new(Value::Null)))
    }

    /// The resolved value at a key as Python's `str` shows it.
    pub(super) fn resolved_text(&self, key: &str) -> Result<String, Error> {
        self.resolved_value(key).map(|node| node.to_string())
    }

    /// The resolved items of a list as text.
    pub(super) fn resolved_texts(&self, key: &str) -> Result<Vec<String>, Error> {
        let count = self.resolved_value(key)?.as_list().map_or(0, <[Node]>::len);
        (0..count)
            .map(|at| self.resolved_text(&format!("{key}[{at}]")))
            .collect()
    }

    /// `hydra.overrides.task` or `hydra.overrides.hydra`, where `${…}` is part of the override.
    pub(super) fn override_lines(&self, key: &str) -> Result<Vec<String>, Error> {
        let list = self.resolved_value(key)?;
        let items = list.as_list().unwrap_or_default();
        Ok(items.iter().map(ToString::to_string).collect())
    }
}

fn check_sweeps(overrides: &[Override], mode: RunMode) -> Result<(), Error> {
    for line in overrides {
        let Some(Literal::Sweep(sweep)) = &line.element else {
            continue;
        };
        let text = line.input_line.clone();
        match mode {
            RunMode::Multirun if line.is_hydra_override() => {
                return Err(Error::SweepOverHydra { line: text });
            }
            RunMode::Multirun => {}
            RunMode::Run => {
                return Err(match sweep {
                    Sweep::Choice(choice) if choice.simple_form => {
                        Error::AmbiguousOverride { line: text }
                    }
                    _ => Error::SweepWithoutMultirun { line: text },
                });
            }
        }
    }
    Ok(())
}

fn merge_default(
    config: &mut Node,
    item: &ResultDefault,
    repository: &Repository,
    context: &Context,
) -> Result<(), Error> {
    let failed = |error| Error::Merge {
        config: item.config_path.clone(),
        error,
    };
    let Some(loaded) = repository.load_config(&item.config_path)? else {
        return Ok(());
    };
    let content = match schema::store_config(&item.config_path) {
        Some(typed) if !loaded.is_schema => merged_with_schema(typed, &loaded, item, context)?,
        _ => loaded.config.clone(),
    };
    let embedded = embed_in_package(content, &item.package, context).map_err(failed)?;
    if !item.primary
        && item.config_path != "hydra/config"
        && resolve::select_key(&embedded, "hydra.searchpath", context)
            .map_err(failed)?
            .is_some_and(|list| !list.is_null())
    {
        return Err(Error::SearchPathNotPrimary {
            config: item.config_path.clone(),
        });
    }
    merge_into(config, &embedded, context).map_err(failed)
}

/// A user's file that has the name of one of Hydra's typed configs must fit its type.
fn merged_with_schema(
    mut typed: Node,
    loaded: &LoadedConfig,
    item: &ResultDefault,
    context: &Context,
) -> Result<Node, Error> {
    if item.config_path.trim_end_matches(".yaml") == "hydra/config" {
        return Err(Error::InvalidDefaults {
            config: item.config_path.clone(),
            reason: "a config of this name is Hydra's own, which has a defaults list".to_owned(),
            origin: None,
        });
    }
    merge_into(&mut typed, &loaded.config, context).map_err(|error| Error::Merge {
        config: item.config_path.clone(),
        error,
    })?;
    Ok(typed)
}

/// Puts a config under its package.
fn embed_in_package(content: Node, package: &str, context: &Context) -> Result<Node, ValueError> {
    if package.is_empty() {
        return Ok(content);
    }
    let mut root = Node::empty_dict();
    update_key(&mut root, package, content, REPLACE, context)?;
    Ok(root)
}
