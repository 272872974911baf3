//! Composition: the configs of the defaults list merged in order, then the overrides of values,
//! then what Hydra itself fills in under `hydra`.

use super::apply;
use super::builtin::{EMPTY_CONFIG, HYDRA_VERSION, VERSION_BASE};
use super::choices::Choices;
use super::defaults_list::{self, ResultDefault};
use super::error::Error;
use super::repository::{Loaded, Repository};
use super::schema;
use super::search_path;
use super::source::SourceInfo;
use super::tree::{Tree, TreeBuilder};
use super::{App, Host, RunMode};
use crate::context::Context;
use crate::error::Error as ValueError;
use crate::grammar::interpolation;
use crate::grammar::overrides::{SeededShuffle, Shuffle, parse_override};
use crate::grammar::{Element as Literal, Override, OverrideKind, Sweep};
use crate::key::Key;
use crate::merge::{assign, merge};
use crate::node::{Node, Value};
use crate::resolve;
use crate::update::{Update, update};

const REPLACE: Update = Update {
    merge: false,
    force_add: false,
};

/// Which configs are merged, and how that came about.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The configs in the order they are merged.
    pub list: Vec<ResultDefault>,
    /// Every group met, with its option.
    pub choices: Vec<(String, Option<String>)>,
    /// Remarks that did not stop composition.
    pub warnings: Vec<String>,
    pub(crate) tree: Tree,
}

/// A composed config.
#[derive(Debug, Clone)]
pub struct Composed {
    /// The whole config, with `hydra`.
    pub config: Node,
    /// How it came about.
    pub defaults: Defaults,
    /// The search path.
    pub sources: Vec<SourceInfo>,
    pub(crate) host: Host,
}

/// A search path with the overrides that were parsed against it.
struct Session {
    repository: Repository,
    overrides: Vec<Override>,
    warnings: Vec<String>,
}

impl App {
    /// Composes the config of one job or, in [`RunMode::Multirun`], the config that a sweep starts from.
    pub fn compose(
        &self,
        overrides: &[String],
        mode: RunMode,
        host: &Host,
    ) -> Result<Composed, Error> {
        let session = self.session(overrides, host)?;
        check_sweeps(&session.overrides, mode)?;
        self.compose_session(&session, mode, host)
    }

    /// Composes without looking at sweeps, to find out the run mode.
    pub(super) fn compose_unchecked(
        &self,
        overrides: &[String],
        mode: RunMode,
        host: &Host,
    ) -> Result<Composed, Error> {
        self.compose_session(&self.session(overrides, host)?, mode, host)
    }

    /// The defaults list and tree alone; the configs are not merged.
    pub fn defaults(
        &self,
        overrides: &[String],
        mode: RunMode,
        host: &Host,
    ) -> Result<Defaults, Error> {
        let session = self.session(overrides, host)?;
        self.defaults_of(&session, mode, host)
            .map(|(defaults, _)| defaults)
    }

