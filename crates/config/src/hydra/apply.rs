//! Overrides of values: change, add and delete keys of a composed config.

use super::error::Error;
use super::meant;
use super::repository::Repository;
use crate::context::Context;
use crate::error::{Error as ValueError, ErrorKind};
use crate::grammar::{Element as Literal, Override, OverrideKind};
use crate::key::Key;
use crate::node::{Dict, Node, Value};
use crate::resolve;
use crate::update::{self, Update};

const MERGE: Update = Update {
    merge: true,
    force_add: false,
};

const FORCE_MERGE: Update = Update {
    merge: true,
    force_add: true,
};

pub(super) fn apply_override(
    config: &mut Node,
    line: &Override,
    repository: &Repository,
    context: &Context,
) -> Result<(), Error> {
    let key = &line.key_or_group;
    if line.package.is_some() {
        return Err(Error::UnknownGroup {
            line: line.input_line.clone(),
            group: key.clone(),
            groups: repository.all_groups(),
        });
    }
    let failed = |error| Error::Override {
        line: line.input_line.clone(),
        error,
    };
    let value = literal_node(&line.value()).map_err(failed)?;
    match line.kind {
        OverrideKind::Delete => delete_key(config, line, &value, context),
        OverrideKind::Add => {
            let existing = resolve::select_key(config, key, context).map_err(failed)?;
            let is_container = value.as_dict().is_some() || value.as_list().is_some();
            if existing.is_some_and(|node| !node.is_null()) && !is_container {
                return Err(Error::AddExisting {
                    key: key.clone(),
                    line: line.input_line.clone(),
                });
            }
            update::update_key(config, key, value, FORCE_MERGE, context).map_err(failed)
        }
        OverrideKind::ForceAdd => {
            update::update_key(config, key, value, FORCE_MERGE, context).map_err(failed)
        }
        OverrideKind::Change => {
            let existing = resolve::select_key(config, key, context).ok().flatten();
            let inside = existing.and_then(|existing| unknown_inside(&existing, &value, key));
            let changed = update::update_key(config, key, value, MERGE, context);
            changed.map_err(|error| match error.kind() {
                ErrorKind::Struct { .. } | ErrorKind::Key(_) => {
                    let key = inside.unwrap_or_else(|| key.clone());
                    Error::KeyNotInStruct {
                        meant: meant::likely_keys(config, &key),
                        key,
                        line: line.input_line.clone(),
                        error,
                    }
                }
                _ => failed(error),
            })
        }
    }
}

/// The first key of a map that is written over another one which does not have it: `env.A` of `env={A: 1}`.
fn unknown_inside(existing: &Node, value: &Node, path: &str) -> Option<String> {
    let (known, written) = (existing.as_dict()?, value.as_dict()?);
    written.into_iter().find_map(|(key, value)| {
        let path = format!("{path}.{key}");
        match known.get(key) {
            Some(existing) => unknown_inside(existing, value, &path),
            None => Some(path),
        }
    })
}

fn delete_key(
    config: &mut Node,
    line: &Override,
    value: &Node,
    context: &Context,
) -> Result<(), Error> {
    let key = &line.key_or_group;
    let failed = |error| Error::Override {
        line: line.input_line.clone(),
        error,
    };
    let current = resolve::select_key(config, key, context).map_err(failed)?;
    let Some(current) = current.filter(|current| !current.is_null()) else {
        return Err(Error::DeleteMissing { key: key.clone() });
    };
    if !value.is_null() && !value.equals(&current) {
        return Err(Error::DeleteMismatch {
            key: key.clone(),
            found: current.to_string(),
            wanted: value.to_string(),
        });
    }
    config.set_struct(Some(false));
    let result = update::delete_key(config, key, context).map_err(failed);
    config.set_struct(Some(true));
    result.map(drop)
}

/// The value of an override as a config node.
pub(super) fn literal_node(literal: &Literal) -> Result<Node, ValueError> {
    let value = match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(value.clone()),
        Literal::Float(value) => Value::Float(*value),
        Literal::Str(text) => Value::Str(text.clone()),
        Literal::Quoted(quoted) => Value::Str(quoted.text.clone()),
        Literal::List(items) => {
            Value::List(items.iter().map(literal_node).collect::<Result<_, _>>()?)
        }
        Literal::Dict(entries) => {
            let mut dict = Dict::new();
            for (key, value) in entries {
                dict.insert(self::literal_key(key)?, literal_node(value)?);
            }
            Value::Dict(dict)
        }
        Literal::Sweep(_) => {
            return Err(
                ErrorKind::UnsupportedValue("a sweep inside another value".to_owned()).into(),
            );
        }
    };
    Ok(Node::new(value))
}

fn literal_key(literal: &Literal) -> Result<Key, ValueError> {
    Ok(match literal {
        Literal::Str(text) => Key::Str(text.clone()),
        Literal::Quoted(quoted) => Key::Str(quoted.text.clone()),
        Literal::Int(value) => Key::Int(value.clone()),
        Literal::Float(value) => Key::Float(*value),
        Literal::Bool(value) => Key::Bool(*value),
        Literal::Null => return Err(ErrorKind::KeyType("null".to_owned()).into()),
        Literal::List(_) | Literal::Dict(_) | Literal::Sweep(_) => {
            return Err(ErrorKind::KeyType("a container".to_owned()).into());
        }
    })
}
