//! Merging configs, as `OmegaConf.merge` and `merge_with` do.

use std::sync::Arc;

use crate::context::Context;
use crate::convert;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::keypath::{self, PathStep};
use crate::node::hint::{Hint, HintKind};
use crate::node::{Dict, Flags, Node, Value};
use crate::resolve::{container_behind, get_mut, node_at};

/// Merges `source` into `target`.
///
/// Mappings merge key by key and lists are replaced. A `???` never replaces a value. Where the
/// target is an interpolation to a container, a copy of that container takes the merge.
pub fn merge_into(target: &mut Node, source: &Node, context: &Context) -> Result<()> {
    merge_at(target, &[], source, context)
}

/// Merges into the node at a path of keys; interpolations are followed from `root`.
pub(crate) fn merge_at(
    root: &mut Node,
    path: &[Key],
    source: &Node,
    context: &Context,
) -> Result<()> {
    let mut merger = Merger {
        root,
        path: path.to_vec(),
        context,
    };
    merger.merge_container(source)
}

struct Merger<'a> {
    root: &'a mut Node,
    path: Vec<Key>,
    context: &'a Context,
}

impl Merger<'_> {
    fn current_node(&mut self) -> Result<&mut Node> {
        let key = self.full_key();
        get_mut(self.root, &self.path).ok_or_else(|| ErrorKind::Key(key).into())
    }

    fn full_key(&self) -> String {
        full_key(self.root, &self.path)
    }

    /// Merges a container into the one at the path.
    fn merge_container(&mut self, source: &Node) -> Result<()> {
        let target = self.current_node()?;
        if target.is_dict() && source.is_dict() {
            self.merge_dict(source)
        } else if target.is_list() && source.is_list() {
            self.merge_list(source)
        } else {
            let name = |node: &Node| {
                if node.is_dict() {
                    "a mapping"
                } else {
                    "a list"
                }
            };
            let message = format!("cannot merge {} into {}", name(source), name(target));
            Err(Error::from(ErrorKind::Type(message))
                .with_key(self.full_key())
                .with_origin(source.origin.as_ref()))
        }
    }

    fn merge_dict(&mut self, source: &Node) -> Result<()> {
        let target = self.current_node()?;
        if source.is_null() && target.hint.as_ref().is_some_and(|hint| !hint.optional) {
            let kind = ErrorKind::Validation("this mapping cannot be null".to_owned());
            return Err(Error::from(kind).with_key(self.full_key()));
        }
        if source.is_null() || source.is_interpolation() {
            target.value = source.value.clone();
            target.origin.clone_from(&source.origin);
            adopt_types(target, source);
            return Ok(());
        }
        if (target.is_interpolation() || target.is_missing()) && !source.is_missing() {
            expand_special(target);
        }
        for (key, child) in source.as_dict().into_iter().flatten() {
            self.path.push(key.clone());
            let result = self.merge_entry(key, child);
            self.path.pop();
            result?;
        }
        let target = self.current_node()?;
        adopt_types(target, source);
        adopt_flags(target, source.flags);
        Ok(())
    }

    /// Merges one entry; the path leads to it already.
    fn merge_entry(&mut self, key: &Key, source: &Node) -> Result<()> {
        let Some(target) = get_mut(self.root, &self.path) else {
            return self.set_checked(key, source.clone());
        };
        // Not even an interpolation to a mapping replaces a whole struct.
        if let (Some(class), Value::Dict(_)) = (&target.class, &target.value)
            && !(source.is_dict() || source.is_missing() || source.is_null())
        {
            let message = format!("`{}` takes a mapping only", class.name);
            return Err(Error::from(ErrorKind::Validation(message))
                .with_key(self.full_key())
                .with_origin(source.origin.as_ref()));
        }
        if target.is_container() && target.is_null() && !source.is_missing() && !source.is_null() {
            expand_special(target);
        }
        if target.is_interpolation()
            && let Some(copy) = container_behind(self.root, &self.path, self.context)
        {
            self.set_checked(key, copy)?;
        }
        let target = self.current_node()?;
        match (target.is_container(), source.is_container()) {
            (true, true) => self.merge_container(source),
            (true, false) if source.is_missing() => Ok(()),
            (true, false) | (false, true) => self.set_checked(key, source.clone()),
            (false, false) => self.merge_scalar(key, source),
        }
    }

    fn merge_scalar(&mut self, key: &Key, source: &Node) -> Result<()> {
        let target = self.current_node()?;
        if is_typed(target) {
            return if source.is_missing() {
                Ok(())
            } else {
                self.set_checked(key, source.clone())
            };
        }
        let mut node = source.clone();
        if source.is_missing() {
            // The old value stays, but has to fit the new type.
            node.value = match source.hint.as_deref() {
                None => target.value.clone(),
                Some(hint) => convert::convert_scalar(hint, &target.value).map_err(|message| {
                    Error::from(ErrorKind::Validation(message)).with_origin(target.origin.as_ref())
                })?,
            };
            node.origin.clone_from(&target.origin);
        }
        self.set_checked(key, node)
    }

    fn merge_list(&mut self, source: &Node) -> Result<()> {
        let key = self.full_key();
        let target = self.current_node()?;
        let element = match target.hint.as_deref() {
            Some(Hint {
                kind: HintKind::List(element),
                ..
            }) => Some(element.clone()),
            _ => None,
        };
        match &source.value {
            Value::List(items) => {
                let items = match element {
                    None => items.clone(),
                    Some(element) => items
                        .iter()
                        .map(|item| {
                            convert::convert_node(&element, item).map_err(|message| {
                                Error::from(ErrorKind::Validation(message))
                                    .with_key(key.clone())
                                    .with_origin(item.origin.as_ref())
                            })
                        })
                        .collect::<Result<_>>()?,
                };
                target.value = Value::List(items);
                target.origin.clone_from(&source.origin);
            }
            _ if source.is_missing() => {}
            other => {
                target.value = other.clone();
                target.origin.clone_from(&source.origin);
            }
        }
        adopt_flags(target, source.flags);
        Ok(())
    }

    /// Puts a node under the last key of the path, checked like any assignment.
    fn set_checked(&mut self, key: &Key, node: Node) -> Result<()> {
        let parent = &self.path[..self.path.len() - 1];
        assign_node(self.root, parent, key, node)
    }
}