    fn session(&self, overrides: &[String], host: &Host) -> Result<Session, Error> {
        let sources = search_path::sources(self, host)?;
        let overrides = parse_overrides(overrides, &mut SeededShuffle::new(host.seed))?;
        let mut repository = Repository::new(sources.clone());
        let mut warnings = Vec::new();
        if let Some((provider, entries)) =
            self.configured_search_path(&repository, &overrides, host)?
        {
            let sources = search_path::extended(self, host, sources, provider, &entries)?;
            repository.set_sources(sources);
            warnings.extend(
                repository
                    .sources()
                    .iter()
                    .filter(|source| !source.available())
                    .map(|source| format!("{} is not available.", source.info())),
            );
        }
        Ok(Session {
            repository,
            overrides,
            warnings,
        })
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
            && let Some(loaded) = repository.load(name)?
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
                Some(apply::node(element)?),
            ),
            _ => {
                let context = host.context();
                let list = resolve::select(&primary, "hydra.searchpath", &context)?
                    .map(|list| within(&primary, list, &context))
                    .transpose()?;
                ("hydra.searchpath in main", list)
            }
        };
        let invalid = |found: &Node| Error::InvalidSearchPath {
            reason: format!("got {}", found.value.repr()),
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

    fn defaults_of(
        &self,
        session: &Session,
        mode: RunMode,
        host: &Host,
    ) -> Result<(Defaults, Vec<Override>), Error> {
        let mut choices = Choices::new(&session.repository, &session.overrides)?;
        let context = host.context();
        let resolve = |scope: Node, text: &str| resolve::evaluate(&scope, text, &context);
        let mut builder = TreeBuilder {
            repository: &session.repository,
            choices: &mut choices,
            skip_missing: mode == RunMode::Multirun,
            resolve: &resolve,
            warnings: session.warnings.clone(),
        };
        let tree = builder.build(self.config_name.as_deref().unwrap_or(EMPTY_CONFIG))?;
        let warnings = builder.warnings;
        let list = defaults_list::flatten(&tree)?;
        choices.ensure_all_used()?;
        let defaults = Defaults {
            list,
            choices: choices.known.into_iter().collect(),
            warnings,
            tree,
        };
        Ok((defaults, choices.values))
    }

    fn compose_session(
        &self,
        session: &Session,
        mode: RunMode,
        host: &Host,
    ) -> Result<Composed, Error> {
        let (defaults, values) = self.defaults_of(session, mode, host)?;
        let context = host.context();
        let mut config = Node::empty_dict();
        for item in &defaults.list {
            merge_default(&mut config, item, &session.repository, &context)?;
        }
        config.set_struct(Some(true));
        for line in &values {
            apply::apply(&mut config, line, &session.repository, &context)?;
        }
        let mut composed = Composed {
            config,
            defaults,
            sources: session.repository.infos().cloned().collect(),
            host: host.clone(),
        };
        self.fill(&mut composed, &session.overrides)?;
        Ok(composed)
    }

    /// Writes what Hydra knows about the run under `hydra`.
    fn fill(&self, composed: &mut Composed, overrides: &[Override]) -> Result<(), Error> {
        let (hydra, task): (Vec<_>, Vec<_>) =
            overrides.iter().partition(|line| line.is_hydra_override());
        composed.append_texts("hydra.overrides.hydra", &hydra)?;
        composed.append_texts("hydra.overrides.task", &task)?;

        for (group, option) in composed.defaults.choices.clone() {
            composed.insert("hydra.runtime.choices", &group, Node::new(option))?;
        }
        for name in composed.texts("hydra.job.env_copy")? {
            let value = composed.host.env.get(&name).cloned();
            let value = value.ok_or_else(|| Error::MissingEnvironment { name: name.clone() })?;
            composed.insert("hydra.job.env_set", &name, Node::new(value))?;
        }

        composed.set("hydra.runtime.version", Node::new(HYDRA_VERSION))?;
        composed.set("hydra.runtime.version_base", Node::new(VERSION_BASE))?;
        let cwd = composed.host.cwd.to_string_lossy().into_owned();
        composed.set("hydra.runtime.cwd", Node::new(cwd))?;
        let sources: Vec<Node> = composed.sources.iter().map(source_node).collect();
        composed.set("hydra.runtime.config_sources", Node::new(sources))?;

        let name = composed.value("hydra.job.name");
        if !name.is_ok_and(|name| !name.is_null()) {
            composed.set("hydra.job.name", Node::new(self.job_name.as_str()))?;
        }
        let dirname = override_dirname(composed, &task)?;
        composed.set("hydra.job.override_dirname", Node::new(dirname))?;
        composed.set("hydra.job.config_name", Node::new(self.config_name.clone()))
    }
}

impl Composed {
    /// The config of the job: everything but `hydra`.
    pub fn job(&self) -> Node {
        let mut job = self.config.clone();
        job.remove("hydra");
        job
    }

    /// Hydra's own config, under its key.
    pub fn hydra(&self) -> Node {
        let mut root = Node::empty_dict();
        if let Some(hydra) = self.config.get("hydra") {
            root.insert("hydra", hydra.clone());
        }
        root
    }

    /// The resolved value at a key; null where there is none.
    pub fn value(&self, key: &str) -> Result<Node, Error> {
        self.value_in(key, &self.host.context())
    }

    pub(super) fn value_in(&self, key: &str, context: &Context) -> Result<Node, Error> {
        let found = resolve::select(&self.config, key, context)?;
        Ok(found.unwrap_or_else(|| Node::new(Value::Null)))
    }

    /// The resolved value at a key as Python's `str` shows it.
    pub(super) fn text(&self, key: &str) -> Result<String, Error> {
        self.value(key).map(|node| node.to_string())
    }

    /// The resolved items of a list as text.
    fn texts(&self, key: &str) -> Result<Vec<String>, Error> {
        let count = self.value(key)?.as_list().map_or(0, <[Node]>::len);
        (0..count)
            .map(|at| self.text(&format!("{key}[{at}]")))
            .collect()
    }

    /// `hydra.overrides.task` or `hydra.overrides.hydra`, where `${…}` is part of the override.
    pub(super) fn override_lines(&self, key: &str) -> Result<Vec<String>, Error> {
        let list = self.value(key)?;
        let items = list.as_list().unwrap_or_default();
        Ok(items.iter().map(ToString::to_string).collect())
    }

