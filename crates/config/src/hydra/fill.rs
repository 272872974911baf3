//! What Hydra itself writes under `hydra`: overrides, choices, the job's name, the search path.

use super::App;
use super::builtin::{HYDRA_VERSION, VERSION_BASE};
use super::compose::{Composed, REPLACE};
use super::error::Error;
use super::source::SourceInfo;
use crate::error::ErrorKind;
use crate::grammar::{Override, interpolation};
use crate::key::Key;
use crate::merge::assign_node;
use crate::node::Node;
use crate::update::update_key;

impl App {
    /// Writes what Hydra knows about the run under `hydra`.
    pub(super) fn fill_runtime(
        &self,
        composed: &mut Composed,
        overrides: &[Override],
    ) -> Result<(), Error> {
        let (hydra, task): (Vec<_>, Vec<_>) =
            overrides.iter().partition(|line| line.is_hydra_override());
        composed.append_texts("hydra.overrides.hydra", &hydra)?;
        composed.append_texts("hydra.overrides.task", &task)?;

        for (group, option) in composed.defaults.choices.clone() {
            composed.insert_key("hydra.runtime.choices", &group, Node::new(option))?;
        }
        for name in composed.resolved_texts("hydra.job.env_copy")? {
            let value = composed.host.env.get(&name).cloned();
            let value = value.ok_or_else(|| Error::MissingEnvironment { name: name.clone() })?;
            composed.insert_key("hydra.job.env_set", &name, Node::new(value))?;
        }

        composed.set_key("hydra.runtime.version", Node::new(HYDRA_VERSION))?;
        composed.set_key("hydra.runtime.version_base", Node::new(VERSION_BASE))?;
        let cwd = composed.host.cwd.to_string_lossy().into_owned();
        composed.set_key("hydra.runtime.cwd", Node::new(cwd))?;
        let sources: Vec<Node> = composed.sources.iter().map(source_node).collect();
        composed.set_key("hydra.runtime.config_sources", Node::new(sources))?;

        let name = composed.resolved_value("hydra.job.name");
        if !name.is_ok_and(|name| !name.is_null()) {
            composed.set_key("hydra.job.name", Node::new(self.job_name.as_str()))?;
        }
        let dirname = override_dirname(composed, &task)?;
        composed.set_key("hydra.job.override_dirname", Node::new(dirname))?;
        composed.set_key("hydra.job.config_name", Node::new(self.config_name.clone()))
    }
}

impl Composed {
    /// Sets a key of Hydra's config, converted to its type.
    pub(super) fn set_key(&mut self, key: &str, value: Node) -> Result<(), Error> {
        let context = self.host.compose_context();
        Ok(update_key(&mut self.config, key, value, REPLACE, &context)?)
    }

    /// Adds a key to a mapping of Hydra's config.
    fn insert_key(&mut self, mapping: &str, key: &str, value: Node) -> Result<(), Error> {
        let place = at_path(&mut self.config, mapping)?;
        // Dictionaries of Hydra's config take new keys even though the config is a struct.
        place.set_struct(Some(false));
        let result = assign_node(place, &[], &Key::from(key), value);
        place.set_struct(None);
        Ok(result?)
    }

    fn append_texts(&mut self, key: &str, lines: &[&Override]) -> Result<(), Error> {
        for line in lines.iter().filter(|line| line.input_line.contains("${")) {
            interpolation::parse_template(&line.input_line).map_err(|error| Error::Override {
                line: line.input_line.clone(),
                error: ErrorKind::Grammar(error.to_string()).into(),
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
    let exclude = composed.resolved_texts(&format!("{CONFIG}.exclude_keys"))?;
    let kv_sep = composed.resolved_text(&format!("{CONFIG}.kv_sep"))?;
    let item_sep = composed.resolved_text(&format!("{CONFIG}.item_sep"))?;
    let mut lines: Vec<&str> = overrides
        .iter()
        .filter(|line| !exclude.contains(&line.key_or_group))
        .map(|line| line.input_line.as_str())
        .collect();
    lines.sort_unstable();
    Ok(lines.join(&item_sep).replace('=', &kv_sep))
}