/// Puts a node into the container at `parent`, as an assignment in Python does: a struct refuses
/// unknown keys, a read-only config refuses everything, a typed place converts or refuses.
pub(crate) fn assign_node(root: &mut Node, parent: &[Key], key: &Key, node: Node) -> Result<()> {
    let flags = effective_flags(root, parent);
    let full_key = full_key_of_child(root, parent, key);
    let origin = node.origin.clone();
    let explain = |kind: ErrorKind| {
        Error::from(kind)
            .with_key(full_key.clone())
            .with_origin(origin.as_ref())
    };
    if flags.readonly == Some(true) {
        return Err(explain(ErrorKind::Readonly));
    }
    let Some(container) = get_mut(root, parent) else {
        return Err(explain(ErrorKind::Key(full_key.clone())));
    };
    let class = container.class.clone();
    let element = match container.hint.as_deref().map(|hint| &hint.kind) {
        Some(HintKind::List(element) | HintKind::Dict(element)) => Some(element.clone()),
        _ => None,
    };
    let own_struct = container.flags.structured;
    let slot = match &mut container.value {
        Value::List(list) => {
            let length = list.len() as i64;
            let index = match key {
                Key::Int(index) => index.as_i64(),
                _ => None,
            };
            let index = index.map(|i| if i < 0 { i + length } else { i });
            match index.and_then(|i| usize::try_from(i).ok()) {
                Some(index) if index < list.len() => &mut list[index],
                _ => return Err(explain(ErrorKind::Index(key.to_string()))),
            }
        }
        Value::Dict(dict) => {
            if !dict.contains_key(key) {
                check_new_key(dict, key, class.as_deref(), own_struct, flags).map_err(|error| {
                    error
                        .with_key(full_key.clone())
                        .with_origin(origin.as_ref())
                })?;
                let node = match &element {
                    None => node,
                    Some(element) => convert::convert_node(element, &node)
                        .map_err(|message| explain(ErrorKind::Validation(message)))?,
                };
                dict.insert(key.clone(), node);
                return Ok(());
            }
            &mut dict[key]
        }
        _ => return Err(explain(ErrorKind::Key(full_key.clone()))),
    };
    let typed = slot.hint.clone().filter(|hint| hint.kind != HintKind::Any);
    *slot = match typed.or(element) {
        None => node,
        Some(hint) => {
            if matches!(hint.kind, HintKind::Struct(_))
                && matches!(node.value, Value::Dict(_))
                && node.class.is_none()
            {
                let message = format!("a mapping does not replace a whole {}", hint.describe());
                return Err(explain(ErrorKind::Validation(message)));
            }
            convert::convert_node(&hint, &node)
                .map_err(|message| explain(ErrorKind::Validation(message)))?
        }
    };
    Ok(())
}