    /// Sets a key of Hydra's config, converted to its type.
    pub(super) fn set(&mut self, key: &str, value: Node) -> Result<(), Error> {
        let context = self.host.context();
        Ok(update(&mut self.config, key, value, REPLACE, &context)?)
    }

    /// Adds a key to a mapping of Hydra's config.
    fn insert(&mut self, mapping: &str, key: &str, value: Node) -> Result<(), Error> {
        let place = at_path(&mut self.config, mapping)?;
        // Dictionaries of Hydra's config take new keys even though the config is a struct.
        place.set_struct(Some(false));
        let result = assign(place, &[], &Key::from(key), value);
        place.set_struct(None);
        Ok(result?)
    }

    fn append_texts(&mut self, key: &str, lines: &[&Override]) -> Result<(), Error> {
        for line in lines.iter().filter(|line| line.input_line.contains("${")) {
            interpolation::parse(&line.input_line).map_err(|error| Error::OverrideGrammar {
                line: line.input_line.clone(),
                error,
            })?;
        }
        let list = at_path(&mut self.config, key)?;
        let list = list.as_list_mut().ok_or_else(|| Error::HydraChanged {
            key: key.to_owned(),
        })?;
        list.extend(lines.iter().map(|line| Node::new(line.input_line.as_str())));
        Ok(())
    }
}

fn at_path<'a>(root: &'a mut Node, key: &str) -> Result<&'a mut Node, Error> {
    key.split('.').try_fold(root, |node, part| {
        node.get_mut(part).ok_or_else(|| Error::HydraChanged {
            key: key.to_owned(),
        })
    })
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
    let Some(loaded) = repository.load(&item.config_path)? else {
        return Ok(());
    };
    let content = match schema::typed(&item.config_path) {
        Some(typed) if !loaded.is_schema => merged_with_schema(typed, &loaded, item, context)?,
        _ => loaded.config.clone(),
    };
    let embedded = embed(content, &item.package, context).map_err(failed)?;
    if !item.primary
        && item.config_path != "hydra/config"
        && resolve::select(&embedded, "hydra.searchpath", context)
            .map_err(failed)?
            .is_some_and(|list| !list.is_null())
    {
        return Err(Error::SearchPathNotPrimary {
            config: item.config_path.clone(),
        });
    }
    merge(config, &embedded, context).map_err(failed)
}

/// A user's file that has the name of one of Hydra's typed configs must fit its type.
fn merged_with_schema(
    mut typed: Node,
    loaded: &Loaded,
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
    merge(&mut typed, &loaded.config, context).map_err(|error| Error::Merge {
        config: item.config_path.clone(),
        error,
    })?;
    Ok(typed)
}

/// Puts a config under its package.
fn embed(content: Node, package: &str, context: &Context) -> Result<Node, ValueError> {
    if package.is_empty() {
        return Ok(content);
    }
    let mut root = Node::empty_dict();
    update(&mut root, package, content, REPLACE, context)?;
    Ok(root)
}

fn source_node(info: &SourceInfo) -> Node {
    let mut node = Node::empty_dict();
    node.insert("path", Node::new(info.path.as_str()));
    node.insert("schema", Node::new(info.scheme.as_str()));
    node.insert("provider", Node::new(info.provider.as_str()));
    node
}

/// The job's overrides as one sorted text for a directory name.
fn override_dirname(composed: &Composed, overrides: &[&Override]) -> Result<String, Error> {
    const CONFIG: &str = "hydra.job.config.override_dirname";
    let exclude = composed.texts(&format!("{CONFIG}.exclude_keys"))?;
    let kv_sep = composed.text(&format!("{CONFIG}.kv_sep"))?;
    let item_sep = composed.text(&format!("{CONFIG}.item_sep"))?;
    let mut lines: Vec<&str> = overrides
        .iter()
        .filter(|line| !exclude.contains(&line.key_or_group))
        .map(|line| line.input_line.as_str())
        .collect();
    lines.sort_unstable();
    Ok(lines.join(&item_sep).replace('=', &kv_sep))
}

/// A list selected from `root`, with its items resolved.
fn within(root: &Node, list: Node, context: &Context) -> Result<Node, ValueError> {
    let Some(items) = list.as_list() else {
        return Ok(list);
    };
    let items = items.iter().map(|item| match item.as_str() {
        Some(text) if item.is_interpolation() => resolve::evaluate(root, text, context),
        _ => Ok(item.clone()),
    });
    Ok(Node::new(items.collect::<Result<Vec<_>, _>>()?))
}
