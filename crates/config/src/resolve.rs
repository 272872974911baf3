//! Configs with their interpolations resolved: a copy, in place, or one value.

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::interpolate::{Evaluator, Strictness, start_of};
use crate::key::Key;
use crate::node::{Dict, Node, Value};
use crate::place::NodePlace;

/// How deep a resolved config may nest; a config can contain itself by interpolation.
const MAX_DEPTH: usize = 200;

/// What [`select_with`] does when the value is not simply there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Select {
    /// Whether reaching a missing value (`???`) is an error; otherwise the result is `None`.
    pub throw_on_missing: bool,
    /// Whether a failing interpolation is an error; otherwise the result is `None`.
    pub throw_on_resolution_failure: bool,
}

impl Default for Select {
    fn default() -> Self {
        Self {
            throw_on_missing: false,
            throw_on_resolution_failure: true,
        }
    }
}

/// A value found by a key path, and where it really stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selected {
    /// The node; containers still hold their interpolations.
    pub node: Node,
    /// The way to it from the top, after following interpolations; `None` for a computed value.
    pub path: Option<Vec<Key>>,
}

/// Looks up a key path as `OmegaConf.select` does; `None` when nothing or `???` is there.
pub fn select_key(root: &Node, key: &str, context: &Context) -> Result<Option<Node>> {
    let selected = select_with(root, key, context, Select::default())?;
    Ok(selected.map(|selected| selected.node))
}

/// Looks up a key path; see [`Select`].
pub(crate) fn select_with(
    root: &Node,
    key: &str,
    context: &Context,
    options: Select,
) -> Result<Option<Selected>> {
    let evaluator = Evaluator::new(context);
    let top = NodePlace::root(root);
    // A key without dots is relative to the config given, so that is what one dot means.
    let relative = if key.starts_with('.') {
        key.to_owned()
    } else {
        format!(".{key}")
    };
    let Some((start, rest)) = start_of(&relative, &top) else {
        return Err(ErrorKind::Key(key.to_owned()).into());
    };
    let strict = Strictness {
        missing: options.throw_on_missing,
        failure: options.throw_on_resolution_failure,
    };
    let selected = match evaluator.select_path(&start, rest, strict) {
        Err(error) if matches!(error.kind(), ErrorKind::NotContainer { .. }) => None,
        other => other?,
    };
    Ok(selected
        .filter(|place| !place.node().is_missing())
        .map(|place| Selected {
            node: place.node().clone(),
            path: tree_path(&place),
        }))
}

/// The way to a node of the tree itself.
fn tree_path(place: &NodePlace<'_>) -> Option<Vec<Key>> {
    place.in_tree()?;
    Some(
        place
            .path_steps()
            .into_iter()
            .map(|step| step.key)
            .collect(),
    )
}

/// Resolves a text as if it were a value inside a mapping directly below `root`.
pub fn evaluate_text(root: &Node, text: &str, context: &Context) -> Result<Node> {
    let top = NodePlace::root(root);
    let holder = NodePlace::from_resolver(Node::empty_dict(), Some(top), None);
    let place = NodePlace::from_resolver(Node::new(text), Some(holder), Some(Key::from("value")));
    let result = Evaluator::new(context).dereference(&place)?;
    Ok(result.node().clone())
}

/// A copy with every interpolation replaced by its value, as `OmegaConf.to_container(resolve=True)`.
///
/// Missing values stay; an interpolation that leads to one is an error.
pub fn to_container(root: &Node, context: &Context) -> Result<Node> {
    resolve_content(&Evaluator::new(context), &NodePlace::root(root), 0)
}

fn resolve_content(evaluator: &Evaluator<'_>, place: &NodePlace<'_>, depth: usize) -> Result<Node> {
    if depth > MAX_DEPTH {
        let message = "interpolations make this config contain itself".to_owned();
        return Err(Error::from(ErrorKind::Limit(message)).with_key(place.full_key()));
    }
    let target = evaluator.dereference(place)?;
    let node = target.node();
    let value = match &node.value {
        _ if target.is_bare() => node.value.clone(),
        Value::Dict(dict) => {
            let mut out = Dict::with_capacity(dict.len());
            for child in target.children() {
                let resolved = resolve_content(evaluator, &child, depth + 1)?;
                if let Some(key) = child.key() {
                    out.insert(key.clone(), resolved);
                }
            }
            Value::Dict(out)
        }
        Value::List(_) => Value::List(
            target
                .children()
                .iter()
                .map(|child| resolve_content(evaluator, child, depth + 1))
                .collect::<Result<_>>()?,
        ),
        other => other.clone(),
    };
    Ok(Node {
        value,
        origin: node.origin.clone(),
        flags: node.flags,
        hint: place.node().hint.clone().or_else(|| node.hint.clone()),
        class: node.class.clone(),
    })
}

/// Resolves every interpolation in place, as `OmegaConf.resolve` does.
///
/// Values are written one after another, so a later interpolation sees what an earlier one became;
/// one that leads to a missing value becomes missing.
pub fn resolve_all(root: &mut Node, context: &Context) -> Result<()> {
    resolve_at(root, &[], context)
}

/// Resolves in place below one node; interpolations may still lead anywhere in `root`.
pub(crate) fn resolve_at(root: &mut Node, path: &[Key], context: &Context) -> Result<()> {
    let mut path = path.to_vec();
    resolve_below(root, &mut path, context, 0)
}