/// Whether a mapping takes a key it does not have.
fn check_new_key(
    dict: &Dict,
    key: &Key,
    class: Option<&crate::node::hint::StructType>,
    own_struct: Option<bool>,
    flags: Flags,
) -> Result<()> {
    let place = match class {
        Some(_) if own_struct == Some(false) => return Ok(()),
        Some(class) => class.name.to_owned(),
        None if flags.structured == Some(true) => "struct".to_owned(),
        None => return Ok(()),
    };
    let wanted = key.to_string();
    let names = dict.keys().filter_map(Key::as_str);
    let kind = ErrorKind::Struct {
        key: wanted.clone(),
        place,
    };
    Err(Error::from(kind).suggesting(&wanted, names))
}

/// The flags in force at a node: its own, else those of the nearest ancestor that sets them.
pub(crate) fn effective_flags(root: &Node, path: &[Key]) -> Flags {
    let mut flags = root.flags;
    for depth in 1..=path.len() {
        match node_at(root, &path[..depth]) {
            Some(node) => flags = node.flags.inherit(flags),
            None => break,
        }
    }
    flags
}

/// A path written as a full key (`a.b[0]`).
pub(crate) fn full_key(root: &Node, path: &[Key]) -> String {
    let steps: Vec<PathStep> = (0..path.len())
        .map(|depth| PathStep {
            key: path[depth].clone(),
            in_list: node_at(root, &path[..depth]).is_some_and(Node::is_list),
        })
        .collect();
    keypath::join_steps(&steps)
}

fn full_key_of_child(root: &Node, parent: &[Key], key: &Key) -> String {
    let mut path = parent.to_vec();
    path.push(key.clone());
    full_key(root, &path)
}

fn is_typed(node: &Node) -> bool {
    node.hint
        .as_ref()
        .is_some_and(|hint| hint.kind != HintKind::Any)
}

/// Makes a container that holds a special value hold content: empty, or its class's defaults.
fn expand_special(node: &mut Node) {
    let hint = node.hint.clone();
    node.value = match hint.as_deref().map(|hint| &hint.kind) {
        Some(HintKind::List(_)) => Value::List(Vec::new()),
        Some(HintKind::Struct(kind)) => {
            node.class = Some(kind.clone());
            let fields = kind.fields.iter();
            Value::Dict(
                fields
                    .map(|(name, default)| (Key::from(*name), default.clone()))
                    .collect(),
            )
        }
        _ => Value::Dict(Dict::new()),
    };
}

/// A target that has no type of its own takes the source's.
fn adopt_types(target: &mut Node, source: &Node) {
    if let Some(class) = &source.class {
        target.class = Some(Arc::clone(class));
    }
    if !is_typed(target)
        && let Some(hint) = source.hint.as_ref().filter(|_| is_typed(source))
    {
        target.hint = Some(Arc::clone(hint));
    }
}

fn adopt_flags(target: &mut Node, flags: Flags) {
    target.flags = flags.inherit(target.flags);
}
