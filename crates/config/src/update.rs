//! Changing one place of a config by key path, as `OmegaConf.update` and `del` do.

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::keypath;
use crate::merge::{assign_node, effective_flags, full_key, merge_at};
use crate::node::{Node, Value};
use crate::python;
use crate::resolve::{Select, get_mut, node_at, select_with};

/// How [`update_key`] treats what is already there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Update {
    /// Merge a mapping or list into a container, instead of replacing it.
    pub merge: bool,
    /// Add missing keys even to a struct.
    pub force_add: bool,
}

/// Sets the value at a key path. Containers missing on the way are made; scalars in the way are
/// replaced by mappings.
pub fn update_key(
    root: &mut Node,
    key: &str,
    value: Node,
    options: Update,
    context: &Context,
) -> Result<()> {
    let parts = keypath::split_path(key);
    let Some((last, way)) = parts.split_last() else {
        return Ok(());
    };
    let mut path = Vec::with_capacity(parts.len());
    for part in way {
        let step = part_as_key(root, &path, part)?;
        path.push(step);
        if node_at(root, &path).is_some_and(is_absent_container) {
            let message = "this typed container has no content to reach into".to_owned();
            return Err(Error::from(ErrorKind::Type(message)).with_key(full_key(root, &path)));
        }
        if !node_at(root, &path).is_some_and(is_filled_container) {
            let (parent, key) = path.split_at(path.len() - 1);
            with_open_struct(root, parent, options.force_add, |root| {
                assign_node(root, parent, &key[0], Node::empty_dict())
            })?;
        }
    }
    let last = part_as_key(root, &path, last)?;
    with_open_struct(root, &path, options.force_add, |root| {
        let mut target = path.clone();
        target.push(last.clone());
        if options.merge && matches!(value.value, Value::Dict(_) | Value::List(_)) {
            if node_at(root, &target).is_none() {
                return assign_node(root, &path, &last, value);
            }
            if node_at(root, &target).is_some_and(Node::is_container) {
                return merge_at(root, &target, &value, context);
            }
        }
        assign_node(root, &path, &last, value)
    })
}

/// A typed container that is null or missing: unlike a scalar it is not replaced by a mapping.
fn is_absent_container(node: &Node) -> bool {
    node.is_container() && (node.is_null() || node.is_missing())
}

fn is_filled_container(node: &Node) -> bool {
    matches!(node.value, Value::Dict(_) | Value::List(_))
}

/// One part of a key path as a key of the container at `path`.
fn part_as_key(root: &Node, path: &[Key], part: &str) -> Result<Key> {
    if !node_at(root, path).is_some_and(Node::is_list) {
        return Ok(Key::from(part));
    }
    python::parse_int(part).map(Key::Int).ok_or_else(|| {
        let list = full_key(root, path);
        let kind = ErrorKind::Type(format!("`{part}` is not an index into the list `{list}`"));
        kind.into()
    })
}

/// Runs a change while the container at `path` takes new keys, where `open` says so.
fn with_open_struct<T>(
    root: &mut Node,
    path: &[Key],
    open: bool,
    change: impl FnOnce(&mut Node) -> Result<T>,
) -> Result<T> {
    if !open {
        return change(root);
    }
    let before = node_at(root, path).map(|node| node.flags.structured);
    if let Some(node) = get_mut(root, path) {
        node.flags.structured = Some(false);
    }
    let result = change(root);
    if let (Some(node), Some(before)) = (get_mut(root, path), before) {
        node.flags.structured = before;
    }
    result
}

/// Takes out the entry at a key path; a struct or a read-only config refuses.
///
/// As in Hydra, the part after the last dot is one key, so a list item cannot be named `a[0]` here.
pub(crate) fn delete_key(root: &mut Node, key: &str, context: &Context) -> Result<Node> {
    let (parent, last) = match key.rsplit_once('.') {
        None => (Vec::new(), key),
        Some((parent, last)) => {
            let selected = select_with(root, parent, context, Select::default())?;
            match selected.and_then(|selected| selected.path) {
                Some(path) => (path, last),
                None => return Err(not_found(root, &[], key)),
            }
        }
    };
    let flags = effective_flags(root, &parent);
    let refuse = |kind: ErrorKind| Err(Error::from(kind).with_key(key));
    if flags.readonly == Some(true) {
        return refuse(ErrorKind::Readonly);
    }
    let Some(container) = get_mut(root, &parent) else {
        return Err(not_found(root, &[], key));
    };
    match &container.value {
        Value::Dict(_) if flags.structured == Some(true) => {
            return refuse(ErrorKind::Type("a struct does not give up keys".to_owned()));
        }
        Value::Dict(_) => {}
        Value::List(_) => {
            let message = "an item of a list cannot be deleted by key".to_owned();
            return refuse(ErrorKind::Type(message));
        }
        _ => return Err(not_found(root, &parent, last)),
    }
    if let Some(class) = &container.class
        && container.flags.structured != Some(false)
    {
        let message = format!("{} does not give up fields", class.name);
        return refuse(ErrorKind::Type(message));
    }
    match container.remove(last) {
        Some(node) => Ok(node),
        None => Err(not_found(root, &parent, last)),
    }
}

fn not_found(root: &Node, parent: &[Key], key: &str) -> Error {
    let names: Vec<&str> = node_at(root, parent)
        .and_then(Node::as_dict)
        .map(|dict| dict.keys().filter_map(Key::as_str).collect())
        .unwrap_or_default();
    Error::from(ErrorKind::Key(key.to_owned())).suggesting(key, names.into_iter())
}