fn resolve_below(
    root: &mut Node,
    path: &mut Vec<Key>,
    context: &Context,
    depth: usize,
) -> Result<()> {
    if depth > MAX_DEPTH {
        let message = "interpolations make this config contain itself".to_owned();
        return Err(ErrorKind::Limit(message).into());
    }
    let Some(node) = node_at(root, path) else {
        return Ok(());
    };
    if node.is_interpolation() {
        return resolve_value(root, path, context, depth);
    }
    let keys: Vec<Key> = match &node.value {
        Value::Dict(dict) => dict.keys().cloned().collect(),
        Value::List(list) => (0..list.len() as i64).map(Key::from).collect(),
        _ => return Ok(()),
    };
    for key in keys {
        path.push(key);
        resolve_below(root, path, context, depth + 1)?;
        path.pop();
    }
    Ok(())
}

fn resolve_value(root: &mut Node, path: &[Key], context: &Context, depth: usize) -> Result<()> {
    let resolved = {
        let evaluator = Evaluator::new(context);
        let Some(place) = place_at(root, path) else {
            return Ok(());
        };
        match evaluator.dereference(&place) {
            Err(error) if matches!(error.kind(), ErrorKind::InterpolationToMissing(_)) => {
                Resolution::Value(Node::missing())
            }
            Err(error) => return Err(error),
            Ok(target) if target.is_bare() && target.node().is_container() => {
                let what = target.node().describe();
                let kind = ErrorKind::UnsupportedValue(format!("{what} made by a resolver"));
                let hint = "make a config of it with `oc.create`";
                let error = Error::from(kind).with_hint(hint).with_key(place.full_key());
                return Err(error.with_origin(place.node().origin.as_ref()));
            }
            Ok(target) if target.is_container() => match tree_path(&target) {
                Some(target) => Resolution::Container(target),
                // OmegaConf resolves the target where it stands, which it may not change.
                None if target.node().flags.readonly == Some(true)
                    && holds_interpolation(target.node()) =>
                {
                    return Err(Error::from(ErrorKind::Readonly).with_key(place.full_key()));
                }
                None => Resolution::Value(resolve_content(&evaluator, &target, depth)?),
            },
            Ok(target) => Resolution::Value(target.node().clone()),
        }
    };
    let node = match resolved {
        Resolution::Value(node) => node,
        Resolution::Container(mut target) => {
            // The container is resolved where it stands, and then copied.
            resolve_below(root, &mut target, context, depth + 1)?;
            match node_at(root, &target) {
                Some(node) => node.clone(),
                None => return Ok(()),
            }
        }
    };
    check_text(&node)?;
    if let Some(slot) = get_mut(root, path) {
        slot.value = node.value;
        if slot.class.is_none() {
            slot.class = node.class;
        }
        if slot.hint.is_none() && matches!(slot.value, Value::Dict(_) | Value::List(_)) {
            slot.hint = node.hint;
        }
    }
    Ok(())
}

/// Whether a value below the node is an interpolation.
fn holds_interpolation(node: &Node) -> bool {
    match &node.value {
        Value::Dict(dict) => dict.values().any(holds_interpolation),
        Value::List(list) => list.iter().any(holds_interpolation),
        _ => node.is_interpolation(),
    }
}

/// What an interpolation in place becomes.
enum Resolution {
    Value(Node),
    Container(Vec<Key>),
}

/// Text that looks like an interpolation again, once unescaped, must be a valid one.
fn check_text(node: &Node) -> Result<()> {
    match node.as_str() {
        Some(text) if node.is_interpolation() => {
            match crate::grammar::interpolation::parse_template(text) {
                Ok(_) => Ok(()),
                Err(error) => Err(ErrorKind::Grammar(error.to_string()).into()),
            }
        }
        _ => Ok(()),
    }
}

fn place_at<'a>(root: &'a Node, path: &[Key]) -> Option<NodePlace<'a>> {
    let mut place = NodePlace::root(root);
    for key in path {
        place = match &place.node().value {
            Value::List(_) => place.item(index(key)?)?,
            _ => place.entry(key)?,
        };
    }
    Some(place)
}

fn index(key: &Key) -> Option<usize> {
    match key {
        Key::Int(value) => value.as_i64().and_then(|value| usize::try_from(value).ok()),
        _ => None,
    }
}

/// The node at a path of keys and list indices.
pub fn node_at<'a>(root: &'a Node, path: &[Key]) -> Option<&'a Node> {
    path.iter().try_fold(root, |node, key| match &node.value {
        Value::List(list) => list.get(index(key)?),
        Value::Dict(dict) => dict.get(key),
        _ => None,
    })
}

/// The node at a path of keys and list indices, for change.
pub fn get_mut<'a>(root: &'a mut Node, path: &[Key]) -> Option<&'a mut Node> {
    path.iter()
        .try_fold(root, |node, key| match &mut node.value {
            Value::List(list) => list.get_mut(index(key)?),
            Value::Dict(dict) => dict.get_mut(key),
            _ => None,
        })
}

/// The container that the interpolation at a path leads to; `None` when it leads to none.
pub(crate) fn container_behind(root: &Node, path: &[Key], context: &Context) -> Option<Node> {
    let place = place_at(root, path)?;
    let target = Evaluator::new(context).dereference(&place).ok()?;
    target.is_container().then(|| target.node().clone())
}
