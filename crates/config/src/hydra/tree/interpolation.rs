//! Options chosen by interpolation, such as `joint: ${model}_${dataset}`.

use super::TreeBuilder;
use crate::hydra::element::{Element, GroupChoice};
use crate::hydra::error::Error;
use crate::node::{Node, Value};

impl TreeBuilder<'_> {
    /// What `${…}` in an option may refer to: the choices made so far, and this very list.
    pub(super) fn interpolation_scope(&self, items: &[Element], implicit_self: bool) -> Node {
        let mut scope = Node::empty_dict();
        for (key, name) in &self.choices.known {
            scope.insert(key, Node::new(name.clone()));
        }
        let list = items
            .iter()
            .filter(|item| !(implicit_self && item.is_self()))
            .map(|item| match item.choice() {
                None => Node::new(item.config_path()),
                Some(choice) => {
                    let mut entry = Node::empty_dict();
                    let value = match choice {
                        GroupChoice::Null => Value::Null,
                        GroupChoice::Name(name) => Value::from(name.as_str()),
                        GroupChoice::Options(options) => options
                            .iter()
                            .map(|o| Node::new(o.as_str()))
                            .collect::<Vec<_>>()
                            .into(),
                    };
                    entry.insert(&item.override_key(), Node::new(value));
                    entry
                }
            })
            .collect::<Vec<_>>();
        scope.insert("defaults", Node::new(list));
        scope
    }

    pub(super) fn resolve_name(&self, element: &mut Element, scope: &Node) -> Result<(), Error> {
        let text = if element.is_group() {
            element.name().unwrap_or_default().to_owned()
        } else {
            element.config_path()
        };
        let failed = |reason: String| Error::DefaultsInterpolation {
            text: text.clone(),
            keys: self.choices.known.keys().cloned().collect(),
            reason,
        };
        if element.is_group() && is_legacy(&text) {
            return Err(failed(
                "`${defaults.N.group}` is the form of Hydra 1.0; write `${group}`".to_owned(),
            ));
        }
        let node =
            (self.resolve)(scope.clone(), &text).map_err(|error| failed(error.to_string()))?;
        match node.value {
            Value::Str(name) => {
                element.set_resolved(name);
                Ok(())
            }
            other => Err(failed(format!(
                "the result is not a string but {}",
                other.repr()
            ))),
        }
    }
}

/// `${defaults.0.…`: how Hydra 1.0 referred to another choice.
fn is_legacy(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("${defaults.") else {
        return false;
    };
    let mut chars = rest.chars();
    chars.next().is_some_and(|c| c.is_ascii_digit()) && chars.next() == Some('.')
}
